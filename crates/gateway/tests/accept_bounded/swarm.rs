//! The processes: a gateway, and a few that host agents.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use chancery_sdk::protocol::{SendMessageConfiguration, SendMessageRequest};
use chancery_sdk::{Client, Task};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::host::{AUDIENCE, Tally, key, name};
use crate::{HOST, PRICE};

/// How many processes host the agents.
const HOSTS: usize = 3;

pub(crate) struct Swarm {
    gateway: Child,
    url: String,
    key: String,
    folder: TempDir,
    hosts: Vec<Host>,
}

struct Host {
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Swarm {
    /// So many agents behind a gateway with these settings.
    pub(crate) fn start(total: usize, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let each = total.div_ceil(HOSTS);
        let mut config = format!("{settings}[identity]\naudience = \"{AUDIENCE}\"\n");
        let mut agents = String::new();
        let hosts = (0..HOSTS).map(|host| {
            let numbers = host * each..total.min((host + 1) * each);
            let (hosting, url) = Host::start(&format!("{} {} {total}", numbers.start, numbers.end));
            for number in numbers {
                let (name, id) = (name(number), key(number).id());
                let _ = write!(config, "[[identity.agent]]\nname = \"{name}\"\nid = \"{id}\"\n");
                let _ = write!(
                    agents,
                    "[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}/agents/{name}\"\nexchange = \"stream\"\nprice = {{ per_call = {:.6} }}\n",
                    PRICE as f64 / 1_000_000.0
                );
            }
            hosting
        });
        let hosts: Vec<Host> = hosts.collect();
        std::fs::write(folder.path().join("chancery.toml"), config + &agents).expect("it is written");
        let key = run(folder.path(), &["key", "create", "--caller", "user"]).trim().to_owned();
        let (gateway, url) = serve(folder.path());
        hosts.iter().for_each(|host| host.tell(&format!("gateway {url}")));
        Self { gateway, url, key, folder, hosts }
    }

    async fn client(&self) -> Client {
        let client = Client::builder().bearer(&self.key).request_timeout(Duration::from_secs(600)).retries(0);
        client.connect(format!("{}/agents/{}", self.url, name(0))).await.expect("the first agent is there")
    }

    /// Has the first agent do something, and waits until that is done.
    pub(crate) async fn send(&self, text: &str) {
        let sent = self.client().await.send(text).await.expect("the root is let through");
        let state = sent.task().map(|task| task.status.state.as_str());
        assert_eq!(state, Some("TASK_STATE_COMPLETED"));
    }

    /// Has them all work on and on. Gives the root's task when nobody is called any more.
    pub(crate) async fn start_holding(&self) -> Task {
        let mut request = SendMessageRequest::from("hold");
        let at_once = SendMessageConfiguration { return_immediately: true, ..Default::default() };
        request.configuration = Some(at_once);
        let sent = self.client().await.send(request).await.expect("the root is let through");
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let tally = self.tally("tally");
            let happened = tally.called.len() + tally.refused.values().sum::<usize>();
            if happened == before && self.open_calls() == tally.called.len() {
                return sent.task().expect("it has one").clone();
            }
            before = happened;
        }
    }

    pub(crate) async fn cancel(&self, root: &Task) {
        let task = self.client().await.cancel(root.id.clone()).await.expect("it can be canceled");
        assert_eq!(task.status.state.as_str(), "TASK_STATE_CANCELED");
    }

    /// What each call from outside has cost with all that it led to, by the gateway's own records.
    pub(crate) fn cost_of_roots(&self) -> Vec<u64> {
        let told = run(self.folder.path(), &["spend", "roots", "--limit", "100", "-o", "json"]);
        let cost = |line: &str| {
            let root: Value = serde_json::from_str(line).expect("it is JSON");
            root["charged"]["microUsd"].as_u64().unwrap_or_else(|| panic!("{root}"))
        };
        told.lines().map(cost).collect()
    }

    pub(crate) fn open_calls(&self) -> usize {
        let told = run(self.folder.path(), &["admin", "-o", "json", "calls"]);
        let told: Value = serde_json::from_str(&told).expect("it is JSON");
        told["calls"].as_array().expect("a list").len()
    }

    /// What has happened at all agents together.
    pub(crate) fn tally(&self, how: &str) -> Tally {
        let mut all = Tally::default();
        for host in &self.hosts {
            let tally = host.ask(how);
            all.called.extend(tally.called);
            all.finished += tally.finished;
            all.dropped += tally.dropped;
            all.believed += tally.believed;
            for (reason, count) in tally.refused {
                *all.refused.entry(reason).or_default() += count;
            }
        }
        all
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        let children = self.hosts.iter_mut().map(|host| &mut host.child).chain([&mut self.gateway]);
        children.for_each(|child| {
            let _ = child.kill().and_then(|()| child.wait());
        });
    }
}

impl Host {
    fn start(which: &str) -> (Self, String) {
        let mut child = Command::new(std::env::current_exe().expect("this is a program"))
            .env(HOST, which)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut url = String::new();
        stdout.read_line(&mut url).expect("it says where it is");
        let pipes = Mutex::new((child.stdin.take().expect("it is piped"), stdout));
        (Self { child, pipes }, url.trim().to_owned())
    }

    fn tell(&self, line: &str) {
        writeln!(self.pipes.lock().0, "{line}").expect("it listens");
    }

    fn ask(&self, line: &str) -> Tally {
        self.tell(line);
        let mut text = String::new();
        self.pipes.lock().1.read_line(&mut text).expect("it answers");
        serde_json::from_str(&text).expect("it is a tally")
    }
}

fn chancery(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.current_dir(folder).env_clear();
    command
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let ran = chancery(folder).args(arguments).output().expect("it runs");
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("it prints text")
}

fn serve(folder: &Path) -> (Child, String) {
    let mut child = chancery(folder)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("RUST_LOG", "warn")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the gateway starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it says something");
    // It names every agent, and somebody has to listen.
    std::thread::spawn(move || stdout.lines().for_each(drop));
    let url = line.trim().strip_prefix("Chancery at ").expect("it says where it is").to_owned();
    (child, url)
}
