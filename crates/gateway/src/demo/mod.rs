//! The agents of the demo fleet.

mod ask;
mod conformance;
mod planner;
mod stream;

use std::sync::Arc;

use chancery_sdk::{AgentSkill, AgentSpec, Message, agent_fn};

use crate::kinds::Neighbours;

/// Their names.
pub(crate) const NAMES: [&str; 5] = ["echo", "stream", "ask", "conformance", "planner"];

/// How the fleet of the demo is governed.
pub(crate) const CONFIG: &str = include_str!("demo.toml");

/// All of them.
pub(crate) fn agents(neighbours: &Arc<Neighbours>) -> impl Iterator<Item = AgentSpec> {
    let version = env!("CARGO_PKG_VERSION");
    [echo(), stream::spec(), ask::spec(), conformance::spec(), planner::spec(neighbours.clone())]
        .into_iter()
        .map(move |agent| agent.version(version))
}

fn echo() -> AgentSpec {
    AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }))
        .description("Says what it is told")
        .skill(AgentSkill::new("echo", "Echo", "Repeats a text word for word").tag("demo").example("hello"))
}
