//! An agent that has others do its work. Each step of a plan is a call through the gateway, made on behalf of the planner's own:
//! it counts against the same budget, and a plan that leads back to the planner is refused.

use std::sync::Arc;

use chancery_sdk::protocol::SendMessageResponse;
use chancery_sdk::{Agent, AgentSkill, AgentSpec, Artifact, Failure, Message, Outcome, Part, Turn};

use crate::kinds::Neighbours;

/// The most steps of a plan.
const MAX_STEPS: usize = 32;

struct Planner(Arc<Neighbours>);

pub(super) fn spec(neighbours: Arc<Neighbours>) -> AgentSpec {
    AgentSpec::new("planner", Planner(neighbours)).description("Has other agents do its work").skill(
        AgentSkill::new("plan", "Plan", "`echo hello; stream 3 100` asks one agent after the other")
            .tag("demo")
            .example("echo hello; stream 3 100; planner echo again"),
    )
}

impl Agent for Planner {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let text = turn.text().into_owned();
        let plan = match steps(&text) {
            Ok(plan) => plan,
            Err(reason) => return Ok(Outcome::rejected(reason)),
        };
        let mut done = 0;
        for (number, (agent, asked)) in plan.iter().enumerate() {
            turn.working(format!("Asking {agent}")).await?;
            let said = match self.ask(&turn, agent, asked).await {
                Ok(said) => {
                    done += 1;
                    said
                }
                Err(why) => why,
            };
            let step = format!("step-{}", number + 1);
            turn.artifact(Artifact::new(step, vec![Part::text(format!("{agent}: {said}"))])).await?;
        }
        Ok(Outcome::completed().saying(format!("{done} of {} steps are done", plan.len())))
    }
}

impl Planner {
    /// What an agent answers, or why it does not.
    async fn ask(&self, turn: &Turn, agent: &str, text: &str) -> Result<String, String> {
        let found = self.0.find(agent).ok_or_else(|| format!("there is no agent `{agent}`"))?;
        let answer = turn.call(&found, Message::user(text)).await.map_err(|error| error.to_string())?;
        match &answer {
            SendMessageResponse::Task(task) if !task.status.state.is_terminal() => {
                let said = task.status.message.as_ref().map(|message| message.text().into_owned());
                Err(format!("waits: {}", said.unwrap_or_default()))
            }
            SendMessageResponse::Task(task) if task.artifacts.is_empty() => {
                let said = task.status.message.as_ref().map(|message| message.text().into_owned());
                Ok(said.unwrap_or_else(|| task.status.state.as_str().to_owned()))
            }
            answer => Ok(answer.text()),
        }
    }
}

/// Reads `AGENT TEXT; AGENT TEXT`.
fn steps(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let parts: Vec<_> = text.split(';').filter(|part| !part.trim().is_empty()).collect();
    match parts.len() {
        0 => Err("there is no plan; say `echo hello; stream 3 100`".to_owned()),
        count if count > MAX_STEPS => Err(format!("a plan has at most {MAX_STEPS} steps")),
        _ => parts.into_iter().map(step).collect(),
    }
}

fn step(text: &str) -> Result<(&str, &str), String> {
    match text.trim().split_once(char::is_whitespace) {
        Some((agent, asked)) => Ok((agent, asked.trim())),
        None => Err(format!("`{}` is no step; say an agent and what it is asked: `echo hello`", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_an_agent_and_what_it_is_asked() {
        assert_eq!(
            steps("echo hello there; stream 3 100;"),
            Ok(vec![("echo", "hello there"), ("stream", "3 100")])
        );
        assert!(steps(" ; ").is_err());
        assert!(steps("echo").is_err_and(|why| why.contains("`echo` is no step")));
        assert!(steps(&"echo x;".repeat(MAX_STEPS + 1)).is_err());
    }
}
