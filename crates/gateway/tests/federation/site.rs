//! Two gateways and the agents behind them, whose parts the tests play.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use bytes::Bytes;
use chancery_protocol::LINEAGE_HEADER;
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Server, Turn};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

/// Every call has a connection of its own, so that none is lost with a gateway that was killed before.
static HTTP: LazyLock<Client<HttpConnector, Full<Bytes>>> =
    LazyLock::new(|| Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http());

/// Two gateways that list each other: `a` is behind the first one and `b` behind the second, each has the other's as its own
/// agent as well, and `echo`.
pub(crate) struct Site {
    gateways: [Gateway; 2],
    /// `a` and `b`.
    pub(crate) puppets: [Puppet; 2],
}

/// An agent that does what the test does in its place.
pub(crate) struct Puppet(mpsc::UnboundedReceiver<Scene>);

/// A call to a puppet. It goes on until it is [ended](Scene::end).
pub(crate) struct Scene {
    pub(crate) lineage: Option<String>,
    over: oneshot::Sender<()>,
}

struct Strings(mpsc::UnboundedSender<Scene>);

/// Killed when dropped.
struct Gateway {
    child: Option<Child>,
    port: u16,
    folder: TempDir,
}

impl Site {
    /// With these settings for each. `unlisted` is for one that lists nobody.
    pub(crate) async fn start(settings: [&str; 2]) -> Self {
        let mut gateways = [Gateway::new(), Gateway::new()];
        let ids = gateways.each_ref().map(Gateway::id);
        let (puppets, urls) = {
            let (one, other) = (Puppet::start().await, Puppet::start().await);
            ([one.0, other.0], [one.1, other.1])
        };
        let ports = gateways.each_ref().map(|gateway| gateway.port);
        for (place, gateway) in gateways.iter_mut().enumerate() {
            let other = 1 - place;
            let (own, others) = (["a", "b"][place], ["a", "b"][other]);
            let (settings, lists) = match settings[place] {
                "unlisted" => ("", false),
                settings => (settings, true),
            };
            let price = ["0.05", "0.01"][place];
            let mut config = settings.to_owned();
            if lists {
                config += &format!("[[identity.gateway]]\nname = \"other\"\nid = \"{}\"\n", ids[other]);
            }
            let there = format!("http://127.0.0.1:{}/agents/{others}/", ports[other]);
            for (name, url) in [(own, &urls[place]), (others, &there)] {
                config += &format!(
                    "[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\nexchange = \"stream\"\nprice = {{ per_call = {price} }}\n"
                );
            }
            config += &format!(
                "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = {{ per_call = {price} }}\n"
            );
            std::fs::write(gateway.folder.path().join("chancery.toml"), config).expect("it is written");
        }
        gateways.iter_mut().for_each(Gateway::serve);
        Self { gateways, puppets }
    }

    /// An agent of a gateway.
    pub(crate) fn url(&self, gateway: usize, agent: &str) -> String {
        format!("http://127.0.0.1:{}/agents/{agent}/", self.gateways[gateway].port)
    }

    /// As a crash would have it.
    pub(crate) fn kill_and_restart(&mut self, gateway: usize) {
        self.gateways[gateway].stop();
        self.gateways[gateway].serve();
    }

    /// Runs a command in the folder of a gateway.
    pub(crate) fn run(&self, gateway: usize, arguments: &[&str]) -> String {
        run(self.gateways[gateway].folder.path(), arguments)
    }
}

/// Sends a message on behalf of somebody, and waits for what comes of it.
pub(crate) async fn call(url: String, lineage: Option<String>) -> Value {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "go on" }] });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
    let request =
        hyper::Request::post(url).header("content-type", "application/json").header("a2a-version", "1.0");
    let request = match lineage {
        Some(lineage) => request.header(LINEAGE_HEADER, lineage),
        None => request,
    };
    let request = request.body(Full::from(body.to_string())).expect("a request");
    let response = match HTTP.request(request).await {
        Ok(response) => response.into_body().collect().await.map(|body| body.to_bytes()).ok(),
        Err(_) => None,
    };
    response.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_else(|| json!({ "error": "lost" }))
}

// === impl Puppet ===

impl Puppet {
    /// On a free port.
    async fn start() -> (Self, String) {
        let (strings, scenes) = mpsc::unbounded_channel();
        let agent = AgentSpec::new("puppet", Strings(strings));
        let server = Server::builder().agent(agent).bind("127.0.0.1:0").await.expect("a free port");
        let url = server.url().to_owned();
        tokio::spawn(server.run());
        (Self(scenes), url)
    }

    /// The next call.
    pub(crate) async fn called(&mut self) -> Scene {
        self.0.recv().await.expect("it is served for as long as the test runs")
    }
}

impl Scene {
    pub(crate) fn end(self) {
        let _ = self.over.send(());
    }
}

impl Agent for Strings {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        turn.working("on stage").await?;
        let (over, ended) = oneshot::channel();
        let _ = self.0.send(Scene { lineage: turn.lineage(), over });
        let _ = ended.await;
        Ok(Outcome::text("done"))
    }
}

// === impl Gateway ===

impl Gateway {
    /// Not running yet, but known by a key and at a port that was free.
    fn new() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        Self { child: None, port: free.port(), folder: tempfile::tempdir().expect("a folder") }
    }

    /// What others list it by.
    fn id(&self) -> String {
        let empty = self.folder.path().join("chancery.toml");
        std::fs::write(empty, "").expect("it is written");
        let told = run(self.folder.path(), &["key", "signing"]);
        let id = told.lines().find_map(|line| line.strip_prefix("agent id"));
        id.unwrap_or_else(|| panic!("{told}")).trim().to_owned()
    }

    fn serve(&mut self) {
        let mut child = chancery(self.folder.path())
            .args(["serve", "--listen", &format!("127.0.0.1:{}", self.port)])
            .env("RUST_LOG", "error")
            .env("CHANCERY__SERVER__ANONYMOUS", "true")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the gateway starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("it says something");
        assert!(line.starts_with("Chancery at "), "{line}");
        std::thread::spawn(move || stdout.lines().for_each(drop));
        self.child = Some(child);
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
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
