//! What operators do beside a running `chancery serve`: its cards are signed and its keys change, budgets are topped up
//! and reset, what was spent is exported.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod backup;
mod budget;
mod cards;
mod gateway;
mod identity;
mod private;
