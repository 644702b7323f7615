//! Waiting until a task has ended or waits for somebody, by stream where there is one and by asking where not.

use std::time::Duration;

use chancery_protocol::{ErrorCode, Event, StreamResponse, Task, TaskId};
use chancery_sdk::{Client, ClientError};
use tokio::time::{sleep, timeout};

use super::agent::{AgentOptions, Span};
use super::failure::{During, Failure};

/// How a task is waited for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Waiting {
    /// How often to ask for a task that cannot be watched
    #[arg(long, env = "A2ACLI_POLL_INTERVAL", default_value = "2s", value_name = "DURATION")]
    poll_interval: Span,
}

impl Waiting {
    /// The task, once it has ended or waits for somebody.
    pub(super) async fn settled(
        self,
        client: &Client,
        agent: &AgentOptions,
        url: &str,
        id: &TaskId,
    ) -> Result<Task, Failure> {
        let outcome = match agent.timeout {
            Some(limit) => match timeout(limit.0, self.watch(client, id)).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let text = format!("the task {id} was still going on after {:?}", limit.0);
                    return Err(Failure::timeout(text).hint(format!("chancery task get {url} {id} --wait")));
                }
            },
            None => self.watch(client, id).await,
        };
        outcome.map_err(|error| agent.failure(&error, During::Call))
    }

    async fn watch(self, client: &Client, id: &TaskId) -> Result<Task, ClientError> {
        if client.card().await?.capabilities.streaming == Some(true) {
            match client.subscribe(id.clone()).await {
                // A subscription outlasts a question, and this does not.
                Ok(mut events) => while !is_settled(events.next().await) {},
                // It has ended, or is not streamed: asking tells.
                Err(error) if error.code() == Some(ErrorCode::UnsupportedOperation) => {}
                Err(error) => return Err(error),
            }
        }
        let mut pause = Duration::from_millis(50).min(self.poll_interval.0);
        loop {
            let task = client.get(id.clone()).await?;
            let state = task.status.state;
            if state.is_terminal() || state.is_interrupted() {
                return Ok(task);
            }
            sleep(pause).await;
            pause = (pause * 2).min(self.poll_interval.0);
        }
    }
}

/// Whether there is nothing to wait for after this event of a stream.
fn is_settled(event: Option<Result<Event, ClientError>>) -> bool {
    let Some(Ok(event)) = event else { return true };
    let state = match event.payload() {
        Ok(StreamResponse::Task(task)) => task.status.state,
        Ok(StreamResponse::StatusUpdate(update)) => update.status.state,
        _ => return false,
    };
    state.is_terminal() || state.is_interrupted()
}
