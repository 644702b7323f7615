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
mod metrics;
mod records;
mod rehearsal;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cli::run().await
}
