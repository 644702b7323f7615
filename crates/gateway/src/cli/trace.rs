//! `chancery trace`: which calls led to which, and where they are slow.

use std::io::Write;

use anyhow::bail;
use chancery_protocol::HopId;
use chancery_store::{EdgeQuery, Realms};
use clap::{Args, Subcommand};
use serde_json::json;

use super::agent::Format;
use super::output::json_line;
use super::place::Place;
use super::records::Which;
use crate::records::{Records, chains, tree, usd};

/// Show which calls led to which, also while a gateway runs
#[derive(Debug, Args)]
pub(super) struct TraceCommand {
    #[command(flatten)]
    place: Place,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a call from outside and all that it led to, as a tree
    Show {
        /// The call, as `spend roots` names it; or the id of a W3C trace
        root: String,
        /// How to print it; as JSON, one call a line
        #[arg(short, long, default_value = "text")]
        output: Format,
    },
    /// Say how long calls take, by the chain of agents that leads to them, the slowest first
    Chains {
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

/// The most calls that are looked at.
const MOST: usize = 100_000;

impl TraceCommand {
    pub(super) fn format(&self) -> Format {
        match &self.action {
            Action::Show { output, .. } | Action::Chains { output, .. } => *output,
        }
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let records = Records::open(&self.place.load()?)?;
        match self.action {
            Action::Show { root, output } => show(&records, &root, output, out).await,
            Action::Chains { which, limit, output } => {
                let query = EdgeQuery { newest_first: true, ..which.query() };
                let (edges, cut) = records.edges(query, MOST).await?;
                if cut {
                    tracing::warn!("there is too much to look at; these are the last {MOST} calls");
                }
                for chain in chains(&edges).iter().take(limit) {
                    let crate::records::Chain { agents, calls, p50_ms, p95_ms, max_ms } = chain;
                    match output {
                        Format::Json => json_line(
                            out,
                            &json!({"agents": agents, "calls": calls, "p50Ms": p50_ms, "p95Ms": p95_ms, "maxMs": max_ms}),
                        )?,
                        Format::Text => writeln!(
                            out,
                            "{agents}  {calls} calls  half within {p50_ms} ms, 95 % within {p95_ms} ms, all within {max_ms} ms"
                        )?,
                    }
                }
                Ok(())
            }
        }
    }
}

async fn show(records: &Records, id: &str, output: Format, out: &mut impl Write) -> anyhow::Result<()> {
    let all = EdgeQuery::of(Realms::All);
    let mut found = (Vec::new(), false);
    if let Some(root) = HopId::parse(id) {
        found = records.edges(EdgeQuery { root: Some(root), ..all.clone() }, MOST).await?;
    }
    if found.0.is_empty() {
        found = records.edges(EdgeQuery { trace: Some(id.into()), ..all }, MOST).await?;
    }
    let (edges, cut) = found;
    if edges.is_empty() {
        bail!("no call of `{id}` has been recorded, or it has been forgotten; see `chancery spend roots`");
    }
    if cut {
        tracing::warn!("there is too much to look at; these are the first {MOST} calls");
    }
    if output == Format::Json {
        return Ok(edges.iter().try_for_each(|edge| json_line(out, edge))?);
    }
    let charged: u64 = edges.iter().filter_map(|edge| Some(edge.settled?.charged.micro_usd)).sum();
    let deepest = edges.iter().map(|edge| edge.depth).max().unwrap_or_default();
    writeln!(out, "{} calls, depth {deepest}, {} USD", edges.len(), usd(charged))?;
    tree(&edges).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}
