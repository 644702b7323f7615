//! Secrets of every kind are planted and used, in ways that go well and in ways that fail; then everything that the gateway has
//! said to anybody but their owner is searched for them.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_control::Millis;
use chancery_control::identity::mint_agent_token;
use chancery_protocol::Timestamp;
use chancery_protocol::signing::AgentKey;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::{chancery, folder};
use crate::http::{Answer, get, post};

const FROM_ENV: &str = "planted-credential-from-the-environment";
const FROM_FILE: &str = "planted-credential-from-a-file";
const MODEL_KEY: &str = "sk-planted-key-of-a-model";
const WEBHOOK: &str = "planted-token-of-a-webhook";
const WEBHOOK_KEY: &str = "planted-credentials-of-a-webhook";
const PROMPT: &str = "planted prompt of an agent in a file";
const TEXT: &str = "planted text of a message";
const PASSPHRASE: &str = "planted passphrase of a backup";

/// Whatever is elsewhere: an agent that answers nothing but its card, a model that is not asked by the right key, a receiver that
/// wants nothing. Remembers what it was sent.
struct Elsewhere {
    url: String,
    heard: Arc<Mutex<Vec<(http::request::Parts, String)>>>,
}

impl Elsewhere {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let card = json!({"name": "far", "description": "d", "version": "1", "capabilities": {}, "skills": [],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]});
        let (log, card) = (heard.clone(), card.to_string());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, card) = (log.clone(), card.clone());
                let answer =
                    hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (log, card) = (log.clone(), card.clone());
                        async move {
                            let (head, body) = request.into_parts();
                            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                            let is_card = head.method == http::Method::GET;
                            // It says what it was told, as the careless do.
                            let told = format!("{} {:?}", String::from_utf8_lossy(&body), head.headers);
                            let is_taken = head.headers.contains_key("x-upstream");
                            log.lock().push((head, String::from_utf8_lossy(&body).into_owned()));
                            let nonsense = json!({"task": told, "message": {"parts": told}}).to_string();
                            let (status, text) = match (is_card, is_taken) {
                                (true, _) => (200, card),
                                (false, true) => (200, nonsense),
                                (false, false) => (401, told),
                            };
                            http::Response::builder()
                                .status(status)
                                .header("content-type", "application/json")
                                .body(Full::new(Bytes::from(text)))
                        }
                    });
                let serving = hyper::server::conn::http1::Builder::new();
                tokio::spawn(serving.serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { url, heard }
    }

    /// Whether something was sent that has this in its headers or its body.
    fn has_heard(&self, what: &str) -> bool {
        self.heard
            .lock()
            .iter()
            .any(|(head, body)| format!("{:?}", head.headers).contains(what) || body.contains(what))
    }

    fn header(&self, name: &str) -> Option<String> {
        let heard = self.heard.lock();
        heard.iter().find_map(|(head, _)| Some(head.headers.get(name)?.to_str().ok()?.to_owned()))
    }
}

struct Running {
    child: Child,
    url: String,
    folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Logs all that there is to log, and may leave a core as large as it likes.
    fn start(folder: TempDir) -> Self {
        let mut command = Command::new("/bin/sh");
        command.current_dir(folder.path()).env_clear().env("CHANCERY_LOG", "debug");
        command.env("UPSTREAM", FROM_ENV).env("MODEL", MODEL_KEY);
        let start = format!(
            "ulimit -S -c $(ulimit -H -c); exec {} serve --listen 127.0.0.1:0",
            env!("CARGO_BIN_EXE_chancery")
        );
        command.args(["-c", &start]).stderr(File::create(folder.path().join("log")).unwrap());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("Chancery at ").expect("it says where it is").to_owned();
        Self { child, url, folder }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = chancery(self.folder.path()).args(arguments).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {err}");
        format!("{out}{err}")
    }

    async fn say(&self, agent: &str, key: &str, configuration: Value) -> Answer {
        let url = format!("{}/agents/{agent}/message:send", self.url);
        let message = json!({"messageId": agent, "role": "ROLE_USER", "parts": [{"text": TEXT}]});
        let body = json!({"message": message, "configuration": configuration});
        post(&url, &[("A2A-Version", "1.0"), ("X-API-Key", key)], &body).await
    }
}

