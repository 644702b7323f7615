//! A gateway in a process of its own, with a folder of its own, whose log can be read.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use chancery_sdk::Client;
use chancery_sdk::protocol::StreamResponse;
use tempfile::TempDir;

/// Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    url: String,
    folder: TempDir,
    variables: Vec<(String, String)>,
    /// Keys that were made before it was started.
    pub(crate) keys: Vec<String>,
}

/// A key for somebody, who may be an agent of the fleet.
pub(crate) struct Keys {
    pub(crate) caller: &'static str,
    pub(crate) agent: Option<&'static str>,
}

/// Has everybody let in.
const ANONYMOUS: (&str, &str) = ("CHANCERY__SERVER__ANONYMOUS", "true");

/// The binary that is tested.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_chancery");

impl Gateway {
    /// With this configuration, on a free port.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(config: &str, variables: &[(&str, &str)]) -> Self {
        let folder = folder(config);
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (child, url) = serve(folder.path(), &variables, true);
        Self { child, url, folder, variables, keys: Vec::new() }
    }

    /// With keys that are made before.
    pub(crate) fn start_with_keys(config: &str, keys: &[Keys]) -> Self {
        let folder = folder(config);
        let keys = keys.iter().map(|key| make(folder.path(), key)).collect();
        let (child, url) = serve(folder.path(), &[], false);
        Self { child, url, folder, variables: Vec::new(), keys }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        let url = format!("{}/agents/{name}", self.url);
        Client::builder().retries(0).connect(&url).await.expect("the agent is there")
    }

    /// Runs another command in the same folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        let ran =
            command.current_dir(self.folder.path()).env_clear().args(arguments).output().expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("it prints text")
    }

    /// Writes another configuration, which the gateway is to notice.
    pub(crate) fn configure(&self, config: &str) {
        let (file, draft) = (self.folder.path().join("chancery.toml"), self.folder.path().join("draft"));
        std::fs::write(&draft, config).expect("it is written");
        std::fs::rename(draft, file).expect("it takes the place of the other");
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("there is a log")
    }

    /// As a crash would have it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        (self.child, self.url) = serve(self.folder.path(), &self.variables, self.keys.is_empty());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

fn make(folder: &Path, key: &Keys) -> String {
    let mut command = Command::new(BINARY);
    command.current_dir(folder).env_clear().args(["key", "create", "--caller", key.caller]);
    if let Some(agent) = key.agent {
        command.args(["--agent", agent]);
    }
    let made = command.output().expect("it runs");
    String::from_utf8(made.stdout).expect("a key is text").trim().to_owned()
}

/// What a gateway says that does not start.
pub(crate) fn refusal(config: &str, arguments: &[&str]) -> String {
    let folder = folder(config);
    let mut command = Command::new(BINARY);
    command.current_dir(folder.path()).env_clear().envs([ANONYMOUS]).args(arguments);
    let ran = command.output().expect("it runs");
    assert!(!ran.status.success(), "it has started");
    String::from_utf8(ran.stderr).expect("it prints text")
}

fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    folder
}

fn serve(folder: &Path, variables: &[(String, String)], anonymous: bool) -> (Child, String) {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut child = Command::new(BINARY)
        .current_dir(folder)
        .env_clear()
        .envs(anonymous.then_some(ANONYMOUS))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the gateway starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says something");
    let said = line.trim().strip_prefix("Chancery at ");
    let url = said.unwrap_or_else(|| panic!("{:?}", std::fs::read_to_string(folder.join("log"))));
    (child, url.to_owned())
}

/// How many pieces of an answer come, if nobody wants more than so many. What is answered is canceled then.
pub(crate) async fn pieces_of(client: &Client, most: usize) -> usize {
    let mut events = client.stream("go").await.expect("a stream");
    let mut pieces = 0;
    while pieces < most
        && let Some(event) = events.next().await
    {
        let event = event.expect("an event");
        let event = event.payload().expect("it can be read");
        pieces += usize::from(matches!(event, StreamResponse::ArtifactUpdate(_)));
    }
    let id = events.task_id().expect("a task").clone();
    let _ = client.cancel(id).await;
    pieces
}
