//! What is true of the SQLite store alone: it outlives its process, refuses what it cannot keep, and goes on.
//!
//! What every store must do is in the conformance suite; its drafts of batches are used here, too.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

#[path = "../conformance/support.rs"]
#[allow(dead_code, reason = "the conformance suite uses the rest")]
mod support;

#[path = "../conformance/calls.rs"]
#[allow(dead_code, reason = "the conformance suite uses the rest")]
mod calls;

mod audit;
mod care;
mod counts;
mod damage;
mod edges;
mod failures;
mod folder;
mod groups;
mod killed;
mod old_daybook;
mod opening;
mod reopening;
