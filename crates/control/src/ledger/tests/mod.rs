//! What the ledger must do, whatever happens at the same time.

mod behaviour;
mod editions;
mod interleavings;
mod pricing;
mod properties;
mod reference;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::Amount;

use super::{Account, Accounts, Cap, Caps, Ledger, Limits, Overflow, Scope, Unlimited};
use crate::Millis;

/// Noon of a day in the middle of a month.
const NOON: Millis = Millis(1_768_478_400_000);

fn usd(micro_usd: u64) -> Amount {
    Amount { micro_usd, ..Amount::default() }
}

fn cap(micro_usd: u64) -> Cap {
    Cap { micro_usd: Some(micro_usd), ..Cap::default() }
}

fn per_minute(micro_usd: u64) -> Caps {
    Caps { per_minute: cap(micro_usd), ..Caps::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn caller(id: &str) -> Scope {
    Scope::Caller { realm: Arc::from("acme"), id: Arc::from(id) }
}

/// A ledger with one limit a minute for everything, and one for each caller.
fn ledger(global: u64, each_caller: u64, overflow: Overflow) -> Ledger {
    let mut limits = Limits { global: per_minute(global), overflow, ..Limits::default() };
    limits.caller.default = per_minute(each_caller);
    Ledger::new(limits)
}

/// The accounts of a call by somebody.
fn accounts(ledger: &Ledger, id: &str) -> Accounts {
    [Scope::Global, caller(id)].iter().filter_map(|scope| ledger.account(scope, NOON)).collect()
}

/// Has other limits hold from now on.
fn amend(ledger: &Ledger, limits: Limits) -> Result<(), Unlimited> {
    ledger.prepare(limits).map(|next| ledger.enact(&next, NOON))
}

/// One account with these limits, of a ledger without a queue.
fn account(caps: Caps) -> Arc<Account> {
    Ledger::new(Limits { global: caps, ..Limits::default() }).account(&Scope::Global, NOON).unwrap()
}
