//! Tries the sandbox out before anybody calls, from the strongest that there is to the weakest, and keeps what was found:
//! the card states that, and nothing else.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::plan::{Facts, Plan};
use super::{facts, launch};

/// How long a look around may take.
const LONGEST: Duration = Duration::from_secs(20);
/// How much a helper says at most.
const MOST: u64 = 64 * 1024;

/// What a program is shut in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Namespaces of its own, and Landlock where the kernel has it.
    Namespaces,
    /// Landlock alone.
    Landlock,
    /// The limits of a process, and another user.
    Process,
}

/// What was really applied when it was tried.
#[derive(Clone, Debug)]
pub(crate) struct Isolation {
    pub(crate) level: Level,
    landlock: bool,
    facts: Facts,
    /// What it lacks of what is required.
    pub(crate) lacks: Vec<&'static str>,
}

/// The ways to shut a program in: by namespaces, by Landlock.
const WAYS: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

/// Finds the strongest way that this machine has. One that lacks something that is required is taken only if it may.
pub(crate) async fn preflight(plan: &Plan, relaxed: bool) -> anyhow::Result<Isolation> {
    let mut best: Option<Isolation> = None;
    let mut reasons = Vec::new();
    for (namespaces, landlock) in WAYS {
        let found = match look(plan, namespaces, landlock).await {
            Ok(facts) => Isolation::new(plan, namespaces, landlock, facts),
            Err(error) => {
                reasons.push(format!("{error:#}"));
                continue;
            }
        };
        if found.lacks.is_empty() {
            return Ok(found);
        }
        if best.as_ref().is_none_or(|best| found.lacks.len() < best.lacks.len()) {
            best = Some(found);
        }
    }
    let reasons = reasons.join("; ");
    match best {
        Some(best) if relaxed => Ok(best),
        Some(best) => bail!(
            "this machine cannot shut it in: {} ({reasons}); allow user namespaces, or say `isolation = \"relaxed\"`",
            best.lacks.join(", ")
        ),
        None => bail!("the sandbox cannot be tried out: {reasons}"),
    }
}

/// Has the helper look around in a sandbox.
async fn look(plan: &Plan, namespaces: bool, landlock: bool) -> anyhow::Result<Facts> {
    let canary = tempfile::NamedTempFile::new().context("cannot make a file to look for")?;
    std::fs::set_permissions(canary.path(), Permissions::from_mode(0o644))?;
    let mut plan = Plan { namespaces, landlock, outer: facts::namespaces(), ..plan.clone() };
    plan.canary = Some(canary.path().to_owned());
    let program = std::mem::take(&mut plan.program);
    // What the program needs is shown although it is not run.
    plan.read.extend(program.first().map(Into::into));
    let mut running = launch(plan).await.context("cannot start the helper")?;
    let (stdin, stdout, stderr) = running.pipes()?;
    drop(stdin);
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout.take(MOST), stderr.take(MOST));
    let (out, err) = (stdout.read_to_end(&mut said), stderr.read_to_end(&mut complained));
    let read = timeout(LONGEST, async { tokio::try_join!(out, err) }).await;
    read.context("the helper takes too long")?.context("the helper cannot be heard")?;
    running.wait().await?;
    if let Some(failure) = running.complaint(&complained) {
        bail!(failure);
    }
    serde_json::from_slice(&said).context("the helper cannot be understood")
}

impl Isolation {
    fn new(plan: &Plan, namespaces: bool, landlock: bool, facts: Facts) -> Self {
        let level = match (namespaces, landlock) {
            (true, _) => Level::Namespaces,
            (false, true) => Level::Landlock,
            (false, false) => Level::Process,
        };
        let lacks = [
            (facts.user == 0, "it would run as root"),
            (!facts.files, "it could read files that were not listed"),
            (!plan.network && !facts.owns("net"), "it would have a network"),
            (!facts.owns("user"), "the number of its processes could not be limited"),
            (!facts.limits, "its limits would not be in force"),
        ];
        let lacks = lacks.into_iter().filter(|(lacks, _)| *lacks).map(|(_, what)| what).collect();
        Self { level, landlock, facts, lacks }
    }

    /// The plan of a program that is to be shut in like this.
    pub(crate) fn plan(&self, plan: &Plan) -> Plan {
        Plan { namespaces: self.level == Level::Namespaces, landlock: self.landlock, ..plan.clone() }
    }

    /// The facts, as a card states them.
    pub(crate) fn card(&self) -> Value {
        let Facts { tmpfs, binds, writable_binds, .. } = self.facts;
        let contained = ["mnt", "pid", "ipc"].iter().all(|kind| self.facts.owns(kind));
        json!({
            "level": self.level.as_str(),
            "containall": contained && self.facts.files,
            "cleanenv": true,
            "writable_tmpfs": tmpfs,
            "preflight_passed": self.lacks.is_empty(),
            "preflight_allowed": true,
            "binds_count": binds,
            "binds_writable_count": writable_binds,
        })
    }
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Process => "process",
        }
    }
}

impl Facts {
    fn owns(&self, kind: &str) -> bool {
        self.own.get(kind).copied().unwrap_or_default()
    }
}
