//! An agent that is a program, run for each message in a sandbox.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Complaint;
use crate::config::Usd;
use crate::sandbox::CHECKS;

/// A program that is run for each message.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSection {
    /// The program and its arguments. A name without a slash is looked for on the gateway's own `PATH`; a path is absolute.
    pub(crate) run: Vec<String>,
    /// What it reads from its standard input.
    #[serde(default)]
    pub(crate) input: CommandInput,
    /// The variables of the gateway's environment that it gets, by name. There are no others, not even `HOME` and `PATH`.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// What it may read besides what every program needs: absolute paths.
    #[serde(default)]
    pub(crate) read: Vec<PathBuf>,
    /// What it may write besides its own directory, which is empty at first and gone at the end: absolute paths.
    #[serde(default)]
    pub(crate) write: Vec<PathBuf>,
    /// Whether it has a network.
    #[serde(default)]
    pub(crate) network: CommandNetwork,
    /// What is done if this machine cannot shut it in.
    #[serde(default)]
    pub(crate) isolation: CommandIsolation,
    /// Checks of the sandbox that may fail, by the names that a card has for them in `preflight_passed`.
    #[serde(default)]
    pub(crate) preflight_allow: Vec<String>,
    /// So long it may take, in milliseconds.
    #[serde(default = "minute")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) max_duration_ms: u64,
    /// So much memory for all of it where the gateway may make cgroups, else for each of its processes, as address space.
    #[serde(default = "gibibyte")]
    #[schemars(range(min = 1_048_576))]
    pub(crate) max_memory_bytes: u64,
    /// So much it may say.
    #[serde(default = "mebibyte")]
    #[schemars(range(min = 1))]
    pub(crate) max_output_bytes: u64,
    /// So much it may keep in its own directory.
    #[serde(default = "disk")]
    #[schemars(range(min = 4096))]
    pub(crate) max_disk_bytes: u64,
    /// So many processes and threads at a time.
    #[serde(default = "processes")]
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) max_processes: u64,
    /// So many processors it may keep busy, where the gateway may make cgroups.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) max_cpus: u64,
    /// What a second costs besides the price of the call, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price_per_second: Option<Usd>,
}

/// What a program reads from its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommandInput {
    /// The text of the message.
    #[default]
    Text,
    /// A line of JSON for each message of the task, the oldest first and the one to answer last.
    Json,
}

/// Whether a program has a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommandNetwork {
    /// None.
    #[default]
    None,
    /// That of the machine. It can then also call other agents through the gateway.
    Host,
}

/// What is done if this machine cannot shut a program in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommandIsolation {
    /// It is not run.
    #[default]
    Strict,
    /// It is run with what there is, and its card says so.
    Relaxed,
}

impl CommandSection {
    /// A program of which nothing is said but how it is run.
    pub(crate) fn of(run: Vec<String>) -> Self {
        Self {
            run,
            input: CommandInput::default(),
            env: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            network: CommandNetwork::default(),
            isolation: CommandIsolation::default(),
            preflight_allow: Vec::new(),
            max_duration_ms: minute(),
            max_memory_bytes: gibibyte(),
            max_output_bytes: mebibyte(),
            max_disk_bytes: disk(),
            max_processes: processes(),
            max_cpus: one(),
            price_per_second: None,
        }
    }

    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        match self.run.first() {
            None => complaints.push(("run", "names no program".to_owned())),
            Some(program) if program.contains('/') && !program.starts_with('/') => {
                complaints.push(("run", format!("`{program}` is no absolute path")));
            }
            Some(_) => {}
        }
        for (key, paths) in [("read", &self.read), ("write", &self.write)] {
            let relative = paths.iter().filter(|path| !path.is_absolute());
            complaints
                .extend(relative.map(|path| (key, format!("`{}` is no absolute path", path.display()))));
        }
        for name in self.preflight_allow.iter().filter(|name| !CHECKS.contains(&name.as_str())) {
            let what = format!("`{name}` is no check; there are {}", CHECKS.join(", "));
            complaints.push(("preflight_allow", what));
        }
        for name in self.env.iter().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let what = format!("`{name}` is no name of a variable; its value is the gateway's own");
            complaints.push(("env", what));
        }
        complaints
    }
}

fn minute() -> u64 {
    60_000
}

fn gibibyte() -> u64 {
    1 << 30
}

fn mebibyte() -> u64 {
    1 << 20
}

fn disk() -> u64 {
    64 << 20
}

fn processes() -> u64 {
    64
}

fn one() -> u64 {
    1
}
