//! `chancery send`: saying something to an agent.

use std::io::Write;

use chancery_protocol::{
    JsonObject, Message, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, StreamResponse,
    Task, TaskState,
};
use chancery_sdk::{Client, Events};
use clap::Args;

use super::agent::{AgentOptions, Format, no_more};
use super::failure::{During, Failure};
use super::output::{Lines, json_line};
use super::wait::Waiting;

/// Send a message to an agent and wait for what comes of it
#[derive(Debug, Args)]
pub(super) struct Send {
    #[command(flatten)]
    agent: AgentOptions,

    /// The agent's URL, unless --agent-card names it, and the text to send
    #[arg(value_name = "URL TEXT")]
    arguments: Vec<String>,

    /// Watch the answer being made
    #[arg(long)]
    stream: bool,

    /// Do not wait; say which task it is
    #[arg(long = "async", conflicts_with = "stream")]
    return_at_once: bool,

    /// Go on with this task
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,

    /// Begin a task in this conversation
    #[arg(long, value_name = "ID")]
    context_id: Option<String>,

    /// A JSON object to send along with the message
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,

    #[command(flatten)]
    waiting: Waiting,
}

impl Send {
    pub(super) fn format(&self) -> Format {
        self.agent.output
    }

    pub(super) async fn run(mut self, out: &mut impl Write) -> anyhow::Result<()> {
        let url = self.agent.url(&mut self.arguments)?;
        let request = self.request()?;
        let client = self.agent.connect(&url).await?;
        if self.stream {
            return self.stream(&client, &url, request, out).await;
        }
        let sent = client.send(request).await.map_err(|error| self.agent.failure(&error, During::Call))?;
        let sent = match sent {
            SendMessageResponse::Task(task) if !self.return_at_once && !is_settled(task.status.state) => {
                let task = self.waiting.settled(&client, &self.agent, &url, &task.id).await?;
                SendMessageResponse::Task(task)
            }
            sent => sent,
        };
        match (self.agent.output, &sent) {
            (Format::Json, sent) => json_line(out, sent)?,
            (Format::Text, SendMessageResponse::Message(message)) => Lines(out).message(message)?,
            (Format::Text, SendMessageResponse::Task(task)) => {
                let mut lines = Lines(out);
                lines.task(task)?;
                lines.field("Next", next_step(&url, task.id.as_str(), task.status.state))?;
            }
        }
        Ok(())
    }

    /// The task is begun first and waited for then, so that its id is known whatever happens meanwhile.
    fn request(&mut self) -> Result<SendMessageRequest, Failure> {
        if self.arguments.is_empty() {
            return Err(Failure::usage("there is nothing to send; say the text after the agent's URL"));
        }
        let text = self.arguments.remove(0);
        no_more(&self.arguments)?;
        let mut message = Message::user(text);
        if let Some(id) = self.task_id.take() {
            message = message.in_task(id.into());
        }
        if let Some(id) = self.context_id.take() {
            message = message.in_context(id.into());
        }
        let mut request = SendMessageRequest::from(message);
        if let Some(text) = &self.metadata {
            let metadata = JsonObject::parse(text);
            request.metadata =
                Some(metadata.map_err(|error| Failure::usage(format!("--metadata: {error}")))?);
        }
        if !self.stream {
            request.configuration =
                Some(SendMessageConfiguration { return_immediately: true, ..Default::default() });
        }
        Ok(request)
    }

    async fn stream(
        &self,
        client: &Client,
        url: &str,
        request: SendMessageRequest,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let events = client.stream(request).await;
        let events = events.map_err(|error| self.agent.failure(&error, During::Call))?;
        follow(events, &self.agent, url, out).await
    }
}

fn is_settled(state: TaskState) -> bool {
    state.is_terminal() || state.is_interrupted()
}

/// The exact command that goes on from here.
fn next_step(url: &str, id: &str, state: TaskState) -> String {
    match state {
        state if state.is_interrupted() => format!("chancery send {url} --task-id {id} \"<reply>\""),
        state if state.is_terminal() => String::new(),
        _ => format!("chancery task get {url} {id} --wait"),
    }
}

/// Writes events as they come. Those who see only the last one see where the task stands.
pub(super) async fn follow(
    mut events: Events,
    agent: &AgentOptions,
    url: &str,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut last: Option<Task> = None;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| agent.failure(&error, During::Call))?;
        if agent.output == Format::Json {
            out.write_all(&event.json)?;
            out.write_all(b"\n")?;
            out.flush()?;
            continue;
        }
        let payload = event.payload().map_err(|error| Failure::internal(error.to_string()))?;
        Lines(&mut *out).event(&payload)?;
        match payload {
            StreamResponse::Task(task) => last = Some(task),
            StreamResponse::StatusUpdate(update) => {
                if let Some(task) = &mut last {
                    task.status = update.status;
                }
            }
            StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => {}
        }
    }
    if let Some(task) = last {
        Lines(out).field("Next", next_step(url, task.id.as_str(), task.status.state))?;
    }
    Ok(())
}
