//! Cost is bounded, with real processes: a tree of agents behind the real `chancery serve`, each delegating to two others, under
//! a root budget. Once the budget bounds them, once the depth; nobody comes back to an agent on the way to it; and who
//! cancels the root cancels them all.
//!
//! The tree has seven levels below its root. With `CHANCERY_SWARM_LEVELS=10` it has 2,047 agents.

#![allow(clippy::print_stdout, reason = "what is told goes to whoever runs it")]

mod host;
mod swarm;

use std::process::ExitCode;

use swarm::Swarm;

/// Set in the processes that host agents: which ones, and of how many.
const HOST: &str = "CHANCERY_SWARM_HOST";
const LEVELS: &str = "CHANCERY_SWARM_LEVELS";

/// What one call costs, in millionths of a dollar.
const PRICE: u64 = 1_000;

#[tokio::main]
async fn main() -> ExitCode {
    if let Ok(which) = std::env::var(HOST) {
        let numbers: Vec<usize> = which.split(' ').filter_map(|number| number.parse().ok()).collect();
        host::host(numbers[0]..numbers[1], numbers[2]).await;
        return ExitCode::SUCCESS;
    }
    // `cargo test -- NAME` asks for tests of other names.
    if std::env::args().skip(1).any(|argument| !argument.starts_with('-') && !"bounded".contains(&*argument))
    {
        return ExitCode::SUCCESS;
    }
    let levels: u32 = std::env::var(LEVELS).ok().and_then(|levels| levels.parse().ok()).unwrap_or(7);
    the_budget_bounds_them(levels).await;
    the_depth_bounds_them(levels).await;
    ExitCode::SUCCESS
}

async fn the_budget_bounds_them(levels: u32) {
    let total = agents(levels);
    let most = total as u64 / 2;
    let settings = format!(
        "[recursion]\nmax_call_depth = 12\n[budget.root]\nmax_usd = {:.6}\n",
        (most * PRICE) as f64 / 1_000_000.0
    );
    let swarm = Swarm::start(total, &settings);
    swarm.send("work").await;
    let (cost, tally) = (swarm.cost_of_roots(), swarm.tally("reset"));
    println!("bounded by its budget: {total} agents, {cost:?} of {} micro-USD; {tally:?}", most * PRICE);
    assert!(cost.iter().all(|cost| *cost <= most * PRICE), "{cost:?} passes {}", most * PRICE);
    assert_eq!(cost.len(), 1, "nobody got out of the root's budget");
    assert!(cost[0] > most * PRICE / 2, "{cost:?}: hardly anything was done");
    assert!(tally.refused.contains_key("BUDGET_EXCEEDED"), "{tally:?}");
    check(&swarm, &tally);
    cancel(&swarm).await;
}

async fn the_depth_bounds_them(levels: u32) {
    let total = agents(levels);
    // With ten levels these are the defaults.
    let depth = if levels == 10 { 8 } else { levels - 2 };
    let settings = match depth {
        8 => "[budget.root]\nmax_usd = 1000.0\n".to_owned(),
        depth => format!("[recursion]\nmax_call_depth = {depth}\n[budget.root]\nmax_usd = 1000.0\n"),
    };
    let swarm = Swarm::start(total, &settings);
    swarm.send("work").await;
    let (cost, tally) = (swarm.cost_of_roots(), swarm.tally("reset"));
    println!("bounded by their depth: {total} agents, {cost:?} micro-USD; {tally:?}");
    assert_eq!(cost, [agents(depth) as u64 * PRICE], "all down to level {depth}, and nobody below");
    let too_deep = tally.refused.get("CALL_DEPTH_EXCEEDED").copied().unwrap_or_default();
    assert!(too_deep >= 2usize.pow(depth + 1), "{tally:?}");
    check(&swarm, &tally);
    cancel(&swarm).await;
}

/// What must hold whatever bounds them.
fn check(swarm: &Swarm, tally: &host::Tally) {
    assert_eq!(tally.believed, 0, "a lineage was believed that was not the agent's own: {tally:?}");
    assert!(tally.refused.get("REVISIT_DENIED").is_some_and(|refused| *refused > 0), "{tally:?}");
    assert!(tally.refused.get("LINEAGE_INVALID").is_some_and(|refused| *refused > 0), "{tally:?}");
    assert!(tally.called.values().all(|times| *times == 1), "somebody was called twice: {tally:?}");
    assert_eq!((tally.finished, tally.dropped), (tally.called.len(), 0), "{tally:?}");
    assert_eq!(swarm.open_calls(), 0);
    let known = ["BUDGET_EXCEEDED", "CALL_DEPTH_EXCEEDED", "REVISIT_DENIED", "LINEAGE_INVALID"];
    assert!(tally.refused.keys().all(|reason| known.contains(&&**reason)), "{tally:?}");
}

/// All of them work until somebody stops them.
async fn cancel(swarm: &Swarm) {
    let root = swarm.start_holding().await;
    let open = swarm.open_calls();
    swarm.cancel(&root).await;
    while swarm.open_calls() > 0 || swarm.tally("tally").dropped < open {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let tally = swarm.tally("reset");
    println!("canceled: {open} open calls; {} dropped, {} finished", tally.dropped, tally.finished);
    assert_eq!((tally.dropped, tally.finished), (open, 0));
}

/// How many there are, down to this level.
fn agents(levels: u32) -> usize {
    2usize.pow(levels + 1) - 1
}
