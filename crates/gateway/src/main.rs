//! The `chancery` binary: the command line, in a runtime.

mod admin;
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
mod plain;
mod ready;
mod records;
mod rehearsal;
mod sandbox;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before there is a second thread: a process that has two cannot enter a namespace of users.
    sandbox::help().unwrap_or_else(run)
}

#[tokio::main]
async fn run() -> ExitCode {
    cli::run().await
}
