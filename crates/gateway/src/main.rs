//! The `chancery` binary: parse, log, run, say what failed.

mod cli;
mod demo;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    cli::report(cli::Arguments::parse().run().await)
}
