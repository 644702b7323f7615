//! Our binary as a process that can be killed and started again on what it left behind.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A data directory, and how servers on it are started.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
    arguments: &'static [&'static str],
}

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Held, so that the server can always write to it.
    _stdout: BufReader<ChildStdout>,
}

// === impl Home ===

impl Home {
    pub(crate) fn new(arguments: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().expect("a data directory"), arguments }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start(&self) -> Server {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_chancery"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(self.arguments)
            .arg("--data")
            .arg(self.path("data"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server says where it is");
        let address = line.trim().strip_prefix("Chancery demo at http://").and_then(|at| at.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {line}{}", self.log()));
        Server { child, address, _stdout: stdout }
    }

    /// What all servers on this directory have complained about.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// No server had to complain about itself.
    pub(crate) fn is_calm(&self) {
        let log = self.log();
        assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    }

    /// Runs `chancery store` on the data.
    pub(crate) fn store(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["store", "--data"]).arg(self.path("data")).args(arguments).env_clear();
        command.output().expect("it runs")
    }

    /// The store is whole. Gives the number of tasks in it.
    pub(crate) fn check(&self) -> u64 {
        let output = self.store(&["check"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let count =
            said.trim().strip_suffix(" tasks, all of them whole").and_then(|count| count.parse().ok());
        count.unwrap_or_else(|| panic!("no count: {said}"))
    }
}

// === impl Server ===

impl Server {
    /// Kills it, as a power switch would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().expect("there is a `kill`");
        assert!(told.success());
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
