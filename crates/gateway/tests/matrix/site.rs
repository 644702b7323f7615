//! The gateway that is asked, who asks, and what there is to ask for.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rules::Who;
use crate::wire::{Ask, PATIENCE, Wires};

/// Where notifications are to go; nothing is ever sent there.
pub(crate) const RECEIVER: &str = "http://127.0.0.1:10009/";

/// So many tasks wait in the inbox.
const LEASES: usize = 24;

/// The agent that is there for members alone, and one of a name as long that is nowhere.
const HIDDEN: &str = "conformance";
const NOWHERE: &str = "confirmance";

const CONFIG: &str = r#"
[server]
probes = true
anonymous = ANONYMOUS
[server.limits]
wrong_credentials_per_minute = 1000000
[push]
allow_egress = ["127.0.0.0/8"]
[rate.caller]
per_second = 100000
burst = 100000
[policy.all]
max_concurrency = 1000
[policy.closed]
agents = ["echo"]
operations = ["ListTasks"]
[policy.open]
groups = ["staff"]
agents = ["echo"]
operations = ["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "GetExtendedAgentCard"]
[[agent]]
name = "ask"
kind = "builtin"
grpc_listen = "PORT"
[[agent]]
name = "echo"
kind = "builtin"
[[agent]]
name = "conformance"
kind = "builtin"
exposed = false
[[agent]]
name = "desk"
kind = "inbox"
inbox = { lease_ms = 3600000 }
[[agent]]
name = "safe"
kind = "inbox"
exposed = false
[[agent]]
name = "it"
kind = "command"
[agent.command]
run = ["/bin/sh", "-c", SCRIPT]
network = "host"
write = [FOLDER]
max_duration_ms = 3600000
"#;

/// What a request speaks of.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) agent: String,
    pub(crate) skill: String,
    /// A task, and a configuration of its notifications.
    pub(crate) task: String,
    pub(crate) config: String,
    /// What a client of v0.1 calls a task.
    pub(crate) name: String,
    /// Tells this request from all others.
    pub(crate) tag: String,
    /// What is said.
    pub(crate) text: String,
    /// An agent with an inbox, a task in it, and its lease.
    pub(crate) inbox: String,
    pub(crate) item: String,
    pub(crate) lease: u64,
}

/// A gateway, and everybody who asks.
pub(crate) struct Site {
    child: Child,
    folder: TempDir,
    pub(crate) wires: Wires,
    credentials: HashMap<Who, Vec<(&'static str, String)>>,
    counter: AtomicU64,
    /// What there is of the owner's, and of the turn's.
    pub(crate) of_owner: Standing,
    pub(crate) of_turn: Standing,
    leased: Mutex<Vec<Standing>>,
}

impl Standing {
    /// Something that is nowhere.
    pub(crate) fn nobody() -> Self {
        Self {
            agent: "ask".to_owned(),
            skill: "greet".to_owned(),
            task: "01999999-9999-7999-8999-999999999999".to_owned(),
            config: "config-1".to_owned(),
            name: "name-00000000".to_owned(),
            tag: "tag-00000000".to_owned(),
            text: "hello".to_owned(),
            inbox: "desk".to_owned(),
            item: "01999999-9999-7999-8999-999999999998".to_owned(),
            lease: 1,
        }
    }

