//! The software that we did not write, and where the small programs of ours are that drive it.

use std::path::{Path, PathBuf};

use crate::cell::Side;
use crate::process::Program;
use crate::scenario::Scenario;
use crate::wire::{
    GRPC_0_3, GRPC_1_0, HTTP_JSON_0_3, HTTP_JSON_1_0, JSONRPC_0_1, JSONRPC_0_3, JSONRPC_1_0, Wire,
};

pub(crate) struct Peer {
    /// What `known.toml` calls it.
    pub(crate) key: &'static str,
    /// What it is written in.
    language: &'static str,
    packages: &'static [&'static str],
    /// The file below `interop` that says which versions of the packages are used.
    lock: &'static str,
    pub(crate) wires: &'static [Wire],
    client: Option<Player>,
    server: Option<Player>,
}

/// Where a peer on a wire stands in a table.
pub(crate) type Place = (usize, usize);

/// A program of ours that drives a peer.
pub(crate) struct Player {
    pub(crate) program: Program,
    /// What the peer can do at all.
    does: &'static [Scenario],
}

const V1_0: &[Wire] = &[JSONRPC_1_0, HTTP_JSON_1_0, GRPC_1_0];
const V0_3: &[Wire] = &[JSONRPC_0_3, HTTP_JSON_0_3, GRPC_0_3];

/// An agent of ADK's is called as a whole, by its runner: there are no single operations.
const ADK_CLIENT: &[Scenario] =
    &[Scenario::Card, Scenario::Send, Scenario::Message, Scenario::Stream, Scenario::InputRequired];
/// What an agent of ADK's can show that calls no tools: its answers are whole, and always tasks. It sends no notifications.
const ADK_SERVER: &[Scenario] =
    &[Scenario::Send, Scenario::Cancel, Scenario::Get, Scenario::List, Scenario::Subscribe, Scenario::Errors];
/// Its client streams from a path that is in no version of the protocol, and has no other calls.
const RVAGENT_CLIENT: &[Scenario] = &[
    Scenario::Card,
    Scenario::Send,
    Scenario::InputRequired,
    Scenario::Cancel,
    Scenario::Get,
    Scenario::Errors,
];

pub(crate) const PEERS: &[Peer] = &[
    Peer {
        key: "python-1.0",
        language: "Python",
        packages: &["a2a-sdk"],
        lock: "python/requirements-1.0.txt",
        wires: V1_0,
        client: Some(Player::of_all(Program::Python { environment: "1.0", script: "client_1_0.py" })),
        server: Some(Player::of_all(Program::Python { environment: "1.0", script: "server_1_0.py" })),
    },
    Peer {
        key: "javascript-1.0",
        language: "JavaScript",
        packages: &["@a2a-js/sdk"],
        lock: "javascript/1.0/package.json",
        wires: V1_0,
        client: Some(Player::of_all(Program::Node("1.0/client.mjs"))),
        server: Some(Player::of_all(Program::Node("1.0/server.mjs"))),
    },
    Peer {
        key: "rust-1.0",
        language: "Rust",
        packages: &["a2a-client-lf", "a2a-server-lf"],
        lock: "rust/Cargo.lock",
        wires: V1_0,
        client: Some(Player::of_all(Program::Rust("interop-official-client"))),
        server: Some(Player::of_all(Program::Rust("interop-official-server"))),
    },
    Peer {
        key: "adk",
        language: "Python",
        packages: &["google-adk"],
        lock: "python/requirements-adk.txt",
        wires: &[JSONRPC_1_0],
        client: Some(Player {
            program: Program::Python { environment: "adk", script: "client_adk.py" },
            does: ADK_CLIENT,
        }),
        server: Some(Player {
            program: Program::Python { environment: "adk", script: "server_adk.py" },
            does: ADK_SERVER,
        }),
    },
    Peer {
        key: "python-0.3",
        language: "Python",
        packages: &["a2a-sdk"],
        lock: "python/requirements-0.3.txt",
        wires: V0_3,
        client: Some(Player::of_all(Program::Python { environment: "0.3", script: "client_0_3.py" })),
        server: Some(Player::of_all(Program::Python { environment: "0.3", script: "server_0_3.py" })),
    },
    Peer {
        key: "javascript-0.3",
        language: "JavaScript",
        packages: &["@a2a-js/sdk"],
        lock: "javascript/0.3/package.json",
        wires: V0_3,
        client: Some(Player::of_all(Program::Node("0.3/client.mjs"))),
        server: Some(Player::of_all(Program::Node("0.3/server.mjs"))),
    },
    Peer {
        key: "rvagent",
        language: "Rust",
        packages: &["rvagent-a2a"],
        lock: "rust/Cargo.lock",
        wires: &[JSONRPC_0_1],
        client: Some(Player { program: Program::Rust("interop-rvagent-client"), does: RVAGENT_CLIENT }),
        server: None,
    },
];

/// The folder of the programs.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop")
}

impl Player {
    /// Whether it makes sense to ask for a scenario.
    pub(crate) fn can(&self, scenario: Scenario, wire: Wire) -> bool {
        self.does.contains(&scenario) && scenario.is_in(wire.version)
    }

    const fn of_all(program: Program) -> Self {
        Self { program, does: &Scenario::ALL }
    }
}

impl Peer {
    pub(crate) fn player(&self, side: Side) -> Option<&Player> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }

    /// Where it stands among all, and a wire among its own.
    pub(crate) fn place(&self, wire: Wire) -> Place {
        let row = PEERS.iter().position(|peer| peer.key == self.key).unwrap();
        (row, self.wires.iter().position(|known| *known == wire).unwrap())
    }

    /// What the table calls it.
    pub(crate) fn title(&self) -> String {
        let lock = std::fs::read_to_string(folder().join(self.lock)).unwrap();
        let named = self.packages.iter().map(|package| format!("{package} {}", version_of(package, &lock)));
        format!("{} {}", self.language, named.collect::<Vec<_>>().join(", "))
    }
}

/// The version of a package: what comes next after its name, in the words of any lock file.
fn version_of(package: &str, lock: &str) -> String {
    let entries = [format!("name = \"{package}\""), format!("\"{package}\": "), format!("{package}==")];
    let after = entries.iter().find_map(|entry| lock.split_once(entry)).map(|(_, after)| after);
    let after = after.unwrap_or_else(|| panic!("nothing is said about {package}"));
    let number = after.trim_start_matches(|next: char| !next.is_ascii_digit());
    number.chars().take_while(|next| next.is_ascii_alphanumeric() || "+-.".contains(*next)).collect()
}
