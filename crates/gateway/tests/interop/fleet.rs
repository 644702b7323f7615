//! The agents of `examples/fleet`, started by its one command: every kind of agent, called by clients that we did not write, on
//! every binding; and every card, read as strictly as can be.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use crate::known::Counts;
use crate::peer::{Peer, folder};
use crate::process::{Program, Told};
use crate::scenario::Outcome;

const PYTHON: Program = Program::Python { environment: "1.0", script: "fleet.py" };
const JAVASCRIPT: Program = Program::Node("1.0/fleet.mjs");
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

/// What each agent answers.
#[derive(Deserialize)]
struct Play {
    answers: BTreeMap<String, String>,
}

/// The example, running. It ends when this is dropped.
struct Example {
    child: Child,
    url: String,
    /// Held, so that it can always write to it.
    _stdout: BufReader<ChildStdout>,
    _work: TempDir,
}

pub(crate) async fn meet(peers: &[&'static Peer], counts: &mut Counts) {
    let takes_part = |key: &str| peers.iter().any(|peer| peer.key == key);
    if !takes_part("python-1.0") && !takes_part("javascript-1.0") {
        return;
    }
    let play = std::fs::read_to_string(folder().join("fleet.json")).expect("interop/fleet.json");
    let play: Play = serde_json::from_str(&play).expect("it is a play");
    let example = match Example::start() {
        Ok(example) => example,
        Err(why) => {
            println!("FAILED  examples/fleet/run: {why}");
            counts.failed += 1;
            return;
        }
    };
    let python = takes_part("python-1.0").then(|| ("python-1.0", PYTHON, with_cards(&play)));
    let javascript = takes_part("javascript-1.0").then(|| ("javascript-1.0", JAVASCRIPT, calls(&play)));
    for (key, program, scenarios) in python.into_iter().chain(javascript) {
        println!("\n{key} as client of examples/fleet");
        judge(program.told(&["--url", &example.url]).await, &scenarios, counts);
    }
}

/// Every agent on every binding, once as a whole and once as a stream.
fn calls(play: &Play) -> Vec<String> {
    let on = |name: &String| {
        BINDINGS.map(|binding| ["send", "stream"].map(|how| format!("{name} {binding} {how}"))).concat()
    };
    play.answers.keys().flat_map(on).collect()
}

fn with_cards(play: &Play) -> Vec<String> {
    let cards = play.answers.keys().map(|name| format!("{name} cards"));
    std::iter::once("fleet card".to_owned()).chain(cards).chain(calls(play)).collect()
}

fn judge(told: Result<Told, String>, scenarios: &[String], counts: &mut Counts) {
    for scenario in scenarios {
        let outcome = match &told {
            Ok(told) => told.outcome(scenario),
            Err(why) => Outcome::Failed(why.clone()),
        };
        match outcome {
            Outcome::Failed(detail) => {
                counts.failed += 1;
                println!("  {scenario:<26} FAILED: {detail}");
            }
            Outcome::Ok | Outcome::NotThere => {
                counts.passed += 1;
                println!("  {scenario:<26} ok");
            }
        }
    }
}

// === impl Example ===

impl Example {
    /// Runs it as a user would, on ports of its own and in a folder of its own.
    fn start() -> Result<Self, String> {
        let work = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(folder().join("../examples/fleet/run"));
        command.env("CHANCERY", env!("CARGO_BIN_EXE_chancery")).env("WORK", work.path());
        // Below the ports that are given out to whoever asks for none in particular.
        command.env("PORTS", (2000 + std::process::id() % 1200).to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let url = line.trim().strip_prefix("Chancery at ").unwrap_or_default().to_owned();
        let example = Self { child, url, _stdout: stdout, _work: work };
        match read {
            Ok(_) if !example.url.is_empty() => Ok(example),
            _ => Err(format!("it does not come up: {line}")),
        }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // It ends what it has started.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
