//! The command line: one file a command.

mod admin;
mod agent;
mod audit;
mod budget;
mod card;
mod config;
mod demo;
mod explain;
mod failure;
mod init;
mod key;
mod output;
mod place;
mod records;
mod send;
mod serve;
mod spend;
mod store;
mod task;
mod trace;
mod wait;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::BadConfig;
use agent::Format;
use failure::Failure;

/// The exit status for a configuration that cannot be used, as `sysexits.h` has it.
const BAD_CONFIG: u8 = 64;

/// Run, guard and trace calls between agents.
#[derive(Debug, Parser)]
#[command(name = "chancery", version = crate::VERSION, about)]
pub(crate) struct Arguments {
    /// What to log, such as `info` or `chancery_sdk=debug`
    #[arg(long, env = "CHANCERY_LOG", default_value = "warn", global = true, value_name = "FILTER")]
    log: String,

    /// How to log
    #[arg(long, env = "CHANCERY_LOG_FORMAT", default_value = "text", global = true, value_name = "FORMAT")]
    log_format: LogFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// An object on each line
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Admin(admin::AdminCommand),
    Audit(audit::AuditCommand),
    Budget(budget::BudgetCommand),
    Card(card::CardCommand),
    Check(config::Check),
    ConfigSchema(config::ConfigSchema),
    Demo(demo::Demo),
    EffectiveConfig(config::EffectiveConfig),
    Explain(explain::Explain),
    Init(init::Init),
    Key(key::KeyCommand),
    Send(send::Send),
    Serve(serve::Serve),
    Spend(spend::SpendCommand),
    Store(store::StoreCommand),
    Task(task::TaskCommand),
    Trace(trace::TraceCommand),
}

/// Reads the command line, runs what it says, and tells what failed.
pub(crate) async fn run() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let wants_json = wants_json(&arguments);
    let (format, outcome) = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => (arguments.command.format(), arguments.run().await),
        // Help and the version are asked for; people read what is wrong as clap says it.
        Err(error) if !error.use_stderr() || !wants_json => error.exit(),
        Err(error) => (Format::Json, Err(Failure::usage(error.to_string()).into())),
    };
    report(format, outcome)
}

/// Whether programs read the answer. Asked of a command line that cannot be read any better.
fn wants_json(arguments: &[OsString]) -> bool {
    let is = |argument: &OsString, known: &[&str]| known.iter().any(|known| argument == known);
    let pairs = arguments.windows(2);
    pairs.into_iter().any(|pair| is(&pair[0], &["-o", "--output"]) && is(&pair[1], &["json"]))
        || arguments.iter().any(|argument| is(argument, &["-ojson", "-o=json", "--output=json"]))
}

impl Command {
    fn format(&self) -> Format {
        match self {
            Self::Admin(admin) => admin.format(),
            Self::Audit(audit) => audit.format(),
            Self::Budget(budget) => budget.format(),
            Self::Card(card) => card.format(),
            Self::Spend(spend) => spend.format(),
            Self::Trace(trace) => trace.format(),
            Self::Send(send) => send.format(),
            Self::Task(task) => task.format(),
            Self::EffectiveConfig(config) => config.format(),
            Self::Explain(explain) => explain.format(),
            Self::Check(_)
            | Self::ConfigSchema(_)
            | Self::Demo(_)
            | Self::Init(_)
            | Self::Key(_)
            | Self::Serve(_)
            | Self::Store(_) => Format::Text,
        }
    }
}

impl Arguments {
    async fn run(self) -> anyhow::Result<()> {
        start_logging(&self.log, self.log_format)?;
        let mut out = std::io::stdout();
        match self.command {
            Command::Admin(admin) => admin.run(&mut out).await,
            Command::Audit(audit) => audit.run(&mut out).await,
            Command::Budget(budget) => budget.run(&mut out).await,
            Command::Card(card) => card.run(&mut out).await,
            Command::Check(check) => check.run(&mut out),
            Command::ConfigSchema(schema) => schema.run(&mut out),
            Command::Demo(demo) => demo.run().await,
            Command::EffectiveConfig(config) => config.run(&mut out),
            Command::Explain(explain) => explain.run(&mut out).await,
            Command::Init(init) => init.run(&mut out),
            Command::Key(key) => key.run(&mut out),
            Command::Send(send) => send.run(&mut out).await,
            Command::Serve(serve) => serve.run(&mut out).await,
            Command::Spend(spend) => spend.run(&mut out).await,
            Command::Store(store) => store.run().await,
            Command::Task(task) => task.run(&mut out).await,
            Command::Trace(trace) => trace.run(&mut out).await,
        }
    }
}

/// Says what failed, with its causes, and gives the exit code.
fn report(format: Format, outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    // What is wrong has been printed.
    if error.is::<explain::WouldBeRefused>() || error.is::<audit::NotWhole>() {
        return ExitCode::FAILURE;
    }
    // If nobody reads it, there is nobody to tell.
    if let Some(failure) = error.downcast_ref::<Failure>() {
        let _ = match format {
            Format::Json => output::json_line(&mut std::io::stdout(), &failure.envelope()),
            Format::Text => std::io::stderr().write_all(failure.text().as_bytes()),
        };
        return ExitCode::from(failure.status());
    }
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  Caused by: {cause}\n"));
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
    match error.is::<BadConfig>() {
        true => ExitCode::from(BAD_CONFIG),
        false => ExitCode::FAILURE,
    }
}

fn start_logging(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(colour).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
