//! Remote is local, also where the agent is on another SDK: the same as `main.rs` tries, with the SDK for Python. `interop/test`
//! sets that up and runs this.

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
#[allow(dead_code, reason = "`main.rs` uses the rest of it")]
mod site;
mod tasks;

use judge::judge;
use site::Site;

/// Where that SDK does otherwise.
const KNOWN: [(&str, &str); 1] = [("media types that it does not take", "it takes every media type")];

#[test]
fn an_agent_on_another_sdk_answers_as_one_that_the_gateway_runs() {
    judge(&Site::foreign(), &KNOWN);
}
