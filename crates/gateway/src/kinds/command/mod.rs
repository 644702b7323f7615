//! Agents that are programs: one is run for each message, in a sandbox, and what it says is streamed as an artifact.
//!
//! | file | holds |
//! |---|---|
//! | `input` | what the program is told |
//! | `output` | what it says, within a limit |
//! | `meter` | what it costs by the second |

mod input;
mod meter;
mod output;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Turn};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::task_keys::{TaskKey, TaskKeys};
use super::turn_secrets::TurnSecrets;
use super::{Modes, described};
use crate::config::{AgentSection, CommandInput, CommandIsolation, CommandNetwork, CommandSection};
use crate::sandbox::{Demand, Limits, Plan, Running, launch, preflight};
use meter::{Meter, Rate};
use output::Said;

/// How much longer than its program a turn may take.
const SLACK: Duration = Duration::from_secs(30);

/// A program that answers.
struct CommandAgent {
    name: Arc<str>,
    plan: Plan,
    input: CommandInput,
    max_duration: Duration,
    max_output: u64,
    rate: Rate,
    /// What the program may call other agents with, if it has a network.
    keys: Option<Arc<TaskKeys>>,
}

/// Finds the program, tries its sandbox out, and describes what was found.
pub(super) async fn build(section: &AgentSection, keys: &Arc<TaskKeys>) -> anyhow::Result<AgentSpec> {
    let name = section.name.as_str();
    let command =
        section.command.as_ref().with_context(|| format!("agent `{name}` has no section `command`"))?;
    let plan = plan(command).with_context(|| format!("agent `{name}` cannot be run"))?;
    let relaxed = command.isolation == CommandIsolation::Relaxed;
    let demand = Demand { relaxed, allowed: command.preflight_allow.clone() };
    let isolation =
        preflight(&plan, &demand).await.with_context(|| format!("agent `{name}` cannot be run"))?;
    if !isolation.lacks.is_empty() {
        let lacks = isolation.lacks.join(", ");
        tracing::warn!(
            agent = name,
            lacks,
            "agent {name} runs with less isolation than is required, it fails {lacks}"
        );
    }
    let weaker = isolation.weaker().join(", ");
    if !weaker.is_empty() {
        tracing::info!(agent = name, weaker, "agent {name} is limited in part: {weaker}");
    }
    let runtime = json!({"runtime": "command", "isolation": isolation.card()});
    let agent = CommandAgent {
        name: name.into(),
        plan: isolation.plan(&plan),
        input: command.input,
        max_duration: Duration::from_millis(command.max_duration_ms),
        max_output: command.max_output_bytes,
        rate: Rate::new(section.price.as_ref(), command.price_per_second),
        keys: (command.network == CommandNetwork::Host).then(|| keys.clone()),
    };
    let timeout = agent.max_duration + SLACK;
    let input: &[_] = match command.input {
        CommandInput::Text => &["text/plain"],
        CommandInput::Json => &[],
    };
    let modes = Modes { input, output: &["text/plain"] };
    Ok(described(section, agent, modes, runtime)?.turn_timeout(timeout))
}

fn plan(command: &CommandSection) -> anyhow::Result<Plan> {
    let mut program = command.run.clone();
    let first = program.first_mut().context("no program is named")?;
    *first = located(first)?.to_string_lossy().into_owned();
    let variable = |name: &String| {
        let value = std::env::var(name).with_context(|| format!("the variable `{name}` is not set"))?;
        Ok((name.clone(), value))
    };
    let environment = command.env.iter().map(variable).collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    Ok(Plan {
        program,
        environment,
        read: command.read.clone(),
        write: command.write.clone(),
        network: command.network == CommandNetwork::Host,
        limits: Limits {
            memory_bytes: command.max_memory_bytes,
            disk_bytes: command.max_disk_bytes,
            processes: command.max_processes,
            cpu_seconds: command.max_duration_ms.div_ceil(1000),
            cpus: command.max_cpus,
        },
        ..Plan::default()
    })
}

