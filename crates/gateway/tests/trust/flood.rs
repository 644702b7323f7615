//! One tenant floods within its own limits, in every way at once: another's calls all succeed, nothing of it is lost, and the
//! memory of the gateway stays bounded.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::Running;
use crate::gateway::{chancery, folder};
use crate::started;

const CONFIG: &str = r#"
[server.limits]
connections = 200
connections_per_source = 80
streams = 20
streams_per_caller = 12
unread_mib_per_caller = 16
write_timeout_ms = 2000
[store.limits]
tasks = 300
keys = 300
calls = 300
[push]
allow_egress = ["127.0.0.0/8"]
[policy.default]
max_concurrency = 1000
[[agent]]
name = "echo"
kind = "builtin"
[[agent]]
name = "stream"
kind = "builtin"
"#;

/// Where the one who floods comes from, and where its connections come from that say next to nothing. The other one comes from
/// elsewhere.
const FLOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const IDLE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const QUIET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// What the gateway may take at most, in KiB. Unread lists alone would take more, if they were not bounded.
const MOST_KIB: usize = 512 << 10;

/// How often each kind of flood is done at least, and how often the other one calls.
const ROUNDS: usize = 40;

/// Somebody with a key, at an address.
#[derive(Clone)]
struct Tenant {
    place: SocketAddr,
    from: Ipv4Addr,
    key: String,
}

/// What a flood has done.
#[derive(Default)]
struct Flood {
    over: AtomicBool,
    done: [AtomicUsize; 5],
}

impl Tenant {
    async fn connect(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.from, 0)))?;
        socket.connect(self.place).await
    }

    /// Asks and does not read.
    async fn ask(&self, agent: &str, body: &Value, more: &str) -> std::io::Result<TcpStream> {
        let (body, key) = (body.to_string(), &self.key);
        let head = format!(
            "POST /agents/{agent}/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n\
             Connection: close\r\nX-API-Key: {key}\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = self.connect().await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        Ok(stream)
    }

    /// Asks, and reads no more than that there is an answer; none if it is a refusal.
    async fn begin(&self, agent: &str, body: &Value) -> Option<TcpStream> {
        let mut stream = self.ask(agent, body, "").await.ok()?;
        let mut begins = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut begins).await.ok()?;
        (&begins == b"HTTP/1.1 200").then_some(stream)
    }

    /// Asks and reads; the status and the answer.
    async fn call(&self, agent: &str, body: &Value, more: &str) -> std::io::Result<(String, String)> {
        let mut stream = self.ask(agent, body, more).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned()))
    }
}

fn send(method: &str, text: &str, configuration: &Value) -> Value {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message, "configuration": configuration}})
}

