//! Programs that drive other people's SDKs, as processes of their own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::cell::{Outcomes, all_failed};
use crate::peer::folder;
use crate::scenario::{Outcome, Scenario};
use crate::wire::Wire;

/// How a program is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// A script below `interop/python`, in one of the environments there.
    Python { environment: &'static str, script: &'static str },
    /// A script below `interop/javascript`.
    Node(&'static str),
    /// A binary of the workspace `interop/rust`, which shares our target directory.
    Rust(&'static str),
}

/// A running server of somebody else's. It goes when this is dropped.
pub(crate) struct Foreign {
    pub(crate) url: String,
    /// Where it answers gRPC, if it says so.
    #[allow(dead_code, reason = "the tests of agents elsewhere lead connections there")]
    pub(crate) grpc: Option<String>,
    child: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// The first line of a server.
#[derive(Deserialize)]
struct Ready {
    url: String,
    #[serde(default)]
    grpc: Option<String>,
}

/// One line of a client.
#[derive(Deserialize)]
struct Report {
    scenario: String,
    outcome: String,
    detail: String,
}

/// All that a client has told, and its last words.
pub(crate) struct Told {
    reports: Vec<Report>,
    last_words: String,
}

/// For how long a server may take to come up, and a client to say something more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of what a program complains of is kept.
const COMPLAINT_BYTES: u64 = 1 << 16;

impl Program {
    fn command(self) -> Command {
        let folder = folder();
        let mut command = match self {
            Self::Python { environment, script } => {
                let mut command = Command::new(folder.join(format!(".work/python-{environment}/bin/python")));
                command.arg(folder.join("python").join(script));
                command
            }
            Self::Node(script) => {
                let own = folder.join(".work/python-node/bin/node");
                let mut command = Command::new(if own.exists() { own } else { PathBuf::from("node") });
                command.arg(folder.join("javascript").join(script));
                command
            }
            Self::Rust(name) => Command::new(Path::new(env!("CARGO_BIN_EXE_chancery")).with_file_name(name)),
        };
        command.stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs a client through all scenarios.
    pub(crate) async fn run(self, url: &str, wire: Wire) -> Outcomes {
        match self.told(&["--url", url, "--binding", wire.binding.as_str()]).await {
            Ok(told) => collect(&told),
            Err(why) => all_failed(&why),
        }
    }

    /// Runs a client to its end, and gives what it has told.
    pub(crate) async fn told(self, arguments: &[&str]) -> Result<Told, String> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("{self:?} does not start: {error}; run interop/test"))?;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = child.stderr.take().unwrap();
        let complaints = tokio::spawn(async move {
            let mut text = Vec::new();
            let _ = stderr.take(COMPLAINT_BYTES).read_to_end(&mut text).await;
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut reports = Vec::new();
        while let Ok(Ok(Some(line))) = timeout(PATIENCE, lines.next_line()).await {
            reports.extend(serde_json::from_str::<Report>(&line));
        }
        let _ = child.kill().await;
        let complaints = complaints.await.unwrap_or_default();
        let last: Vec<_> = complaints.lines().rev().take(3).collect();
        Ok(Told { reports, last_words: last.join(" / ") })
    }

    /// Runs a program that tries one thing.
    pub(crate) async fn try_one(self, arguments: &[&str]) -> Outcome {
        let mut command = self.command();
        let command = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        match timeout(PATIENCE, command.output()).await {
            Ok(Ok(output)) => match serde_json::from_slice::<Report>(&output.stdout) {
                Ok(report) if report.outcome == "ok" => Outcome::Ok,
                Ok(report) => Outcome::Failed(report.detail),
                Err(_) => Outcome::Failed(String::from_utf8_lossy(&output.stdout).into_owned()),
            },
            Ok(Err(error)) => Outcome::Failed(format!("{self:?} does not start: {error}; run interop/test")),
            Err(_) => Outcome::Failed(format!("nothing came for {} s", PATIENCE.as_secs())),
        }
    }

    /// Starts a server, and waits until it is there.
    pub(crate) async fn serve(self) -> Result<Foreign, String> {
        self.serve_with(&[]).await
    }

    /// The same, with words on its command line.
    pub(crate) async fn serve_with(self, arguments: &[&str]) -> Result<Foreign, String> {
        let mut command = self.command();
        command.args(arguments);
        // It goes when its standard input ends, so also when we are killed. Its log is its own affair.
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{self:?}: {error}; run interop/test"))?;
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, stdout.next_line()).await;
        let Ok(Ok(Some(line))) = line else { return Err(format!("{self:?} does not come up: {line:?}")) };
        match serde_json::from_str(&line) {
            Ok(Ready { url, grpc }) => Ok(Foreign { url, grpc, child, _stdout: stdout }),
            Err(_) => Err(format!("{self:?} says {line}")),
        }
    }
}

impl Foreign {
    /// Kills it, as a power switch would.
    #[allow(dead_code, reason = "the tests of agents elsewhere do")]
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.expect("it can be killed");
    }
}

/// Puts what was told into order.
fn collect(told: &Told) -> Outcomes {
    Scenario::ALL.map(|scenario| told.outcome(scenario.name()))
}

impl Told {
    /// What came of a scenario. One that was not told of has failed.
    pub(crate) fn outcome(&self, scenario: &str) -> Outcome {
        match self.reports.iter().find(|report| report.scenario == scenario) {
            Some(report) if report.outcome == "ok" => Outcome::Ok,
            Some(report) => Outcome::Failed(report.detail.clone()),
            None => Outcome::Failed(format!("not reported; the program's last words: {}", self.last_words)),
        }
    }
}
