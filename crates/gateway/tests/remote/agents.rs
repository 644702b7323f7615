//! The agents that are called, as processes: one that misbehaves, and those on other SDKs. Each writes down what it is told to do.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::front::Front;
use crate::http;
use crate::process::{Foreign, Program};

/// What an agent speaks: a version and a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) version: &'static str,
    pub(crate) binding: &'static str,
}

pub(crate) const SPOKEN: [Spoken; 6] = [
    Spoken { version: "1.0", binding: "jsonrpc" },
    Spoken { version: "1.0", binding: "rest" },
    Spoken { version: "1.0", binding: "grpc" },
    Spoken { version: "0.3", binding: "jsonrpc" },
    Spoken { version: "0.3", binding: "rest" },
    Spoken { version: "0.3", binding: "grpc" },
];

/// An agent in a process of its own.
pub(crate) struct RemoteAgent {
    program: Program,
    foreign: Foreign,
    front: Front,
    log: PathBuf,
    _folder: TempDir,
}

/// One that misbehaves, in each version; only one with the SDK of a version can answer gRPC in it.
pub(crate) struct Hostile {
    new: RemoteAgent,
    old: RemoteAgent,
}

/// The servers on other SDKs, and what they are called here.
pub(crate) const OFFICIAL: [(&str, Program); 4] = [
    ("python-1-0", Program::Python { environment: "1.0", script: "server_1_0.py" }),
    ("python-0-3", Program::Python { environment: "0.3", script: "server_0_3.py" }),
    ("javascript-1-0", Program::Node("1.0/server.mjs")),
    ("javascript-0-3", Program::Node("0.3/server.mjs")),
];

const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

// === impl Spoken ===

impl Spoken {
    /// The name of an agent here that speaks it.
    pub(crate) fn name(self, prefix: &str) -> String {
        format!("{prefix}-{}-{}", self.version.replace('.', "-"), self.binding)
    }
}

// === impl RemoteAgent ===

impl RemoteAgent {
    pub(crate) async fn start(program: Program) -> Self {
        Self::start_with(program, None).await
    }

    /// The same, offering nothing but this binding.
    async fn start_with(program: Program, binding: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, front) = (folder.path().join("log"), Front::bind().await);
        let grpc_at = front.address.to_string();
        let mut arguments = vec!["--log", log.to_str().expect("a path"), "--grpc-at", &grpc_at];
        arguments.extend(binding.iter().flat_map(|binding| ["--binding", binding]));
        let mut foreign = program.serve_with(&arguments).await.unwrap_or_else(|why| panic!("{why}"));
        let front = front.serve(&foreign);
        if binding == Some("GRPC") {
            foreign.url = format!("http://{grpc_at}");
        }
        Self { program, foreign, front, log, _folder: folder }
    }

    /// Every server on another SDK, once for each binding: its name here, and the agent.
    pub(crate) async fn official() -> Vec<(String, Self)> {
        let mut all = Vec::new();
        for (name, program) in OFFICIAL {
            for binding in BINDINGS {
                let short = binding.split('+').next().unwrap().to_lowercase();
                let agent = Self::start_with(program, Some(binding)).await;
                all.push((format!("{name}-{short}"), agent));
            }
        }
        all
    }

    pub(crate) fn url(&self) -> &str {
        &self.foreign.url
    }

    /// All that it wrote down.
    pub(crate) fn notes(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).expect("it writes JSON")).collect()
    }

    /// Messages that it worked on whose text ends so.
    pub(crate) fn executions(&self, end: &str) -> Vec<Value> {
        let is_one =
            |note: &Value| note["event"] == "execute" && note["text"].as_str().unwrap().ends_with(end);
        self.notes().into_iter().filter(is_one).collect()
    }

    pub(crate) fn count(&self, end: &str) -> usize {
        self.executions(end).len()
    }

    /// Kills it, and starts another one at the same address, which goes on with its notes and knows nothing else.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.foreign.kill().await;
        let grpc_at = self.front.address.to_string();
        let arguments = ["--log", self.log.to_str().expect("a path"), "--grpc-at", &grpc_at];
        self.foreign = self.program.serve_with(&arguments).await.unwrap_or_else(|why| panic!("{why}"));
        self.front.lead_to(&self.foreign);
    }

    pub(crate) async fn kill(&mut self) {
        self.foreign.kill().await;
        self.front.close().await;
    }
}

// === impl Hostile ===

impl Hostile {
    pub(crate) async fn start() -> Self {
        let start = |environment| RemoteAgent::start(Program::Python { environment, script: "hostile.py" });
        Self { new: start("1.0").await, old: start("0.3").await }
    }

    pub(crate) fn of(&self, spoken: Spoken) -> &RemoteAgent {
        if spoken.version == "1.0" { &self.new } else { &self.old }
    }

    pub(crate) fn of_mut(&mut self, spoken: Spoken) -> &mut RemoteAgent {
        if spoken.version == "1.0" { &mut self.new } else { &mut self.old }
    }

    /// Where it can be called so. The flags say what stands on its card.
    pub(crate) fn url(&self, spoken: Spoken, flags: &str) -> String {
        let agent = self.of(spoken);
        format!("http://{}/{}/{}/{flags}", agent.front.address, spoken.version, spoken.binding)
    }

    /// A section of the configuration for each way to call it.
    pub(crate) fn sections(&self, prefix: &str, flags: &str, more: &str) -> String {
        let section = |spoken: Spoken| section(&spoken.name(prefix), &self.url(spoken, flags), more);
        SPOKEN.into_iter().map(section).collect()
    }

    /// Lets go on what waits at a gate.
    pub(crate) async fn open(&self, gate: &str) {
        self.control(&format!("open/{gate}")).await;
    }

    /// Wants this token from now on, where it is locked.
    pub(crate) async fn lock(&self, token: &str) {
        self.control(&format!("lock/{token}")).await;
    }

    async fn control(&self, what: &str) {
        for agent in [&self.new, &self.old] {
            let answer = http::get(&format!("{}/control/{what}", agent.url()), &[]).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
}

/// An agent elsewhere in the configuration.
pub(crate) fn section(name: &str, url: &str, more: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\n{more}\n")
}
