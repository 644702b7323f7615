//! The agents of the demo fleet.

mod ask;
mod conformance;
mod stream;

use chancery_sdk::{AgentSkill, AgentSpec, Message, agent_fn};

/// Their names.
pub(crate) const NAMES: [&str; 4] = ["echo", "stream", "ask", "conformance"];

/// All of them.
pub(crate) fn agents() -> impl Iterator<Item = AgentSpec> {
    let version = env!("CARGO_PKG_VERSION");
    [echo(), stream::spec(), ask::spec(), conformance::spec()]
        .into_iter()
        .map(move |agent| agent.version(version))
}

fn echo() -> AgentSpec {
    AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }))
        .description("Says what it is told")
        .skill(AgentSkill::new("echo", "Echo", "Repeats a text word for word").tag("demo").example("hello"))
}
