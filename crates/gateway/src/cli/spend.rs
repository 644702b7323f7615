//! `chancery spend`: what was spent, as a table and by the calls that it goes back to.

use std::io::Write;

use chancery_protocol::Timestamp;
use clap::{Args, Subcommand};
use serde_json::json;

use super::agent::Format;
use super::output::json_line;
use super::place::Place;
use super::records::Which;
use crate::audit::acts;
use crate::records::{CALLS, Records, SUMS, call_row, safe, sum_row, usd};

/// Say what was spent, also while a gateway runs
#[derive(Debug, Args)]
pub(super) struct SpendCommand {
    #[command(flatten)]
    place: Place,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print every call as a row of CSV, with what was held for it and what it cost
    Export {
        #[command(flatten)]
        which: Which,
        /// Print what callers were charged for agents, added up by seconds, minutes and days; that is kept for longer than
        /// the calls themselves
        #[arg(long)]
        sums: bool,
    },
    /// List calls from outside with the cost of all that they led to, the dearest first
    Roots {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// How to print it
        #[arg(short, long, default_value = "text")]
        output: Format,
    },
}

/// How many sums are read at a time.
const STEP: usize = 1000;

impl SpendCommand {
    pub(super) fn format(&self) -> Format {
        match &self.action {
            Action::Export { .. } => Format::Text,
            Action::Roots { output, .. } => *output,
        }
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let config = self.place.load()?;
        let records = Records::open(&config)?;
        if let Action::Export { which, sums } = &self.action {
            let act = acts::act("spend.export").detail("sums", u64::from(*sums));
            acts::write(&config.store.data, &which.put_to(act))?;
        }
        match self.action {
            Action::Export { which, sums: false } => export_calls(&records, &which, out).await,
            Action::Export { which, sums: true } => export_sums(&records, &which, out).await,
            Action::Roots { which, limit, output } => roots(&records, &which, limit, output, out).await,
        }
    }
}

async fn export_calls(records: &Records, which: &Which, out: &mut impl Write) -> anyhow::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    rows.write_record(CALLS)?;
    let mut query = which.query();
    loop {
        let page = records.store.edges(&query).await?;
        for edge in &page.edges {
            write(&mut rows, &call_row(edge))?;
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    Ok(rows.flush()?)
}

fn write(rows: &mut csv::Writer<impl Write>, row: &[String]) -> csv::Result<()> {
    rows.write_record(row.iter().map(|cell| safe(cell).into_owned()))
}

async fn export_sums(records: &Records, which: &Which, out: &mut impl Write) -> anyhow::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    rows.write_record(SUMS)?;
    let since = which.since.map_or(Timestamp::from_millis(0), |when| when.0);
    let mut after = None;
    loop {
        let page = records.store.spend(&which.realms(), since, after, STEP).await?;
        for sum in &page.sums {
            let is =
                |wanted: &Option<String>, there: Option<&str>| wanted.is_none() || wanted.as_deref() == there;
            let is_early = which.until.is_none_or(|until| sum.from < until.0);
            if is_early && is(&which.caller, sum.caller.as_deref()) && is(&which.agent, Some(&*sum.agent)) {
                write(&mut rows, &sum_row(sum))?;
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(rows.flush()?)
}

async fn roots(
    records: &Records,
    which: &Which,
    limit: usize,
    output: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let since = which.since.map_or(Timestamp::from_millis(0), |when| when.0);
    let found = records.store.spend_by_root(&which.realms(), since, usize::MAX).await?;
    let is = |wanted: &Option<String>, there: &str| wanted.as_deref().is_none_or(|wanted| wanted == there);
    let is_early = |opened: Timestamp| which.until.is_none_or(|until| opened < until.0);
    let wanted = found.roots.iter().filter(|root| {
        is(&which.caller, &root.caller) && is(&which.agent, &root.agent) && is_early(root.opened)
    });
    for root in wanted.take(limit) {
        match output {
            Format::Json => json_line(
                out,
                &json!({"root": root.root, "realm": root.realm, "caller": root.caller, "agent": root.agent,
                    "opened": root.opened, "settled": root.settled, "charged": root.charged, "held": root.held,
                    "calls": root.calls, "open": root.open, "depth": root.depth}),
            )?,
            Format::Text => writeln!(
                out,
                "{}  {} USD, {} tokens  {} -> {}  {} calls, {} open, depth {}  {}",
                root.root,
                usd(root.charged.micro_usd),
                root.charged.tokens,
                root.caller,
                root.agent,
                root.calls,
                root.open,
                root.depth,
                root.opened
            )?,
        }
    }
    if let Some(cut) = found.cut {
        tracing::warn!("there is too much to look at; these are the dearest since {cut}");
    }
    Ok(())
}