fn ask(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

impl Flood {
    /// Counts what was done, if it was, and says whether to go on.
    fn goes_on(&self, kind: usize, done: usize) -> bool {
        self.done[kind].fetch_add(done, Ordering::Relaxed);
        !self.over.load(Ordering::Relaxed)
    }

    fn is_heavy(&self) -> bool {
        self.done.iter().all(|done| done.load(Ordering::Relaxed) >= ROUNDS)
    }
}

/// Everything at once. What is refused was too much, and is tried again.
fn flood(tenant: &Tenant, deaf: SocketAddr) -> (Arc<Flood>, JoinSet<()>) {
    let (flood, mut all) = (Arc::new(Flood::default()), JoinSet::new());
    for worker in 0..2 {
        all.spawn(tasks_and_webhooks(flood.clone(), tenant.clone(), worker, deaf));
        all.spawn(lists(flood.clone(), tenant.clone()));
    }
    let list = ask("ListTasks", &json!({"includeArtifacts": true, "pageSize": 100}));
    all.spawn(unread(flood.clone(), tenant.clone(), 2, ("echo", list), 30));
    let stream = send("SendStreamingMessage", "stream 1000 60000", &json!({}));
    all.spawn(unread(flood.clone(), tenant.clone(), 3, ("stream", stream), 30));
    all.spawn(idle_connections(flood.clone(), Tenant { from: IDLE, ..tenant.clone() }));
    (flood, all)
}

/// Tasks and keys, each with a webhook that nobody answers.
async fn tasks_and_webhooks(flood: Arc<Flood>, tenant: Tenant, worker: usize, deaf: SocketAddr) {
    let text = "x".repeat(100_000);
    let webhook = json!({"taskPushNotificationConfig": {"url": format!("http://{deaf}/")}});
    for number in 0.. {
        let key = format!("Idempotency-Key: k{worker}-{number}\r\n");
        let told = tenant.call("echo", &send("SendMessage", &text, &webhook), &key).await;
        let plain = tenant.call("echo", &send("SendMessage", &text, &json!({})), "").await;
        let done = [told, plain].into_iter().flatten().filter(|(status, _)| status == "200").count();
        if !flood.goes_on(0, done) {
            return;
        }
    }
}

/// Lists that are read, for nothing.
async fn lists(flood: Arc<Flood>, tenant: Tenant) {
    let list = ask("ListTasks", &json!({"includeArtifacts": true, "pageSize": 100}));
    loop {
        let listed = tenant.call("echo", &list, "").await;
        if !flood.goes_on(1, usize::from(listed.is_ok_and(|(status, _)| status == "200"))) {
            return;
        }
    }
}

/// Answers that are not read, so many at a time. Each is dropped a while after it was cut off, or in the end.
async fn unread(flood: Arc<Flood>, tenant: Tenant, kind: usize, call: (&'static str, Value), most: usize) {
    let mut open = VecDeque::new();
    let mut turns = 0;
    loop {
        let begun = tenant.begin(call.0, &call.1).await;
        if !flood.goes_on(kind, usize::from(begun.is_some())) {
            return;
        }
        open.extend(begun);
        turns += 1;
        if open.len() > most || turns % 20 == 0 {
            open.pop_front();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Connections that say one byte.
async fn idle_connections(flood: Arc<Flood>, tenant: Tenant) {
    let mut open = VecDeque::new();
    loop {
        let mut done = 0;
        if let Ok(mut stream) = tenant.connect().await {
            done = usize::from(stream.write_all(b"P").await.is_ok());
            open.push_back(stream);
        }
        if !flood.goes_on(4, done) {
            return;
        }
        if open.len() > 300 {
            open.pop_front();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn resident_kib(gateway: &Running) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.0.id())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// A gateway with a key for each.
fn start() -> (Running, Tenant, Tenant, tempfile::TempDir) {
    let folder = folder(CONFIG);
    let key = |caller: &str| {
        let made =
            chancery(folder.path()).args(["key", "create", "--caller", caller]).output().expect("it runs");
        String::from_utf8(made.stdout).expect("a key is text").trim().to_owned()
    };
    let (noisy, quiet) = (key("noisy"), key("quiet"));
    let mut command = chancery(folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(std::process::Stdio::null());
    let (running, url) = started(command);
    let place: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
    let tenant = |from, key| Tenant { place, from, key };
    (running, tenant(FLOOD, noisy), tenant(QUIET, quiet), folder)
}

/// A call of the other one, which has to be answered. A hang is a failure; nothing that passes comes near it.
async fn answered(quiet: &Tenant, agent: &str, body: &Value, more: &str) -> (String, String) {
    let call = tokio::time::timeout(Duration::from_secs(60), quiet.call(agent, body, more));
    call.await.expect("it does not hang").expect("an answer")
}

/// Sends a message that nobody waits long for, and gives the task's id.
async fn sent(quiet: &Tenant, number: usize) -> String {
    let key = format!("Idempotency-Key: q{number}\r\n");
    let hello = send("SendMessage", &format!("hello {number}"), &json!({}));
    let (status, answer) = answered(quiet, "echo", &hello, &key).await;
    assert_eq!(status, "200", "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_tenant_floods_and_anothers_calls_all_succeed_in_bounded_memory() {
    let (gateway, noisy, quiet, _folder) = start();
    let deaf = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (flood, mut all) = flood(&noisy, deaf.local_addr().expect("an address"));
    let (mut tasks, mut most) = (Vec::new(), 0);
    while tasks.len() < ROUNDS || !flood.is_heavy() {
        let number = tasks.len();
        // Fewer than half of what is kept of both.
        if number < ROUNDS {
            tasks.push(sent(&quiet, number).await);
            let stream = send("SendStreamingMessage", "stream 3 0", &json!({}));
            let (status, answer) = answered(&quiet, "stream", &stream, "").await;
            assert!(status == "200" && answer.contains("TASK_STATE_COMPLETED"), "{status} {answer}");
        }
        let (status, answer) = answered(&quiet, "echo", &ask("GetTask", &json!({"id": tasks[0]})), "").await;
        assert!(status == "200" && answer.contains("TASK_STATE_COMPLETED"), "{status} {answer}");
        let (status, answer) = answered(&quiet, "echo", &ask("ListTasks", &json!({})), "").await;
        assert!(
            status == "200" && answer.contains(&format!("\"totalSize\":{}", tasks.len())),
            "{status} {answer}"
        );
        most = most.max(resident_kib(&gateway));
    }
    flood.over.store(true, Ordering::Relaxed);
    // Nothing of it has been pushed out: neither its tasks nor its keys.
    for (number, task) in tasks.iter().enumerate() {
        assert_eq!(sent(&quiet, number).await, *task, "its key repeats its task");
    }
    assert!(most < MOST_KIB, "{most} KiB");
    all.shutdown().await;
}
