//! `chancery explain`: what the gates would say to a call, one by one, without making it.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::agent::Format;
use super::config::Source;
use super::output::json_line;
use crate::admin::{Door, client};
use crate::rehearsal::{Rehearsal, Supposed, to_json};

/// Say what each gate would make of a call, and why; ends with 1 if it would be refused
///
/// The gateway that runs with the data directory is asked, which knows what its members, their cards and its breakers are like. If none
/// runs, it is what the configuration says, given what has been spent.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    call: Supposed,

    /// Go by the configuration alone, also if a gateway runs
    #[arg(long)]
    offline: bool,

    /// How to print it
    #[arg(short, long, default_value = "text")]
    output: Format,
}

/// The call would be refused. That has been said.
#[derive(Debug, thiserror::Error)]
#[error("the call would be refused")]
pub(super) struct WouldBeRefused;

impl Explain {
    pub(super) fn format(&self) -> Format {
        self.output
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let loaded = self.source.load(Vec::new())?;
        let data = &loaded.config.store.data;
        let told = match self.offline || !Door::leads_anywhere(data).await {
            true => {
                let explanation = self.call.explain(Rehearsal::new(&loaded.config).await?.governor())?;
                json!({"text": explanation.to_string(), "explanation": to_json(&explanation)})
            }
            false => {
                let call = serde_json::to_value(&self.call)?;
                let told = client::ask(data, Method::POST, "/explain", Some(&call)).await?;
                serde_json::from_slice::<Value>(&told).context("the gateway's answer cannot be read")?
            }
        };
        let (text, explanation) = (&told["text"], &told["explanation"]);
        match self.output {
            Format::Json => json_line(out, explanation)?,
            Format::Text => writeln!(out, "{}", text.as_str().unwrap_or_default())?,
        }
        match explanation["admitted"].as_bool() {
            Some(true) => Ok(()),
            _ => Err(WouldBeRefused.into()),
        }
    }
}
