//! A store that was left by a gateway in which agents elsewhere were run in another way, opened by this one: their tasks are
//! found, go on and are paid as they would have been.

mod agent;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
mod goes_on;
#[path = "../crash/receiver.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the other tests use the rest of it")]
mod receiver;
mod site;
mod store;
mod whole;
