//! What the hot path of the ledger must not do: allocate.

use std::sync::Arc;
use std::time::Duration;

use chancery_control::Millis;
use chancery_control::ledger::{Accounts, Cap, Caps, Ledger, Limits, Scope, reserve};
use chancery_protocol::{Amount, HopId};

const NOON: Millis = Millis(1_768_478_400_000);

/// The accounts of all six levels, with every limit that there is.
fn accounts() -> Accounts {
    let all = Cap { micro_usd: Some(1 << 40), tokens: Some(1 << 40), tasks: Some(1 << 40) };
    let caps = Caps { per_minute: all, per_hour: all, per_day: all, per_month: all };
    let mut limits = Limits { global: caps, ..Limits::default() };
    (limits.realm.default, limits.caller.default, limits.agent.default) = (caps, caps, caps);
    let ledger = Ledger::new(limits);
    let [realm, id, agent]: [Arc<str>; 3] = ["acme".into(), "ann".into(), "rag".into()];
    let scopes =
        [Scope::Global, Scope::Realm(realm.clone()), Scope::Caller { realm, id }, Scope::Agent(agent)];
    let hop = HopId::generate();
    let of_call = [ledger.root(hop, all), ledger.hop(hop, all)];
    scopes.iter().map(|scope| ledger.account(scope, NOON)).chain(of_call).flatten().collect()
}

#[test]
fn to_reserve_extend_and_settle_allocates_nothing() {
    let accounts = accounts();
    assert_eq!(accounts.len(), 6);
    let held = Amount { micro_usd: 5, tokens: 5, tasks: 1 };
    let mut now = NOON;
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            let mut call = reserve(accounts.clone(), held, now).unwrap();
            call.extend(Amount { micro_usd: 1, tokens: 1, tasks: 0 }, now).unwrap();
            now = now + Duration::from_secs(700_000);
            call.settle(held, now);
        }
    });
    assert_eq!(counted.count_total, 0);
}
