//! The agent: does what an instruction says, calling other agents on the way.

use std::time::Duration;

use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{
    BoxFuture, ProtocolBinding, SendMessageConfiguration, SendMessageRequest, SendMessageResponse,
    StreamResponse, TaskPushNotificationConfig,
};
use chancery_sdk::{
    Agent, AgentSkill, AgentSpec, Client, Error, Event, Failure, Message, Outcome, TaskId, Turn,
};
use futures_util::TryStreamExt as _;

use crate::instruction::{Behavior, CallAgent, Instruction, Step};

/// What a held task says when it has nothing more to say.
const FINISHED: &str = "task-finished";
/// How often a held task shows that it is there, and for how many times.
const HELD_PAUSE: Duration = Duration::from_secs(2);
const HELD_PAUSES: u32 = 5;

struct Traveller {
    egress: Egress,
}

/// The agent, which calls other agents wherever the rules let it.
pub(crate) fn spec(egress: Egress) -> AgentSpec {
    AgentSpec::new("itk", Traveller { egress })
        .description("Does what the instructions of the A2A integration test kit say")
        .input_modes(["text/plain", "application/x-protobuf", "application/octet-stream"])
        .output_modes(["text/plain"])
        .push_notifications(true)
        .skill(AgentSkill::new("travel", "Travel", "Follows an instruction from agent to agent").tag("test"))
}

impl Agent for Traveller {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        // Callers join all that is said into the trace that the kit checks, so nothing is.
        turn.working("").await?;
        let Some(instruction) = Instruction::find(turn.message()) else {
            return Ok(Outcome::failed("No valid instruction found in request"));
        };
        let said = self.follow(&instruction).await?.join("\n");
        if !instruction.holds() {
            return Ok(Outcome::completed().saying(said));
        }
        let held = format!("{said}\n{FINISHED}");
        turn.working(held.as_str()).await?;
        for _ in 0..HELD_PAUSES {
            tokio::time::sleep(HELD_PAUSE).await;
            turn.working("").await?;
        }
        Ok(Outcome::completed().saying(held))
    }
}

impl Traveller {
    /// Does what an instruction says, and gives what was said on the way.
    fn follow<'a>(&'a self, instruction: &'a Instruction) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        Box::pin(async move {
            match &instruction.step {
                Some(Step::ReturnResponse(answer)) => Ok(vec![answer.response.clone()]),
                Some(Step::CallAgent(call)) => self.call(call).await,
                Some(Step::Steps(steps)) => {
                    let mut said = Vec::new();
                    for step in &steps.instructions {
                        said.extend(self.follow(step).await?);
                    }
                    Ok(said)
                }
                None => Err(Failure::public("an instruction without a step")),
            }
        })
    }

    async fn call(&self, call: &CallAgent) -> Result<Vec<String>, Failure> {
        let binding = binding(&call.transport)?;
        let client = Client::builder().egress(self.egress.clone()).prefer([binding]);
        let client = client.connect(&call.agent_card_uri).await?;
        let mut request =
            SendMessageRequest::from(call.instruction.clone().unwrap_or_default().into_message());
        if let Some(Behavior::PushNotification(push)) = &call.behavior {
            request.configuration = Some(pushing_to(&push.url));
        }
        match &call.behavior {
            Some(Behavior::Resubscribe(_)) => resubscribe(&client, request).await,
            _ if call.streaming => {
                let events: Vec<Event> = client.stream(request).await?.try_collect().await?;
                let said = events.iter().map(said).collect::<Result<Vec<_>, _>>()?;
                Ok(said.into_iter().flatten().filter(|text| !text.is_empty()).collect())
            }
            _ => Ok(match client.send(request).await? {
                SendMessageResponse::Message(message) => vec![message.text().into_owned()],
                SendMessageResponse::Task(task) => {
                    task.status.message.as_deref().into_iter().map(text).collect()
                }
            }),
        }
    }
}

/// Streams, drops the stream after its first event, takes it up again, and stops the task when it has said everything.
async fn resubscribe(client: &Client, request: SendMessageRequest) -> Result<Vec<String>, Failure> {
    let mut events = client.stream(request).await?;
    let first = events.try_next().await?.ok_or_else(|| Failure::public("a stream without an event"))?;
    let id = task_id(&first)?;
    drop(events);
    let mut all = Vec::new();
    let mut events = client.subscribe(id.clone()).await?;
    while let Some(event) = events.try_next().await? {
        let now = match event.payload()? {
            // What was said before the stream was taken up again is in the task's history.
            StreamResponse::Task(task) => {
                task.history.iter().chain(task.status.message.as_deref()).map(text).collect()
            }
            _ => said(&event)?,
        };
        let is_end = now.iter().any(|text| text.contains(FINISHED));
        all.extend(
            now.into_iter().filter(|text| text.contains(FINISHED)).map(|text| text.replace(FINISHED, "")),
        );
        if is_end {
            break;
        }
    }
    drop(events);
    client.cancel(id).await?;
    Ok(all)
}

fn task_id(event: &Event) -> Result<TaskId, Failure> {
    match event.payload()? {
        StreamResponse::Task(task) => Ok(task.id),
        StreamResponse::StatusUpdate(update) => Ok(update.task_id),
        StreamResponse::ArtifactUpdate(update) => Ok(update.task_id),
        StreamResponse::Message(_) => Err(Failure::public("a message where a task was wanted")),
    }
}

/// What an event says, as text.
fn said(event: &Event) -> Result<Vec<String>, Error> {
    Ok(match event.payload()? {
        StreamResponse::Task(task) => task.status.message.as_deref().into_iter().map(text).collect(),
        StreamResponse::StatusUpdate(update) => {
            update.status.message.as_deref().into_iter().map(text).collect()
        }
        StreamResponse::Message(message) => vec![text(&message)],
        StreamResponse::ArtifactUpdate(_) => Vec::new(),
    })
}

fn text(message: &Message) -> String {
    message.text().into_owned()
}

fn binding(transport: &str) -> Result<ProtocolBinding, Failure> {
    match transport.to_ascii_uppercase().as_str() {
        "" | "JSONRPC" => Ok(ProtocolBinding::JsonRpc),
        "HTTP+JSON" | "HTTP_JSON" | "REST" => Ok(ProtocolBinding::HttpJson),
        "GRPC" => Ok(ProtocolBinding::Grpc),
        other => Err(Failure::public(format!("no transport is called `{other}`"))),
    }
}

fn pushing_to(url: &str) -> SendMessageConfiguration {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let config = TaskPushNotificationConfig {
        tenant: String::new(),
        id: None,
        task_id: None,
        url: format!("{url}/notifications"),
        token: "itk-token".to_owned(),
        authentication: None,
    };
    SendMessageConfiguration { task_push_notification_config: Some(config), ..Default::default() }
}