    /// The values that are named, the longest first, and what stands for them.
    pub(crate) fn values(&self) -> [(&str, &'static str); 7] {
        [
            (&self.task, "TASK"),
            (&self.item, "ITEM"),
            (&self.name, "NAME"),
            (&self.tag, "TAG"),
            (&self.agent, "AGENT"),
            (&self.skill, "SKILL"),
            (&self.inbox, "INBOX"),
        ]
    }

    /// Speaks of the agent that members alone reach, and its inbox.
    pub(crate) fn hidden(mut self) -> Self {
        (self.agent, self.skill, self.inbox) = (HIDDEN.to_owned(), HIDDEN.to_owned(), "safe".to_owned());
        self
    }

    /// Speaks of the agent that is for the group.
    pub(crate) fn of_group(mut self) -> Self {
        (self.agent, self.skill) = ("echo".to_owned(), "echo".to_owned());
        self
    }

    /// Speaks of agents that are nowhere, with names as long.
    pub(crate) fn elsewhere(mut self) -> Self {
        let nowhere = |name: &str| match name {
            HIDDEN => NOWHERE.to_owned(),
            name => name.chars().rev().collect(),
        };
        self.agent = nowhere(&self.agent);
        self.skill = nowhere(&self.skill);
        self.inbox = nowhere(&self.inbox);
        self
    }
}

impl Site {
    /// Where anonymous callers are let in, or are not.
    pub(crate) async fn start(anonymous: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        std::fs::create_dir(&work).expect("a folder");
        open_to_all(folder.path());
        open_to_all(&work);
        let port = free_port();
        std::fs::write(folder.path().join("chancery.toml"), config(anonymous, &port, &work))
            .expect("it is written");
        let credentials = keys(folder.path());
        let (child, place) = serve(folder.path());
        let door: Value = serde_json::from_str(
            &std::fs::read_to_string(folder.path().join("chancery-data/admin.json"))
                .expect("it is looked after"),
        )
        .expect("JSON");
        let admin = door["url"].as_str().expect("a URL").trim_start_matches("http://").to_owned();
        let wires = Wires::to(&place, &port, &admin).await;
        let nobody = Standing::nobody();
        let counter = AtomicU64::new(1);
        let leased = Mutex::default();
        let mut site = Self {
            child,
            folder,
            wires,
            credentials,
            counter,
            of_owner: nobody.clone(),
            of_turn: nobody,
            leased,
        };
        site.know(Who::Operator, door["token"].as_str().expect("a token"));
        site.give_turn(&work).await;
        site.of_owner = site.standing(Who::Owner, "name-of-owner").await;
        site.of_turn = site.standing(Who::Turn, "name-of-agent").await;
        site.leased = Mutex::new(site.lease().await);
        site
    }

    fn know(&mut self, who: Who, key: &str) {
        self.credentials.insert(who, vec![("authorization", format!("Bearer {key}"))]);
    }

