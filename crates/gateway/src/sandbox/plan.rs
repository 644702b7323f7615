//! What the helper is told, in a variable of its environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The variable that holds the plan. Arguments could be read by everybody on the machine.
pub(super) const PLAN: &str = "CHANCERY_SANDBOX_PLAN";
/// The arguments by which the binary is the helper.
pub(super) const OUTSIDE: &str = "sandbox-outside";
pub(super) const INSIDE: &str = "sandbox-inside";
/// The argument by which it is the probe, which looks around in the program's place.
pub(super) const PROBE: &str = "sandbox-probe";
/// The argument by which it is what the probe leaves behind, to see whether it is ended.
pub(super) const SURVIVOR: &str = "sandbox-survivor";

/// The directory that a program starts in, where it has a file system of its own.
pub(super) const WORK: &str = "/tmp";

/// How a program is to be run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The program, by its absolute path, and its arguments. If empty, the probe is run in its place.
    pub(crate) program: Vec<String>,
    /// The whole environment of the program.
    pub(crate) environment: BTreeMap<String, String>,
    /// What it may read besides what every program needs.
    pub(crate) read: Vec<PathBuf>,
    /// What it may write besides its own directory.
    pub(crate) write: Vec<PathBuf>,
    /// Whether it has the network of the machine.
    pub(crate) network: bool,
    pub(crate) limits: Limits,
    /// By what it is shut in. What is asked for is applied, or the program is not run.
    pub(crate) way: Way,
    /// Its own directory, if it does not get a file system of its own.
    pub(crate) directory: Option<PathBuf>,
    /// Its own cgroup, if there is one.
    pub(crate) cgroup: Option<PathBuf>,
    /// Stands before what the helper says, so that it is not mistaken for what the program says.
    pub(crate) nonce: String,
    /// Who started the helper. It does not outlive it.
    pub(crate) parent: i32,
    /// The gateway.
    pub(crate) gateway: i32,
    /// The namespaces of the gateway.
    pub(crate) outer: BTreeMap<String, String>,
    /// As whom the helper runs, once it has left off being root.
    pub(crate) user: u32,
}

/// By what a program is shut in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) namespaces: Namespaces,
    pub(crate) landlock: bool,
    /// Whether its system calls are filtered.
    pub(crate) filter: bool,
}

/// Whose namespaces a program gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Namespaces {
    /// Those of the gateway.
    #[default]
    None,
    /// Its own, in a namespace of users, which anybody may make unless the machine forbids it.
    Own,
    /// Its own, made by root, where the machine forbids namespaces of users.
    OwnByRoot,
}

/// What a program may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Memory: of the whole program where it has a cgroup, else of each process.
    pub(crate) memory_bytes: u64,
    /// What it may write to its own directory, and the longest file anywhere.
    pub(crate) disk_bytes: u64,
    /// Processes and threads at a time.
    pub(crate) processes: u64,
    /// Processor time of each process.
    pub(crate) cpu_seconds: u64,
    /// Processors that the whole program may keep busy, where it has a cgroup.
    pub(crate) cpus: u64,
}

impl Limits {
    /// How many files and folders it may have in its own directory.
    pub(super) fn files(&self) -> u64 {
        (self.disk_bytes / 4096).max(64)
    }
}
