//! The client of the official Rust SDK against an agent that behaves as README.md says, over v1.0.

mod push;
mod tasks;

use std::sync::Arc;

use a2a::{
    A2AError, AgentCard, Message, Part, Role, SendMessageConfiguration, SendMessageRequest,
    SendMessageResponse, Task, TaskState,
};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::{A2AClient, A2AClientFactory, Transport};
use a2a_grpc::GrpcTransportFactory;
use anyhow::bail;
use interop_harness::{arguments, expect_equal, run};

/// Their client of one agent, on one binding.
struct Scenarios {
    card: AgentCard,
    binding: String,
    client: A2AClient<Box<dyn Transport>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = arguments()?;
    let card = AgentCardResolver::new(None).resolve(&given.url).await?;
    // The preference only orders interfaces: what is not to be used is taken out.
    let mut only = card.clone();
    only.supported_interfaces.retain(|interface| interface.protocol_binding == given.binding);
    let factory = A2AClientFactory::builder().register(Arc::new(GrpcTransportFactory::new())).build();
    let client = factory.create_from_card(&only).await?;
    let scenarios = Scenarios { card, binding: given.binding, client };
    run("card", scenarios.card()).await;
    run("send", scenarios.send()).await;
    run("message", scenarios.message()).await;
    run("stream", scenarios.stream()).await;
    run("input-required", scenarios.input_required()).await;
    run("cancel", scenarios.cancel()).await;
    run("get", scenarios.get()).await;
    run("list", scenarios.list()).await;
    run("subscribe", scenarios.subscribe()).await;
    run("push", scenarios.push()).await;
    run("errors", scenarios.errors()).await;
    Ok(())
}

fn saying(text: &str) -> Message {
    Message::new(Role::User, vec![Part::text(text)])
}

/// What is said next in a task.
fn reply(task: &Task, text: &str) -> Message {
    let mut message = saying(text);
    message.task_id = Some(task.id.clone());
    message.context_id = Some(task.context_id.clone());
    message
}

fn request(message: Message, configuration: Option<SendMessageConfiguration>) -> SendMessageRequest {
    SendMessageRequest { message, configuration, metadata: None, tenant: None }
}

fn expect_state(task: &Task, wanted: TaskState) -> anyhow::Result<()> {
    expect_equal("state", task.status.state.clone(), wanted)
}

/// Expects an error with this code.
fn expect_refusal<T: std::fmt::Debug>(answer: Result<T, A2AError>, wanted: i32) -> anyhow::Result<()> {
    match answer {
        Ok(answer) => bail!("not refused but {answer:?}"),
        Err(error) if error.code == wanted => Ok(()),
        Err(error) => bail!("no {wanted} but {} {error}", error.code),
    }
}

impl Scenarios {
    /// Sends something whose answer must be a task.
    async fn task(
        &self,
        message: Message,
        configuration: Option<SendMessageConfiguration>,
    ) -> anyhow::Result<Task> {
        match self.client.send_message(&request(message, configuration)).await? {
            SendMessageResponse::Task(task) => Ok(task),
            SendMessageResponse::Message(message) => bail!("no task but {message:?}"),
        }
    }
}