/// Where a program is.
pub(crate) fn located(program: &str) -> anyhow::Result<PathBuf> {
    if program.starts_with('/') {
        let path = Path::new(program);
        return if path.is_file() { Ok(path.to_owned()) } else { bail!("there is no program {program}") };
    }
    let usual = || "/usr/local/bin:/usr/bin:/bin".into();
    let path = std::env::var_os("PATH").unwrap_or_else(usual);
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.with_context(|| format!("there is no program `{program}` in {}", path.to_string_lossy()))
}

impl Agent for CommandAgent {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let mut meter = Meter::start(&turn, self.rate).map_err(over_budget)?;
        let (plan, key) = self.plan(&turn)?;
        let secrets = TurnSecrets::of(&turn, key.as_ref());
        turn.dispatch().await?;
        let mut running = launch(plan).await.map_err(|error| Failure::from(error).never_sent())?;
        let work = self.converse(&turn, &mut running, &secrets);
        tokio::select! {
            outcome = work => outcome,
            () = tokio::time::sleep(self.max_duration) => {
                let limit = self.max_duration.as_millis();
                Err(Failure::public(format!("The program took longer than the {limit} ms that it may take")))
            }
            denied = meter.run() => Err(over_budget(denied)),
        }
    }
}

impl CommandAgent {
    /// The plan for one turn, and the credential that is in it.
    fn plan(&self, turn: &Turn) -> Result<(Plan, Option<TaskKey>), Failure> {
        let mut plan = self.plan.clone();
        let Some((keys, url)) = self.keys.as_ref().and_then(|keys| Some((keys, keys.url()?))) else {
            return Ok((plan, None));
        };
        let made = keys.issue(&self.name, turn);
        let key = made.map_err(|error| Failure::public("The agent failed").caused_by(error))?;
        let lineage = turn.lineage();
        let own = [
            ("CHANCERY_URL", Some(url)),
            ("CHANCERY_TOKEN", Some(key.text())),
            ("CHANCERY_LINEAGE", lineage.as_deref()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        plan.environment.extend(own);
        Ok((plan, Some(key)))
    }

    /// Tells the program what it is asked, and passes on what it says, until it ends.
    async fn converse(
        &self,
        turn: &Turn,
        running: &mut Running,
        secrets: &TurnSecrets,
    ) -> Result<Outcome, Failure> {
        let (mut stdin, stdout, stderr) = running.pipes()?;
        let told = input::of(turn, self.input)?;
        let tell = async move {
            // A program need not read all that it is told.
            let _ = stdin.write_all(&told).await;
            let _ = stdin.shutdown().await;
            drop(stdin);
        };
        let (said, complaints, ()) =
            tokio::join!(output::stream(turn, stdout, self.max_output, secrets), output::tail(stderr), tell);
        let complaints = secrets.without(String::from_utf8_lossy(&complaints).into_owned()).into_bytes();
        let said = said?;
        if let Said::TooMuch = said {
            let limit = self.max_output;
            return Err(Failure::public(format!(
                "The program said more than the {limit} bytes that it may say"
            ))
            .caused_by(output::Complaints(complaints)));
        }
        let status = running.wait().await?;
        if let Some(failure) = running.complaint(&complaints) {
            return Err(failure.into());
        }
        if let Some(limit) = running.exceeded(&complaints) {
            return Err(Failure::public(limit));
        }
        ended(status, complaints)
    }
}

/// What the way in which a program ended means. The caller learns the number, and nothing of what was said about it.
fn ended(status: ExitStatus, complaints: Vec<u8>) -> Result<Outcome, Failure> {
    let what = match status.code() {
        Some(0) => return Ok(Outcome::completed()),
        Some(code @ 129..=192) => format!("The program was ended by signal {}", code - 128),
        Some(code) => format!("The program ended with exit code {code}"),
        None => "The program was killed".to_owned(),
    };
    Err(Failure::public(what).caused_by(output::Complaints(complaints)))
}

fn over_budget(denied: chancery_protocol::Denied) -> Failure {
    Failure::public("The budget does not allow the program to go on")
        .caused_by(chancery_protocol::Error::from(denied))
}
