//! The `chancery` binary: the command line, in a runtime.

mod admin;
mod audit;
mod backup;
mod callers;
mod cli;
mod config;
mod demo;
mod fleet;
mod gateway;
mod govern;
mod identity;
mod kinds;
mod limits;
mod metrics;
mod no_dumps;
mod open_files;
mod plain;
mod ready;
mod records;
mod rehearsal;
mod routes;
mod sandbox;

use std::process::ExitCode;

/// The version, and the commit that it was built from where that is known.
pub(crate) const VERSION: &str = env!("CHANCERY_VERSION");

// A task is forgotten by another thread than the one that took it in, for which the system's allocator takes a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before there is a second thread: a process that has two cannot enter a namespace of users.
    sandbox::help().unwrap_or_else(run)
}

#[tokio::main]
async fn run() -> ExitCode {
    cli::run().await
}
