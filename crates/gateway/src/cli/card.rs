//! `chancery card`: looking at what an agent says about itself.

use std::io::Write;

use clap::{Args, Subcommand};

use super::agent::{AgentOptions, Format};
use super::failure::During;
use super::output::{Lines, json_line};

/// Look at an agent's card
#[derive(Debug, Args)]
pub(super) struct CardCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch a card and show it
    Get {
        #[command(flatten)]
        agent: AgentOptions,

        /// The agent's URL, or that of its card
        #[arg(value_name = "URL")]
        arguments: Vec<String>,
    },
}

impl CardCommand {
    pub(super) fn format(&self) -> Format {
        let Action::Get { agent, .. } = &self.action;
        agent.output
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let Action::Get { agent, mut arguments } = self.action;
        let url = agent.url(&mut arguments)?;
        super::agent::no_more(&arguments)?;
        let client = agent.connect(&url).await?;
        let card = client.card().await.map_err(|error| agent.failure(&error, During::Discovery))?;
        match agent.output {
            Format::Json => json_line(out, &*card)?,
            Format::Text => Lines(out).card(&card)?,
        }
        Ok(())
    }
}
