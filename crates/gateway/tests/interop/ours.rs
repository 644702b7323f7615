//! Our server: the real binary, with the agent that does what the scenarios ask.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A running server. It is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
    /// Held, so that the server can always write to it.
    _stdout: BufReader<ChildStdout>,
    /// Gone when the server is.
    _data: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        let mut command = chancery(data.path());
        command.args(["demo", "--agent", "conformance", "--listen", "127.0.0.1:0"]);
        command.args(["--allow-egress", "127.0.0.0/8", "--data"]).arg(data.path());
        Self::of(command, data)
    }

    /// The gateway with a configuration; if only somebody with a key may call, then this caller.
    pub(crate) fn serve(config: &str, caller: Option<&str>) -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        std::fs::write(data.path().join("chancery.toml"), config).expect("it is written");
        if let Some(caller) = caller {
            let made = chancery(data.path()).args(["key", "create", "--caller", caller]).output();
            assert!(made.is_ok_and(|made| made.status.success()), "there is no key");
        }
        let mut command = chancery(data.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command.envs(caller.is_none().then_some(("CHANCERY__SERVER__ANONYMOUS", "true")));
        Self::of(command, data)
    }

    fn of(mut command: Command, data: TempDir) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server says where it is");
        let (_, url) = line.trim().split_once(" at ").unwrap_or_else(|| panic!("no address: {line}"));
        Self { child, url: url.to_owned(), _stdout: stdout, _data: data }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

fn chancery(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.current_dir(folder).env_clear();
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
