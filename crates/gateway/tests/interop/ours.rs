//! Our server: the real binary, with the agent that does what the scenarios ask.

use std::io::{BufRead as _, BufReader};
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
        let mut child = Command::new(env!("CARGO_BIN_EXE_chancery"))
            .args(["demo", "--agent", "conformance", "--listen", "127.0.0.1:0"])
            .args(["--allow-egress", "127.0.0.0/8", "--data"])
            .arg(data.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server says where it is");
        let url =
            line.trim().strip_prefix("Chancery demo at ").unwrap_or_else(|| panic!("no address: {line}"));
        Self { child, url: url.to_owned(), _stdout: stdout, _data: data }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
