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
    pub(crate) suite: Suite,
    /// What it is written in.
    language: &'static str,
    packages: &'static [&'static str],
    /// The file below `interop` that says which versions of the packages are used.
    lock: &'static str,
    pub(crate) wires: &'static [Wire],
    client: Option<Player>,
    server: Option<Player>,
}

/// Which run a peer takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// SDKs, which meet our SDK.
    Sdks,
    /// What people write agents with: each behind the gateway, and as its caller.
    Frameworks {
        /// What is said in the configuration of the gateway about the agent that it calls.
        called: &'static str,
    },
}

/// Where a peer on a wire stands in a table.
pub(crate) type Place = (usize, usize);

/// A program of ours that drives a peer.
pub(crate) struct Player {
    pub(crate) program: Program,
    /// What the peer can do at all; empty for everything that SDKs do.
    does: &'static [Scenario],
}

const V1_0: &[Wire] = &[JSONRPC_1_0, HTTP_JSON_1_0, GRPC_1_0];
const V0_3: &[Wire] = &[JSONRPC_0_3, HTTP_JSON_0_3, GRPC_0_3];

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
        suite: Suite::Sdks,
        language: "Python",
        packages: &["a2a-sdk"],
        lock: "python/requirements-1.0.txt",
        wires: V1_0,
        client: Some(Player::of_all(Program::Python { environment: "1.0", script: "client_1_0.py" })),
        server: Some(Player::of_all(Program::Python { environment: "1.0", script: "server_1_0.py" })),
    },
    Peer {
        key: "javascript-1.0",
        suite: Suite::Sdks,
        language: "JavaScript",
        packages: &["@a2a-js/sdk"],
        lock: "javascript/1.0/package.json",
        wires: V1_0,
        client: Some(Player::of_all(Program::Node("1.0/client.mjs"))),
        server: Some(Player::of_all(Program::Node("1.0/server.mjs"))),
    },
    Peer {
        key: "rust-1.0",
        suite: Suite::Sdks,
        language: "Rust",
        packages: &["a2a-client-lf", "a2a-server-lf"],
        lock: "rust/Cargo.lock",
        wires: V1_0,
        client: Some(Player::of_all(Program::Rust("interop-official-client"))),
        server: Some(Player::of_all(Program::Rust("interop-official-server"))),
    },
    Peer {
        key: "python-0.3",
        suite: Suite::Sdks,
        language: "Python",
        packages: &["a2a-sdk"],
        lock: "python/requirements-0.3.txt",
        wires: V0_3,
        client: Some(Player::of_all(Program::Python { environment: "0.3", script: "client_0_3.py" })),
        server: Some(Player::of_all(Program::Python { environment: "0.3", script: "server_0_3.py" })),
    },
    Peer {
        key: "javascript-0.3",
        suite: Suite::Sdks,
        language: "JavaScript",
        packages: &["@a2a-js/sdk"],
        lock: "javascript/0.3/package.json",
        wires: V0_3,
        client: Some(Player::of_all(Program::Node("0.3/client.mjs"))),
        server: Some(Player::of_all(Program::Node("0.3/server.mjs"))),
    },
    Peer {
        key: "rvagent",
        suite: Suite::Sdks,
        language: "Rust",
        packages: &["rvagent-a2a"],
        lock: "rust/Cargo.lock",
        wires: &[JSONRPC_0_1],
        client: Some(Player { program: Program::Rust("interop-rvagent-client"), does: RVAGENT_CLIENT }),
        server: None,
    },
    Peer {
        key: "agent-framework",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["agent-framework-a2a"],
        lock: "python/requirements-agent-framework.txt",
        wires: &[JSONRPC_1_0],
        client: Some(Player {
            program: Program::Python { environment: "agent-framework", script: "client_agent_framework.py" },
            does: &[
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::InputRequired,
                Scenario::Failure,
            ],
        }),
        server: Some(Player {
            program: Program::Python { environment: "agent-framework", script: "server_agent_framework.py" },
            does: &[Scenario::Text, Scenario::Chunks, Scenario::Cancel, Scenario::Failure],
        }),
    },
    Peer {
        key: "langgraph",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["langgraph-api"],
        lock: "python/requirements-langgraph.txt",
        wires: &[JSONRPC_1_0],
        client: None,
        server: Some(Player {
            program: Program::Python { environment: "langgraph", script: "server_langgraph.py" },
            does: &[
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::InputRequired,
                Scenario::Cancel,
                Scenario::Failure,
            ],
        }),
    },
    Peer {
        key: "fasta2a",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["fasta2a", "pydantic-ai-slim"],
        lock: "python/requirements-fasta2a.txt",
        wires: &[JSONRPC_1_0],
        client: Some(Player {
            program: Program::Python { environment: "fasta2a", script: "client_fasta2a.py" },
            does: &[Scenario::Text],
        }),
        server: Some(Player {
            program: Program::Python { environment: "fasta2a", script: "server_fasta2a.py" },
            does: &[
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::Cancel,
                Scenario::Failure,
            ],
        }),
    },
    Peer {
        key: "adk",
        suite: Suite::Frameworks { called: "without_bindings = [\"GRPC\"]" },
        language: "Python",
        packages: &["google-adk"],
        lock: "python/requirements-adk.txt",
        wires: &[JSONRPC_1_0],
        client: Some(Player {
            program: Program::Python { environment: "adk", script: "client_adk.py" },
            does: &[
                Scenario::Card,
                Scenario::Send,
                Scenario::Message,
                Scenario::Stream,
                Scenario::InputRequired,
                Scenario::Failure,
            ],
        }),
        server: Some(Player {
            program: Program::Python { environment: "adk", script: "server_adk.py" },
            does: &[
                Scenario::Send,
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::Cancel,
                Scenario::Failure,
            ],
        }),
    },
    Peer {
        key: "strands",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["strands-agents"],
        lock: "python/requirements-strands.txt",
        wires: &[JSONRPC_0_3],
        client: Some(Player {
            program: Program::Python { environment: "strands", script: "client_strands.py" },
            does: &[Scenario::Text, Scenario::Chunks, Scenario::Failure],
        }),
        server: Some(Player {
            program: Program::Python { environment: "strands", script: "server_strands.py" },
            does: &[
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::Cancel,
                Scenario::Failure,
            ],
        }),
    },
    Peer {
        key: "beeai",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["beeai-framework"],
        lock: "python/requirements-beeai.txt",
        wires: &[JSONRPC_0_3],
        client: Some(Player {
            program: Program::Python { environment: "beeai", script: "client_beeai.py" },
            does: &[
                Scenario::Text,
                Scenario::Message,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::InputRequired,
                Scenario::Failure,
            ],
        }),
        server: Some(Player {
            program: Program::Python { environment: "beeai", script: "server_beeai.py" },
            does: &[Scenario::Text, Scenario::FollowUp, Scenario::Failure],
        }),
    },
    Peer {
        key: "crewai",
        suite: Suite::Frameworks { called: "" },
        language: "Python",
        packages: &["crewai"],
        lock: "python/requirements-crewai.txt",
        wires: &[JSONRPC_0_3],
        client: Some(Player {
            program: Program::Python { environment: "crewai", script: "client_crewai.py" },
            does: &[
                Scenario::Text,
                Scenario::Chunks,
                Scenario::FollowUp,
                Scenario::InputRequired,
                Scenario::Failure,
            ],
        }),
        server: Some(Player {
            program: Program::Python { environment: "crewai", script: "server_crewai.py" },
            does: &[Scenario::Text, Scenario::Cancel, Scenario::Failure],
        }),
    },
];

/// The folder of the programs.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop")
}

impl Player {
    /// Whether it makes sense to ask for a scenario.
    pub(crate) fn can(&self, scenario: Scenario, wire: Wire) -> bool {
        let does = match self.does {
            [] => !scenario.is_for_frameworks(),
            does => does.contains(&scenario),
        };
        does && scenario.is_in(wire.version)
    }

    const fn of_all(program: Program) -> Self {
        Self { program, does: &[] }
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
