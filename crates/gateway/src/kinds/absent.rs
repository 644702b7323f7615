//! Agents of which it is known what they are, but not what answers for them. They are listed, and say why they cannot.

use chancery_sdk::{Agent, Failure, Outcome, Turn};
use serde_json::json;

use super::{Built, Modes, described};
use crate::config::AgentSection;

/// Says why it cannot answer.
struct Absent(String);

impl Agent for Absent {
    async fn run(&self, _: Turn) -> Result<Outcome, Failure> {
        Err(Failure::public(format!("this agent cannot answer: {}", self.0)))
    }
}

pub(super) fn build(section: &AgentSection, why: String) -> anyhow::Result<Built> {
    let spec = described(section, Absent(why.clone()), Modes::default(), json!({"runtime": "none"}))?;
    Ok(Built::Absent(Box::new(spec), why))
}
