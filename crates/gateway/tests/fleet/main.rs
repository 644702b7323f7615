//! `chancery serve` as a fleet: its addresses, who sees what, and how it changes while it runs.

mod addresses;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
mod http;
mod members;
mod reload;