    pub(crate) fn credentials(&self, who: Who) -> &[(&'static str, String)] {
        self.credentials.get(&who).map_or(&[], Vec::as_slice)
    }

    /// The owner calls `it`, which works until the gateway ends; what it was given for that is told.
    async fn give_turn(&mut self, work: &Path) {
        let mut at = self.fresh();
        (at.agent, at.text) = ("it".to_owned(), "go\n".to_owned());
        self.send(Who::Owner, &at).await;
        let file = work.join("given");
        let written = async {
            while !file.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, written).await.expect("the program is told");
        let text = std::fs::read_to_string(file).expect("it is text");
        let (token, lineage) = text.trim().split_once(' ').expect("both are given");
        self.know(Who::Turn, token);
        let lineage = ("chancery-lineage", lineage.to_owned());
        for (thief, of) in [(Who::Thief, Who::Other), (Who::ThiefElsewhere, Who::OtherRealm)] {
            let mut credentials = self.credentials(of).to_vec();
            credentials.push(lineage.clone());
            self.credentials.insert(thief, credentials);
        }
        self.credentials.insert(Who::Bearer, vec![lineage.clone()]);
        self.credentials.insert(Who::Stray, vec![lineage]);
    }

    /// Something that is nowhere, with a tag of its own.
    pub(crate) fn fresh(&self) -> Standing {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let tag = format!("tag-{number:08}");
        Standing { tag, ..Standing::nobody() }
    }

    /// Sends a message that nobody waits for; gives the task.
    async fn send(&self, who: Who, at: &Standing) -> String {
        let body = json!({"message": {"messageId": at.tag, "role": "ROLE_USER", "parts": [{"text": at.text}]},
            "configuration": {"returnImmediately": true}});
        let ask = Ask::http(Method::POST, format!("/agents/{}/message:send", at.agent), Some(&body));
        let answer = self.wires.send(&ask.with("a2a-version", "1.0"), self.credentials(who)).await;
        answer.json()["task"]["id"].as_str().unwrap_or_else(|| panic!("no task: {answer:?}")).to_owned()
    }

    /// What there is of somebody's from the beginning, in the words of every version.
    async fn standing(&self, who: Who, name: &str) -> Standing {
        let at = Standing { name: name.to_owned(), ..self.own(who).await };
        for of_fleet in [false, true] {
            self.begin_oldest(who, of_fleet, &at).await;
        }
        at
    }

    /// A task that waits for its caller, with a receiver of notifications where its owner may have one.
    pub(crate) async fn own(&self, who: Who) -> Standing {
        let mut at = self.fresh();
        at.text = secret(who);
        at.task = self.send(who, &at).await;
        if who == Who::Owner {
            let body = json!({"id": at.config, "url": RECEIVER});
            let path = format!("/agents/ask/tasks/{}/pushNotificationConfigs", at.task);
            let ask = Ask::http(Method::POST, path, Some(&body)).with("a2a-version", "1.0");
            let answer = self.wires.send(&ask, self.credentials(who)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        at
    }

    /// The same for a client of v0.1, which has a name for it, at the agent or at the fleet.
    pub(crate) async fn own_oldest(&self, who: Who, of_fleet: bool) -> Standing {
        let mut at = self.fresh();
        at.name = at.tag.replace("tag-", "name-");
        self.begin_oldest(who, of_fleet, &at).await;
        at
    }

    async fn begin_oldest(&self, who: Who, of_fleet: bool, at: &Standing) {
        let path = if of_fleet { "/" } else { "/agents/ask/" };
        let metadata = json!({"urn:chancery:ext:skill:v1": "greet"});
        let message =
            json!({"role": "user", "parts": [{"type": "text", "text": secret(who)}], "metadata": metadata});
        let mut calls = vec![("tasks/send", json!({"id": at.name, "message": message}))];
        if who == Who::Owner {
            let config = json!({"id": at.name, "pushNotificationConfig": {"url": RECEIVER}});
            calls.push(("tasks/pushNotification/set", config));
        }
        for (method, params) in calls {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let ask = Ask::http(Method::POST, path, Some(&body)).with("a2a-version", "0.1");
            let answer = self.wires.send(&ask, self.credentials(who)).await;
            assert!(answer.json()["result"].is_object(), "{method}: {answer:?}");
        }
    }

    /// Puts tasks into the inbox, which the worker takes: none waits there later.
    async fn lease(&self) -> Vec<Standing> {
        let mut leased = Vec::new();
        for _ in 0..LEASES {
            let at = Standing { agent: "desk".to_owned(), ..self.fresh() };
            leased.push(Standing { item: self.send(Who::Owner, &at).await, ..self.fresh() });
        }
        let ask = Ask::http(Method::GET, "/agents/desk/inbox/stream", None);
        let read = self.wires.send_until(&ask, self.credentials(Who::Worker), LEASES).await;
        for data in read.text.split("data: ").skip(1).filter_map(|data| data.lines().next()) {
            let data: Value = serde_json::from_str(data).expect("JSON");
            let one = leased.iter_mut().find(|at| data["taskId"] == at.item.as_str());
            one.expect("it is known").lease = data["lease"].as_u64().expect("a lease");
        }
        assert!(leased.iter().all(|at| at.lease > 1), "all were given out: {}", read.text);
        leased
    }

    /// A task in the inbox that the worker has taken, and that nothing has been said about.
    pub(crate) fn leased(&self) -> Standing {
        self.leased.lock().pop().expect("there are enough")
    }

    /// Somebody's tasks and the receivers of one, as they see them.
    pub(crate) async fn seen(&self, who: Who, at: &Standing) -> String {
        let mut seen = String::new();
        for path in ["/agents/ask/", "/"] {
            let params = json!({"id": at.name});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params});
            let ask = Ask::http(Method::POST, path, Some(&body)).with("a2a-version", "0.1");
            let answer = self.wires.send(&ask, self.credentials(who)).await;
            assert!(answer.json()["result"].is_object(), "{answer:?}");
            seen += &answer.text;
        }
        for below in ["", "/pushNotificationConfigs"] {
            let ask = Ask::http(Method::GET, format!("/agents/ask/tasks/{}{below}", at.task), None);
            seen += &self.wires.send(&ask.with("a2a-version", "1.0"), self.credentials(who)).await.text;
        }
        seen
    }

    /// What an answer tells somebody that is not theirs to know.
    pub(crate) fn leaks(&self, who: Who, text: &str) -> Option<&'static str> {
        let is_turn = matches!(who, Who::Turn | Who::Bearer);
        let others = [(Who::Owner, "what the owner said"), (Who::Turn, "what the turn said")];
        let as_whom = if is_turn { Who::Turn } else { who };
        let told = others.into_iter().find(|(whose, _)| *whose != as_whom && text.contains(&secret(*whose)));
        let is_hidden = !is_turn && who != Who::Operator && text.contains(HIDDEN);
        told.map(|(_, what)| what).or(is_hidden.then_some("an agent that is for members alone"))
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What somebody says, which nobody else may read.
fn secret(who: Who) -> String {
    format!("for {who:?} alone")
}

fn config(anonymous: bool, port: &str, work: &Path) -> String {
    let script =
        format!("cd {work:?}; echo \"$CHANCERY_TOKEN $CHANCERY_LINEAGE\" > new; mv new given; sleep 3600");
    CONFIG
        .replace("ANONYMOUS", &anonymous.to_string())
        .replace("PORT", port)
        .replace("SCRIPT", &Value::from(script).to_string())
        .replace("FOLDER", &format!("{work:?}"))
}

/// Makes everybody's keys; one is taken back.
fn keys(folder: &Path) -> HashMap<Who, Vec<(&'static str, String)>> {
    let made = [
        (Who::Owner, "--caller alice --group staff"),
        (Who::Other, "--caller bob"),
        (Who::OtherRealm, "--caller alice --realm other"),
        (Who::GroupMember, "--caller carol --group staff"),
        (Who::Revoked, "--caller alice --group staff"),
        (Who::Worker, "--caller desk --agent desk"),
        (Who::HiddenWorker, "--caller safe --agent safe"),
        (Who::WorkerElsewhere, "--caller desk --agent desk --realm other"),
    ];
    let mut keys = HashMap::new();
    for (who, whose) in made {
        let mut arguments = vec!["key", "create"];
        arguments.extend(whose.split(' '));
        let key = run(folder, &arguments).trim().to_owned();
        if who == Who::Revoked {
            run(folder, &["key", "revoke", key.split('_').nth(1).expect("an id")]);
        }
        // There are two headers for it.
        let shown = match who {
            Who::OtherRealm | Who::GroupMember => ("x-api-key", key),
            _ => ("authorization", format!("Bearer {key}")),
        };
        keys.insert(who, vec![shown]);
    }
    keys
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    let ran = command.current_dir(folder).env_clear().args(arguments).output().expect("it runs");
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("it prints text")
}

fn serve(folder: &Path) -> (Child, String) {
    let log = File::create(folder.join("log")).expect("a log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_chancery"))
        .current_dir(folder)
        .env_clear()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the gateway starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says something");
    let place = line.trim().strip_prefix("Chancery at http://");
    let place = place.unwrap_or_else(|| panic!("{:?}", std::fs::read_to_string(folder.join("log"))));
    (child, place.to_owned())
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string()
}

/// The program runs as somebody else.
fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
}
