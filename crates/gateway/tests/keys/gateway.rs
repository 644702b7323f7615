//! A gateway in a process of its own, with a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

/// Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) url: String,
    folder: TempDir,
    anonymous: bool,
}

impl Gateway {
    /// With this configuration, on a free port.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_after(config, &[])
    }

    /// The same, after these commands have been run in its folder. If none of them makes a key, everybody may call.
    pub(crate) fn start_after(config: &str, commands: &[&[&str]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("chancery.toml"), config).unwrap();
        for command in commands {
            assert!(run(folder.path(), command).status.success(), "{command:?}");
        }
        Self::in_folder(folder)
    }

    /// In a folder that has all that it needs. Without a key, everybody may call.
    pub(crate) fn in_folder(folder: TempDir) -> Self {
        let anonymous = !folder.path().join("chancery-data/keys.json").exists();
        let (child, url) = serve(folder.path(), anonymous);
        Self { child, url, folder, anonymous }
    }

    pub(crate) fn agent(&self, name: &str) -> String {
        format!("{}/agents/{name}", self.url)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("chancery-data")
    }

    /// As a crash would have it.
    pub(crate) fn kill_and_restart(&mut self) {
        self.stop();
        (self.child, self.url) = serve(self.folder.path(), self.anonymous);
    }

    /// Runs another command in the same folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let ran = run(self.folder.path(), arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// What a command complains of that is not to succeed.
    pub(crate) fn fail(&self, arguments: &[&str]) -> String {
        let ran = run(self.folder.path(), arguments);
        assert!(!ran.status.success(), "{arguments:?} did not fail");
        String::from_utf8(ran.stderr).unwrap()
    }

    /// As an operator would have it. The folder stays.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.current_dir(folder).env_clear();
    command
}

fn serve(folder: &Path, anonymous: bool) -> (Child, String) {
    let mut command = command(folder);
    command.envs(anonymous.then_some(("CHANCERY__SERVER__ANONYMOUS", "true")));
    command.env("CHANCERY__SERVER__HOSTS", r#"["evil.example"]"#);
    let mut child =
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("Chancery at ").expect("it says where it is").to_owned();
    (child, url)
}

/// What is at a URL, asked for with a Host that is made up.
pub(crate) async fn get(url: &str, headers: &str) -> String {
    let (head, body) = ask(url, headers).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{url}: {head}");
    body
}

/// The head and the body of the answer to such a request.
pub(crate) async fn ask(url: &str, headers: &str) -> (String, String) {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}
