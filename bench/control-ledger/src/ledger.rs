//! To let a call through and to charge it: three levels of ours beside the one level of rvagent-a2a.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use chancery_control::Millis;
use chancery_control::ledger::{Account, Accounts, Cap, Caps, Ledger, Limits, Scope, reserve};
use chancery_protocol::Amount;
use rvagent_a2a::budget::{BudgetLedger, GlobalBudget};

use crate::Contender;

const ONE: Amount = Amount { micro_usd: 100, tokens: 10, tasks: 1 };

/// Calls in one batch of ours, for each of its ledgers.
const CALLS: usize = 4;

pub(crate) fn contenders() -> Result<Vec<Contender>> {
    let mut all = Vec::new();
    for window in [10, 100, 1_000, 10_000] {
        all.push(rvagent(window));
        all.push(ours(&format!("chancery, 3 levels, USD a minute, {window} in the window"), usd(), window)?);
    }
    all.push(ours("chancery, 3 levels, all 3 metrics in all 4 windows", everything(), 10)?);
    all.push(owned(usd())?);
    all.push(with_clock(usd())?);
    Ok(all)
}

fn usd() -> Caps {
    Caps { per_minute: Cap { micro_usd: Some(1 << 50), ..Cap::default() }, ..Caps::default() }
}

fn everything() -> Caps {
    let all = Cap { micro_usd: Some(1 << 50), tokens: Some(1 << 50), tasks: Some(1 << 50) };
    Caps { per_minute: all, per_hour: all, per_day: all, per_month: all }
}

/// The accounts of everything, of a caller and of an agent.
fn accounts(caps: Caps) -> Result<Accounts> {
    let mut limits = Limits { global: caps, ..Limits::default() };
    (limits.caller.default, limits.agent.default) = (caps, caps);
    let ledger = Ledger::new(limits);
    let caller = Scope::Caller { realm: Arc::from("acme"), id: Arc::from("ann") };
    let accounts: Option<Accounts> = [Scope::Global, caller, Scope::Agent(Arc::from("rag"))]
        .iter()
        .map(|scope| ledger.account(scope, Millis(0)))
        .collect();
    accounts.context("all three levels are limited")
}

fn clock() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

fn call<A: AsRef<[Arc<Account>]>>(accounts: A, now: Millis) {
    match reserve(black_box(accounts), black_box(ONE), now) {
        Ok(reservation) => reservation.settle(black_box(ONE), now),
        Err(short) => panic!("there is room for all: {short}"),
    }
}

fn timed(calls: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        work();
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// The time is read once for a batch: a gateway reads it once for a call and all its gates.
fn ours(name: &str, caps: Caps, window: usize) -> Result<Contender> {
    let accounts = accounts(caps)?;
    let mut filled = Millis(0);
    let batch = move || {
        let now = clock();
        // As many as that are in the window, and no more than that are older.
        if now.since(filled) > Duration::from_secs(30) {
            filled = now;
            (0..window).for_each(|_| call(&accounts, now));
        }
        timed(16 * CALLS, || call(&accounts, now))
    };
    Ok(Contender { name: name.to_owned(), batch: Box::new(batch) })
}

/// The same when each call brings references of its own to its accounts, and drops them.
fn owned(caps: Caps) -> Result<Contender> {
    let accounts = accounts(caps)?;
    let batch = move || {
        let now = clock();
        timed(16 * CALLS, || call(accounts.clone(), now))
    };
    Ok(Contender {
        name: "chancery, 3 levels, USD a minute, each call with references of its own to its accounts"
            .to_owned(),
        batch: Box::new(batch),
    })
}

/// The same when each call reads the clock.
fn with_clock(caps: Caps) -> Result<Contender> {
    let accounts = accounts(caps)?;
    let batch = move || timed(16 * CALLS, || call(&accounts, clock()));
    Ok(Contender {
        name: "chancery, 3 levels, USD a minute, each call reading the clock".to_owned(),
        batch: Box::new(batch),
    })
}

/// One level, with the limit of ours. Its window only grows, so it is filled anew before each batch.
fn rvagent(window: usize) -> Contender {
    let ledgers = if window < 1_000 { 16 } else { 2 };
    let mut kept: Vec<BudgetLedger> = Vec::new();
    let mut round = 0;
    let batch = move || {
        // To fill the largest takes a while; it is used for some batches and grows by a few in ten thousand.
        if round % (1 + window / 1_000) == 0 {
            kept = (0..ledgers).map(|_| filled(window)).collect();
        }
        round += 1;
        let mut next = kept.iter().cycle();
        timed(ledgers * CALLS, || {
            if let Some(ledger) = next.next() {
                let admitted = ledger.try_consume(black_box(0.0001), black_box(10));
                assert!(black_box(admitted).is_ok(), "there is room for all");
            }
        })
    };
    Contender { name: format!("rvagent-a2a, 1 level, {window} in the window"), batch: Box::new(batch) }
}

fn filled(window: usize) -> BudgetLedger {
    let budget = GlobalBudget { max_usd_per_minute: Some(1e12), ..GlobalBudget::default() };
    let ledger = BudgetLedger::new(budget);
    // Half of what the batch adds is left out, so that the window is as large as it is called, on average.
    for _ in 0..window - CALLS / 2 {
        let _ = ledger.try_consume(0.0001, 10);
    }
    ledger
}
