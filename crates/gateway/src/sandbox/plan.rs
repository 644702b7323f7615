//! What the helper is told, in a variable of its environment, and what it answers when it is to look around.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The variable that holds the plan. Arguments could be read by everybody on the machine.
pub(super) const PLAN: &str = "CHANCERY_SANDBOX_PLAN";
/// The arguments by which the binary is the helper.
pub(super) const OUTSIDE: &str = "sandbox-outside";
pub(super) const INSIDE: &str = "sandbox-inside";

/// The directory that a program starts in, where it has a file system of its own.
pub(super) const WORK: &str = "/tmp";

/// How a program is to be run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The program, by its absolute path, and its arguments. If empty, the helper looks around and says what it found.
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
    /// Whether it gets namespaces. What is asked for is applied, or the program is not run.
    pub(crate) namespaces: bool,
    /// Whether it gets Landlock rules.
    pub(crate) landlock: bool,
    /// Its own directory, if it does not get a file system of its own.
    pub(crate) directory: Option<PathBuf>,
    /// Stands before what the helper says, so that it is not mistaken for what the program says.
    pub(crate) nonce: String,
    /// Who started the helper. It does not outlive it.
    pub(crate) parent: i32,
    /// A file that must not be readable from inside.
    pub(crate) canary: Option<PathBuf>,
    /// The namespaces of the gateway.
    pub(crate) outer: BTreeMap<String, String>,
    /// As whom the helper runs, once it has left off being root.
    pub(crate) user: u32,
}

/// What a program may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Memory of each process.
    pub(crate) memory_bytes: u64,
    /// What it may write to its own directory, and the longest file anywhere.
    pub(crate) disk_bytes: u64,
    /// Processes and threads at a time.
    pub(crate) processes: u64,
    /// Processor time of each process.
    pub(crate) cpu_seconds: u64,
}

/// What the helper found when it looked around from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// As whom the program would run, as the machine sees it.
    pub(crate) user: u32,
    /// Whether each kind of namespace is its own, by name.
    pub(super) own: BTreeMap<String, bool>,
    /// Whether Landlock is in force.
    pub(crate) landlock: bool,
    /// Whether files that were not listed are out of reach.
    pub(super) files: bool,
    /// Whether its directory is in memory and goes with it.
    pub(super) tmpfs: bool,
    /// Whether the limits are in force.
    pub(super) limits: bool,
    /// What of the machine's files was bound into its file system.
    pub(super) binds: usize,
    /// How much of that it may write.
    pub(super) writable_binds: usize,
}
