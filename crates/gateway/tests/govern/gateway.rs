//! A gateway in a process of its own, with a folder of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tempfile::TempDir;

/// The file in its folder that its log goes to.
const LOG: &str = "gateway.log";

/// Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    url: String,
    folder: TempDir,
    /// A key that was made before it was started.
    pub(crate) key: Option<String>,
}

/// The command, in a folder.
pub(crate) fn chancery(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.current_dir(folder).env_clear();
    command
}

impl Gateway {
    /// With this configuration, on a free port.
    pub(crate) fn start(config: &str) -> Self {
        Self::in_folder(folder(config), None)
    }

    /// The same, with a key for somebody.
    pub(crate) fn start_with_key(config: &str, caller: &str) -> Self {
        Self::start_with_key_of(config, &["--caller", caller])
    }

    /// The same, with a key for an agent of the fleet.
    pub(crate) fn start_with_agent_key(config: &str, agent: &str) -> Self {
        Self::start_with_key_of(config, &["--caller", agent, "--agent", agent])
    }

    fn start_with_key_of(config: &str, whose: &[&str]) -> Self {
        let folder = folder(config);
        let made = chancery(folder.path()).args(["key", "create"]).args(whose).output().expect("it runs");
        let key = String::from_utf8(made.stdout).expect("a key is text").trim().to_owned();
        Self::in_folder(folder, Some(key))
    }

    /// In a folder that has all that it needs. Without a key, everybody may call.
    pub(crate) fn in_folder(folder: TempDir, key: Option<String>) -> Self {
        let (child, url) = serve(folder.path(), key.is_none());
        Self { child, url, folder, key }
    }

    pub(crate) fn agent(&self, name: &str) -> String {
        format!("{}/agents/{name}", self.url)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Writes another configuration, which the gateway is to notice.
    pub(crate) fn configure(&self, config: &str) {
        let (file, draft) = (self.folder.path().join("chancery.toml"), self.folder.path().join("draft"));
        std::fs::write(&draft, config).expect("it is written");
        std::fs::rename(draft, file).expect("it takes the place of the other");
    }

    /// Tells it to read its configuration again.
    pub(crate) fn hang_up(&self) {
        let told = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    }

    /// As a crash would have it, with something done to its folder in between, and a log of its own.
    pub(crate) fn kill_and_restart_after(&mut self, between: impl FnOnce(&Path)) {
        self.stop();
        between(self.folder.path());
        std::fs::remove_file(self.folder.path().join(LOG)).expect("there is a log");
        (self.child, self.url) = serve(self.folder.path(), self.key.is_none());
    }

    /// Where it keeps everything.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its host and port.
    pub(crate) fn place(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// As a crash would have it.
    pub(crate) fn kill_and_restart(&mut self) {
        self.stop();
        (self.child, self.url) = serve(self.folder.path(), self.key.is_none());
    }

    /// As an operator would have it.
    pub(crate) fn terminate(&mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Runs another command in the same folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let ran = chancery(self.folder.path()).args(arguments).output().expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("it prints text")
    }

    /// Asks what the gates would say, and whether they would let the call through.
    pub(crate) fn explain(&self, arguments: &[&str]) -> (bool, String) {
        let ran = chancery(self.folder.path()).arg("explain").args(arguments).output().expect("it runs");
        let told = String::from_utf8(ran.stdout).expect("it prints text");
        match ran.status.code() {
            Some(0) => (true, told),
            Some(1) if told.contains("verdict") || told.contains("\"admitted\"") => (false, told),
            code => panic!("{arguments:?}: {code:?}: {}", String::from_utf8_lossy(&ran.stderr)),
        }
    }

    /// Writes a file of the folder.
    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.folder.path().join(path), text).expect("it is written");
    }

    /// A file of the folder.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(path)).expect("it can be read")
    }

    /// The status of a GET with a bearer token.
    pub(crate) async fn status_of(&self, url: &str, token: &str) -> u16 {
        let request = http::Request::get(url).header("authorization", format!("Bearer {token}"));
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
        let client = Client::builder(TokioExecutor::new()).build_http();
        client.request(request).await.expect("an answer").status().as_u16()
    }

    /// What it has said to its operator.
    pub(crate) fn log(&self) -> String {
        self.read(LOG)
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Gateway {
    #[allow(clippy::print_stderr, reason = "it says why a test has failed")]
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A folder with this configuration.
pub(crate) fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    folder
}

fn serve(folder: &Path, anonymous: bool) -> (Child, String) {
    let log = File::options().create(true).append(true).open(folder.join(LOG)).expect("a log");
    let mut child = chancery(folder)
        .envs(anonymous.then_some(("CHANCERY__SERVER__ANONYMOUS", "true")))
        .stderr(log)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the gateway starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says something");
    let url = line.trim().strip_prefix("Chancery at ").expect("it says where it is").to_owned();
    (child, url)
}