fn config(elsewhere: &Elsewhere, bot: &AgentKey, prompts: &str) -> String {
    let url = &elsewhere.url;
    let far = |name: &str, credential: &str| {
        format!(
            "[[agent]]\nname = {name:?}\nkind = \"a2a\"\nurl = {url:?}\npatience_ms = 100\ncredential = {{ {credential} }}\n"
        )
    };
    let by_env = far("env", "scheme = \"bearer\", secret_env = \"UPSTREAM\"");
    let by_file = far("file", "scheme = \"header\", header = \"X-Upstream\", secret_file = \"upstream.key\"");
    format!(
        "[push]\nallow_egress = [\"127.0.0.0/8\"]\n\
         [identity]\naudience = \"here\"\n[[identity.agent]]\nname = \"bot\"\nid = \"{}\"\n\
         [[agent]]\nname = \"echo\"\nkind = \"builtin\"\n{by_env}{by_file}\
         [[markdown]]\nfolder = {prompts:?}\nmodel = {{ url = \"{url}/v1\", model = \"small\", key_env = \"MODEL\", max_retries = 0 }}\n",
        bot.id()
    )
}

/// Credentials that are shown to the gateway, good ones and others.
struct Shown {
    key: String,
    altered: String,
    revoked: String,
    token: String,
    /// For another audience.
    other_token: String,
}

impl Shown {
    fn of(key: String, revoked: String, bot: &AgentKey) -> Self {
        let now = Millis(u64::try_from(Timestamp::now().as_millis()).unwrap());
        let token = |audience| mint_agent_token(bot, audience, Duration::from_secs(50), None, now).unwrap();
        let altered = format!("{}x", &key[..key.len() - 1]);
        Self { token: token("here"), other_token: token("elsewhere"), key, altered, revoked }
    }

    /// The secret part of a key alone is a secret, too, and so is the signature of a token.
    fn secrets(&self) -> Vec<(&'static str, String)> {
        let after = |text: &str, mark| text.rsplit_once(mark).map(|(_, rest)| rest.to_owned()).unwrap();
        vec![
            ("API key", after(&self.key, '_')),
            ("altered API key", after(&self.altered, '_')),
            ("revoked API key", after(&self.revoked, '_')),
            ("agent JWT", after(&self.token, '.')),
            ("refused agent JWT", after(&self.other_token, '.')),
        ]
    }
}

/// A gateway that has all the secrets.
fn prepared(elsewhere: &Elsewhere, bot: &AgentKey, prompts: &TempDir) -> (Running, Shown) {
    let prompt = format!("---\ndescription: Writes\n---\n{PROMPT}\n");
    std::fs::write(prompts.path().join("writer.md"), prompt).unwrap();
    let folder = folder(&config(elsewhere, bot, prompts.path().to_str().unwrap()));
    for (name, secret) in [("upstream.key", FROM_FILE), ("passphrase", PASSPHRASE)] {
        std::fs::write(folder.path().join(name), secret).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.path().join(name), private).unwrap();
    }
    let make = |caller: &str| {
        let made = chancery(folder.path()).args(["key", "create", "--caller", caller]).output().unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let shown = Shown::of(make("alice"), make("mallory"), bot);
    (Running::start(folder), shown)
}

/// Has every agent called, most of them in vain. Gives what the caller is told, but for what it said itself.
async fn call_all(gateway: &Running, elsewhere: &Elsewhere, key: &str) -> Vec<String> {
    let push = json!({"url": format!("{}/hook", elsewhere.url), "token": WEBHOOK,
        "authentication": {"scheme": "Bearer", "credentials": WEBHOOK_KEY}});
    assert_eq!(gateway.say("echo", key, json!({"taskPushNotificationConfig": push})).await.status, 200);
    let mut told = Vec::new();
    for agent in ["env", "file", "writer"] {
        told.push(gateway.say(agent, key, json!({})).await.text.replace(TEXT, "…"));
    }
    for (what, secret) in
        [("environment", FROM_ENV), ("file", FROM_FILE), ("model", MODEL_KEY), ("prompt", PROMPT)]
    {
        assert!(elsewhere.has_heard(secret), "{what}: it was not used");
    }
    while !elsewhere.has_heard(WEBHOOK) || !elsewhere.has_heard(WEBHOOK_KEY) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    told
}

