//! Agents of which it is known what they are, but not what answers for them. They are listed, and say why they cannot.

use chancery_sdk::{Agent, Failure, Outcome, Turn};
use serde_json::json;

use super::{Built, Modes, described};
use crate::config::AgentSection;
use crate::fleet::Trouble;

/// Says why it cannot answer.
struct Absent(String);

impl Agent for Absent {
    async fn run(&self, _: Turn) -> Result<Outcome, Failure> {
        Err(Failure::public(format!("this agent cannot answer: {}", self.0)))
    }
}

pub(super) fn build(section: &AgentSection, why: Trouble) -> anyhow::Result<Built> {
    let absent = Absent(why.public.to_string());
    let spec = described(section, absent, Modes::default(), json!({"runtime": "none"}))?;
    Ok(Built::Absent(Box::new(spec), why))
}
