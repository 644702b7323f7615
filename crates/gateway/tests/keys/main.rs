//! What operators do beside a running `chancery serve`: its cards are signed and its keys change.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod cards;
mod gateway;