/// Shows every credential, and waits until it is on record that most were refused.
async fn show_all(gateway: &Running, shown: &Shown) -> Vec<String> {
    gateway.run(&["key", "revoke", shown.revoked.split('_').nth(1).unwrap()]);
    let tasks = format!("{}/agents/echo/tasks", gateway.url);
    let bearer = |token: &str| format!("Bearer {token}");
    let cut = &shown.token[..shown.token.len() - 2];
    let mut told = Vec::new();
    for ((name, value), status) in [
        (("Authorization", bearer(&shown.token)), 200),
        (("Authorization", bearer(&shown.other_token)), 401),
        (("Authorization", bearer(cut)), 401),
        (("Authorization", format!("Basic {}", shown.key)), 401),
        (("X-API-Key", shown.altered.clone()), 401),
        (("X-API-Key", shown.revoked.clone()), 401),
    ] {
        let headers = [("A2A-Version", "1.0"), (name, &*value)];
        // It is revoked within a moment.
        while value == shown.revoked && get(&tasks, &headers).await.status == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let answer = get(&tasks, &headers).await;
        assert_eq!(answer.status, status, "{name}: {value}");
        told.push(answer.text);
    }
    loop {
        let log = gateway.run(&["audit", "tail", "-n", "1000"]);
        if ["key_revoked", "key_unknown", "token_audience", "scheme"]
            .iter()
            .all(|reason| log.contains(reason))
        {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Whatever operators and callers can ask.
async fn ask_around(gateway: &Running, key: &str) -> Vec<String> {
    gateway.run(&["admin", "contain", "echo", "--reason", "a test"]);
    gateway.run(&["store", "backup", "sealed.tar", "--passphrase-file", "passphrase"]);
    let calls = gateway.run(&["spend", "roots", "-o", "json"]);
    let root: Value = serde_json::from_str(calls.lines().next().unwrap()).unwrap();
    let commands = [
        &["admin", "metrics"][..],
        &["admin", "calls"],
        &["admin", "agents", "-o", "json"],
        &["admin", "budgets"],
        &["spend", "export"],
        &["trace", "show", root["root"].as_str().unwrap()],
        &["key", "list"],
        &["audit", "export"],
        &["audit", "tail", "-n", "1000"],
    ];
    let mut told: Vec<_> = commands.iter().map(|command| gateway.run(command)).collect();
    let card = ".well-known/agent-card.json";
    for path in [card, "agents/", &format!("agents/env/{card}"), &format!("agents/writer/{card}")] {
        let headers = [("A2A-Version", "1.0"), ("X-API-Key", key)];
        told.push(get(&format!("{}/{path}", gateway.url), &headers).await.text);
    }
    told
}

/// Ends it by a crash, which leaves nothing of its memory. Gives what it has logged and written down.
fn crash(gateway: &mut Running) -> Vec<String> {
    let id = gateway.child.id().to_string();
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{cores}");
    assert!(Command::new("kill").args(["-ABRT", &id]).status().unwrap().success());
    assert!(!gateway.child.wait().unwrap().core_dumped());
    let log = std::fs::read_to_string(gateway.folder.path().join("log")).unwrap();
    assert!(log.contains("DEBUG"), "it logs at debug level");
    let audit = crate::database(gateway.folder.path());
    let mut select = audit.prepare("SELECT body FROM audit").unwrap();
    let rows = select.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    rows.chain([log]).collect()
}

#[tokio::test]
async fn planted_secrets_are_nowhere_but_where_they_belong() {
    let (elsewhere, bot) = (Elsewhere::start().await, AgentKey::generate().unwrap());
    let prompts = tempfile::tempdir().unwrap();
    let (mut gateway, shown) = prepared(&elsewhere, &bot, &prompts);
    let mut told = call_all(&gateway, &elsewhere, &shown.key).await;
    told.extend(show_all(&gateway, &shown).await);
    told.extend(ask_around(&gateway, &shown.key).await);
    told.extend(crash(&mut gateway));
    let lineage = elsewhere.header("chancery-lineage").expect("an agent elsewhere is given a lineage token");
    let mut secrets = shown.secrets();
    secrets.push(("lineage token", lineage));
    let planted = [
        ("credential from the environment", FROM_ENV),
        ("credential from a file", FROM_FILE),
        ("model key", MODEL_KEY),
        ("webhook token", WEBHOOK),
        ("webhook credentials", WEBHOOK_KEY),
        ("prompt", PROMPT),
        ("message", TEXT),
        ("passphrase", PASSPHRASE),
    ];
    secrets.extend(planted.map(|(what, secret)| (what, secret.to_owned())));
    for (what, secret) in &secrets {
        for text in &told {
            let line = text.lines().find(|line| line.contains(secret.as_str()));
            assert!(line.is_none(), "{what}: {}", line.unwrap_or_default());
        }
    }
}
