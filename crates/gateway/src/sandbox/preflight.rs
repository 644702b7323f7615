//! Tries the sandbox out before anybody calls, from the strongest that there is to the weakest, and keeps what was found:
//! the card states that, and nothing else.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::canary::Canary;
use super::isolation::Isolation;
use super::plan::{Namespaces, Plan, Way};
use super::probe::Facts;
use super::{launch, namespaces};

/// How long a look around may take. What a probe leaves behind lives longer if nobody ends it.
const LONGEST: Duration = Duration::from_secs(30);
/// How much a helper says at most.
const MOST: u64 = 64 * 1024;
/// The probe and what it leaves behind.
const PROCESSES: u64 = 4;

/// What the operator demands of a sandbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// Whether it is taken whatever it lacks.
    pub(crate) relaxed: bool,
    /// Checks that may fail, by name.
    pub(crate) allowed: Vec<String>,
}

/// The ways to shut a program in, the strongest first.
fn ways() -> impl Iterator<Item = Way> {
    let way = |(namespaces, landlock, filter)| Way { namespaces, landlock, filter };
    [
        (Namespaces::Own, true, true),
        (Namespaces::Own, false, true),
        (Namespaces::OwnByRoot, true, true),
        (Namespaces::OwnByRoot, false, true),
        (Namespaces::None, true, true),
        (Namespaces::Own, true, false),
        (Namespaces::None, false, true),
        (Namespaces::None, false, false),
    ]
    .into_iter()
    .map(way)
}

/// Finds the strongest way that this machine has. One that lacks something that is required is taken only if it may.
pub(crate) async fn preflight(plan: &Plan, demand: &Demand) -> anyhow::Result<Isolation> {
    let mut best = None::<Isolation>;
    let mut reasons = Vec::new();
    for way in ways() {
        let found = match look(plan, way).await {
            Ok((facts, whole)) => Isolation::new(plan, way, facts, whole, demand),
            Err(error) => {
                reasons.push(format!("{error:#}"));
                continue;
            }
        };
        if found.lacks.is_empty() {
            return Ok(found);
        }
        best.get_or_insert(found);
    }
    reasons.dedup();
    let reasons = reasons.join("; ");
    match best {
        Some(best) if best.may_run() => Ok(best),
        Some(best) => bail!(
            "this machine cannot shut it in, it fails {} ({reasons}); allow user namespaces, or say `isolation = \"relaxed\"`",
            best.lacks.join(", ")
        ),
        None => bail!("the sandbox cannot be tried out: {reasons}"),
    }
}

/// Has the probe look around in a sandbox. What it found, and whether a cgroup limits all of it.
async fn look(plan: &Plan, way: Way) -> anyhow::Result<(Facts, Option<bool>)> {
    let canary = Canary::lay().context("cannot lay out what is to be looked for")?;
    let mut plan = Plan { way, outer: namespaces::of_this_process(), ..plan.clone() };
    let program = std::mem::take(&mut plan.program);
    // What the program needs is shown although it is not run.
    plan.read.extend(program.first().map(Into::into));
    plan.limits.processes = plan.limits.processes.max(PROCESSES);
    let mut running = launch(plan.clone()).await.context("cannot start the helper")?;
    let whole = running.is_limited(&plan.limits);
    let questions = serde_json::to_vec(&canary.questions(&plan, whole.is_some())?)?;
    let (mut stdin, stdout, stderr) = running.pipes()?;
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout.take(MOST), stderr.take(MOST));
    let (out, err) = (stdout.read_to_end(&mut said), stderr.read_to_end(&mut complained));
    let ask = async {
        // Who could not be started reads nothing, and says why.
        let _ = stdin.write_all(&questions).await;
        drop(stdin);
        Ok(())
    };
    let read = timeout(LONGEST, async { tokio::try_join!(out, err, ask) }).await;
    let ended = read.is_ok();
    if let Ok(read) = read {
        read.context("the helper cannot be heard")?;
        running.wait().await?;
    }
    if let Some(failure) = running.complaint(&complained) {
        bail!(failure);
    }
    let mut facts: Facts = serde_json::from_slice(&said).with_context(|| {
        format!("the probe cannot be understood: {}", String::from_utf8_lossy(&complained).trim())
    })?;
    // Somebody was left behind who still holds what the probe was heard by.
    if let Some(check) = facts.checks.get_mut("processes-end") {
        *check &= ended;
    }
    let clean = facts.environment.iter().all(|name| plan.environment.contains_key(name));
    facts.checks.insert("clean-environment".to_owned(), clean);
    Ok((facts, whole))
}
