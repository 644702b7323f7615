//! `chancery serve` as a fleet: its addresses, who sees what, and how it changes while it runs.

mod addresses;
mod atomic;
mod discover;
mod extended;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
mod hostile;
mod http;
mod many;
mod markdown;
mod members;
mod money;
mod planner;
mod ports;
mod probes;
mod provenance;
mod reach;
mod reload;
mod speaker;
mod upstream;
