//! What the gateway promises, tried from outside: `chancery serve` on its default store, in front of agents on other SDKs and of one
//! that misbehaves as it is asked (`interop/python/hostile.py`), over every version and binding. What was done is counted at the
//! agents; what was charged is read from the export.
//!
//! `interop/test` sets the other SDKs up and runs this; `cargo test -p chancery --test remote NAME` runs one of them after that.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]
#![cfg(unix)]

#[path = "../crash/wire.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod call;
#[path = "../interop/cell.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod cell;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod http;
#[path = "../interop/peer.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod peer;
#[path = "../interop/process.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod process;
#[path = "../crash/receiver.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod receiver;
#[path = "../interop/scenario.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod scenario;
#[path = "../interop/wire.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod wire;

mod agents;
mod caller;
mod front;
mod groups;
mod records;

mod contexts;
mod counted;
mod credential;
mod deadline;
mod died;
mod faults;
mod killed;
mod pool;
mod refused;
mod repeated;
mod reports;
mod stormed;
mod surged;
mod token;
mod unpriced;

use std::time::Duration;

/// For how long something may fail to come about.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("it never came about that {what}"));
}

/// Fails with all that went wrong.
fn judge(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}
