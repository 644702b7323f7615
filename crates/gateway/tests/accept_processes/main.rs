//! Remote is local, seen from outside: the same callers talk to the same agent, once where `chancery serve` runs it itself and once
//! where it is another process (`chancery demo --agent conformance`) behind it. What they are told is the same, but for ids, times
//! and the extension that says where something comes from.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]
#![allow(clippy::print_stdout, reason = "how many scenarios are the same is what is asked")]
#![cfg(unix)]

mod caller;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
#[path = "../conformance/http.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod http;
mod judge;
#[path = "../accept_remote/normal.rs"]
mod normal;
#[path = "../conformance/receiver.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod receiver;
mod refusals;
mod scenarios;
#[path = "../conformance/schema.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod schema;
#[allow(dead_code, reason = "`foreign.rs` uses the rest of it")]
mod site;
mod tasks;

use judge::judge;
use site::Site;

#[test]
fn an_agent_in_another_process_answers_as_one_that_the_gateway_runs() {
    judge(&Site::remote(&[]), &[]);
}

#[test]
fn so_does_one_that_speaks_v0_3_only() {
    judge(&Site::remote(&["--without-version", "1.0"]), &[]);
}

#[test]
fn two_gateways_that_run_the_agent_themselves_answer_alike() {
    judge(&Site::local(), &[]);
}
