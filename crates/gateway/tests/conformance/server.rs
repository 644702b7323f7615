//! The server under test: our binary, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Binding, Client};
use crate::http;

/// The extension that [`Pass::Extension`] requires.
pub(crate) const EXTENSION: &str = "urn:a2a:tck:required-extension";

/// What is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Every capability.
    All,
    /// No capability.
    None,
    /// Every capability, and an extension that every call must activate.
    Extension,
}

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Held, so that the server can always write to it.
    _stdout: BufReader<ChildStdout>,
    /// Gone when the server is.
    _data: TempDir,
}

impl Pass {
    pub(crate) const EACH: [Self; 3] = [Self::All, Self::None, Self::Extension];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::All => &["--capabilities", "all"],
            Self::None => &["--capabilities", "none"],
            Self::Extension => &["--require-extension", EXTENSION],
        }
    }
}

impl Server {
    /// Starts the conformance agent.
    pub(crate) fn start(pass: Pass) -> Self {
        Self::start_with(&[&["--agent", "conformance"], pass.arguments()].concat())
    }

    /// The same, with leave to post notifications to this machine.
    pub(crate) fn start_beside_receivers(pass: Pass) -> Self {
        let beside = ["--agent", "conformance", "--allow-egress", "127.0.0.0/8"];
        Self::start_with(&[&beside, pass.arguments()].concat())
    }

    /// Starts all agents of the demo, each at a path of its own.
    pub(crate) fn start_fleet() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a data directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_chancery"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .arg("--data")
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
        let address = line.trim().strip_prefix("Chancery demo at http://").and_then(|at| at.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {line}"));
        Self { child, address, _stdout: stdout, _data: data }
    }

    /// Asks for something outside the bindings.
    pub(crate) fn get(&self, target: &str, headers: &[(&str, String)]) -> http::Response {
        http::exchange(self.address, "GET", target, headers, b"")
    }

    pub(crate) fn card(&self) -> Value {
        self.get("/.well-known/agent-card.json", &[]).json()
    }

    /// A client of the interface that the card names for a binding.
    pub(crate) fn client(&self, binding: Binding) -> Client {
        let card = self.card();
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        let found = interfaces.iter().find(|entry| entry["protocolBinding"] == binding.name());
        let url = found.unwrap_or_else(|| panic!("no interface for {binding:?}: {card}"))["url"].as_str();
        let base = url.unwrap().strip_prefix(&format!("http://{}", self.address)).expect("our own URL");
        Client::new(binding, self.address, base)
    }

    /// Both clients, one after the other.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Client> {
        Binding::ALL.into_iter().map(|binding| self.client(binding))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
