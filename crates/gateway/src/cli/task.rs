//! `chancery task`: looking at tasks, watching them, stopping them.

use std::io::Write;

use chancery_protocol::{GetTaskRequest, ListTasksRequest, Task, TaskId, TaskState};
use chancery_sdk::ClientError;
use clap::{Args, Subcommand};

use super::agent::{AgentOptions, Format, no_more};
use super::failure::{During, Failure};
use super::output::{Lines, json_line};
use super::send::follow;
use super::wait::Waiting;

/// Look at tasks, watch them, stop them
#[derive(Debug, Args)]
pub(super) struct TaskCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a task
    Get {
        #[command(flatten)]
        one: One,
        /// How many of the latest messages to show
        #[arg(long, value_name = "N")]
        history: Option<i32>,
        /// Wait until the task has ended or waits for somebody
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Show one's tasks, the latest first
    List {
        #[command(flatten)]
        agent: AgentOptions,
        /// The agent's URL, unless --agent-card names it
        #[arg(value_name = "URL")]
        arguments: Vec<String>,
        /// Only those of this conversation
        #[arg(long, value_name = "ID")]
        context_id: Option<String>,
        /// Only those in this state, such as `working`
        #[arg(long, value_name = "STATE")]
        status: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N")]
        page_size: Option<i32>,
        /// Where to go on, as the last page said
        #[arg(long, value_name = "TOKEN")]
        page_token: Option<String>,
    },
    /// Stop a task
    Cancel {
        #[command(flatten)]
        one: One,
    },
    /// Watch a task until it has ended or waits for somebody
    Subscribe {
        #[command(flatten)]
        one: One,
        /// Write every event as it comes, one a line; without it, JSON is the task at the end
        #[arg(long)]
        stream: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
}

/// One task of one agent.
#[derive(Debug, Args)]
struct One {
    #[command(flatten)]
    agent: AgentOptions,

    /// The agent's URL, unless --agent-card names it, and the id of the task
    #[arg(value_name = "URL ID")]
    arguments: Vec<String>,
}

impl One {
    fn names(&mut self) -> Result<(String, TaskId), Failure> {
        let url = self.agent.url(&mut self.arguments)?;
        if self.arguments.is_empty() {
            return Err(Failure::usage("no task is named; say its id after the agent's URL"));
        }
        let id = self.arguments.remove(0);
        no_more(&self.arguments)?;
        Ok((url, id.into()))
    }

    fn failure(&self, error: &ClientError) -> Failure {
        self.agent.failure(error, During::Call)
    }
}

impl TaskCommand {
    pub(super) fn format(&self) -> Format {
        match &self.action {
            Action::List { agent, .. } => agent.output,
            Action::Get { one, .. } | Action::Cancel { one } | Action::Subscribe { one, .. } => {
                one.agent.output
            }
        }
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        match self.action {
            Action::Get { mut one, history, wait, waiting } => {
                let (url, id) = one.names()?;
                let client = one.agent.connect(&url).await?;
                if wait {
                    waiting.settled(&client, &one.agent, &url, &id).await?;
                }
                let request = GetTaskRequest { tenant: String::new(), id, history_length: history };
                let task = client.get_with(request).await.map_err(|error| one.failure(&error))?;
                show(out, one.agent.output, &task)
            }
            Action::Cancel { mut one } => {
                let (url, id) = one.names()?;
                let client = one.agent.connect(&url).await?;
                let task = client.cancel(id).await.map_err(|error| one.failure(&error))?;
                show(out, one.agent.output, &task)
            }
            Action::Subscribe { mut one, stream, waiting } => {
                let (url, id) = one.names()?;
                let client = one.agent.connect(&url).await?;
                if one.agent.output == Format::Json && !stream {
                    let task = waiting.settled(&client, &one.agent, &url, &id).await?;
                    return show(out, Format::Json, &task);
                }
                let events = client.subscribe(id).await.map_err(|error| one.failure(&error))?;
                follow(events, &one.agent, &url, out).await
            }
            Action::List { agent, mut arguments, context_id, status, page_size, page_token } => {
                let url = agent.url(&mut arguments)?;
                no_more(&arguments)?;
                let filter = ListTasksRequest {
                    context_id: context_id.map(Into::into),
                    status: status.as_deref().map(state).transpose()?.unwrap_or_default(),
                    page_size,
                    page_token: page_token.unwrap_or_default(),
                    ..Default::default()
                };
                let client = agent.connect(&url).await?;
                let page = client.list(filter).await.map_err(|error| agent.failure(&error, During::Call))?;
                match agent.output {
                    Format::Json => json_line(out, &page)?,
                    Format::Text => Lines(out).tasks(&page)?,
                }
                Ok(())
            }
        }
    }
}

fn show(out: &mut impl Write, format: Format, task: &Task) -> anyhow::Result<()> {
    match format {
        Format::Json => json_line(out, task)?,
        Format::Text => Lines(out).task(task)?,
    }
    Ok(())
}

/// A state by its name on the wire, or by the short one: `input-required` is TASK_STATE_INPUT_REQUIRED.
fn state(name: &str) -> Result<TaskState, Failure> {
    let long = name.to_ascii_uppercase().replace('-', "_");
    let found = TaskState::from_name(&long).or_else(|| TaskState::from_name(&format!("TASK_STATE_{long}")));
    found.ok_or_else(|| Failure::usage(format!("`{name}` is no state of a task; `working` is one")))
}
