//! An agent that asks back once, then answers.

use chancery_sdk::{Agent, AgentSkill, AgentSpec, Failure, Outcome, Turn};

struct Ask;

pub(super) fn spec() -> AgentSpec {
    AgentSpec::new("ask", Ask).description("Asks who you are, then greets you by that name").skill(
        AgentSkill::new("greet", "Greet", "Greets, but wants to know whom").tag("demo").example("hello"),
    )
}

impl Agent for Ask {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let Some(greeting) = turn.state::<String>()? else {
            turn.set_state(&turn.text())?;
            return Ok(turn.ask("Who are you?"));
        };
        Ok(Outcome::text(format!("{greeting}, {}", turn.text())))
    }
}
