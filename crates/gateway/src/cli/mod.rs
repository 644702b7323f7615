//! The command line: one file a command.

mod demo;
mod storage;
mod store;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Run, guard and trace calls between agents.
#[derive(Debug, Parser)]
#[command(name = "chancery", version, about)]
pub(crate) struct Arguments {
    /// What to log, such as `info` or `chancery_sdk=debug`
    #[arg(long, env = "CHANCERY_LOG", default_value = "warn", global = true, value_name = "FILTER")]
    log: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Store(store::StoreCommand),
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        start_logging(&self.log)?;
        match self.command {
            Command::Demo(demo) => demo.run().await,
            Command::Store(store) => store.run().await,
        }
    }
}

/// Says what failed, with its causes, and gives the exit code.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  Caused by: {cause}\n"));
    }
    // If nobody reads it, there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}

fn start_logging(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    Ok(())
}
