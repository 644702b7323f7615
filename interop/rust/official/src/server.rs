//! An agent on the server of the official Rust SDK that behaves as README.md says, over v1.0 on every binding.

use std::sync::Arc;
use std::time::Duration;

use a2a::{
    A2AError, AgentCapabilities, AgentCard, AgentInterface, AgentProvider, AgentSkill, Artifact, Message,
    Part, Role, StreamResponse, TRANSPORT_PROTOCOL_GRPC, TRANSPORT_PROTOCOL_HTTP_JSON,
    TRANSPORT_PROTOCOL_JSONRPC, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use a2a_pb::proto::a2a_service_server::A2aServiceServer;
use a2a_server::agent_card::{StaticAgentCard, agent_card_router};
use a2a_server::{
    AgentExecutor, DefaultRequestHandler, ExecutorContext, HttpPushSender, HttpPushSenderConfig,
    InMemoryPushConfigStore, InMemoryTaskStore,
};
use axum::Router;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

struct Agent;

/// The ids that every event repeats.
#[derive(Clone)]
struct Ids {
    task: String,
    context: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let grpc_listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let card = card(&url, &grpc_listener.local_addr()?.to_string());

    // Notifications go to this machine, which the sender's guard would refuse.
    let sender =
        HttpPushSender::new(Some(HttpPushSenderConfig { validate_urls: false, ..Default::default() }));
    let handler = DefaultRequestHandler::new(Agent, InMemoryTaskStore::new())
        .with_capabilities(card.capabilities.clone())
        .with_push_notifications(InMemoryPushConfigStore::new(), sender);
    let handler = Arc::new(handler);

    let grpc = A2aServiceServer::new(a2a_grpc::GrpcHandler::new(handler.clone()));
    let serving_grpc = tonic::transport::Server::builder().add_service(grpc);
    tokio::spawn(serving_grpc.serve_with_incoming(TcpListenerStream::new(grpc_listener)));
    let router = Router::new()
        .merge(agent_card_router(Arc::new(StaticAgentCard::new(card))))
        .nest("/jsonrpc", a2a_server::jsonrpc::jsonrpc_router(handler.clone()))
        .nest("/rest", a2a_server::rest::rest_router(handler));
    tokio::spawn(async move { axum::serve(listener, router).await });
    interop_harness::ready(&url).await;
    Ok(())
}

fn card(url: &str, grpc: &str) -> AgentCard {
    let modes = ["text/plain", "application/json", "application/octet-stream"].map(str::to_owned).to_vec();
    AgentCard {
        name: "interop-rust".into(),
        description: "Behaves as the interop scenarios ask".into(),
        version: "1.0.0".into(),
        supported_interfaces: vec![
            AgentInterface::new(format!("{url}/jsonrpc"), TRANSPORT_PROTOCOL_JSONRPC),
            AgentInterface::new(format!("{url}/rest"), TRANSPORT_PROTOCOL_HTTP_JSON),
            AgentInterface::new(grpc, TRANSPORT_PROTOCOL_GRPC),
        ],
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(true),
            extensions: None,
            extended_agent_card: None,
        },
        default_input_modes: modes.clone(),
        default_output_modes: modes,
        skills: vec![AgentSkill {
            id: "interop".into(),
            name: "Interop".into(),
            description: "Behaves as asked".into(),
            tags: vec!["test".into()],
            examples: None,
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
        provider: Some(AgentProvider {
            organization: "Interop".into(),
            url: "https://interop.example".into(),
        }),
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    }
}

// === impl Agent ===

impl AgentExecutor for Agent {
    fn execute(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id, context: context.context_id };
        let Some(message) = context.message else {
            return Box::pin(stream::once(async { Err(A2AError::invalid_params("no message")) }));
        };
        let text = message.text().unwrap_or_default().to_owned();
        if text.starts_with("tck-message-response") {
            let mut answer = Message::new(Role::Agent, vec![Part::text("Direct message response")]);
            answer.context_id = Some(ids.context);
            return events([StreamResponse::Message(answer)]);
        }
        let mut begun = text.clone();
        let mut first = Vec::new();
        match context.stored_task {
            Some(task) => {
                let said = task.history.as_ref().and_then(|history| history.first()).and_then(Message::text);
                begun = said.unwrap_or_default().to_owned();
            }
            None => first.push(ids.task(message.clone())),
        }
        Box::pin(events(first).chain(work(ids, &begun, &text, message)))
    }

    fn cancel(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id, context: context.context_id };
        events([ids.status(TaskState::Canceled)])
    }
}

fn work(ids: Ids, begun: &str, text: &str, message: Message) -> Events {
    let working = ids.status(TaskState::Working);
    let completed = ids.status(TaskState::Completed);
    let begins = |prefix: &str| begun.starts_with(prefix);
    if begins("tck-multi-turn") && text != "done" {
        return events([ids.status(TaskState::InputRequired)]);
    }
    if begins("tck-cancel") {
        return Box::pin(events([working]).chain(stream::pending()));
    }
    if begins("tck-long-running") {
        let rest = stream::once(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(completed)
        });
        return Box::pin(events([working]).chain(rest));
    }
    if begins("tck-stream-chunked") {
        let chunk = |text: &str, append| ids.artifact("chunks", vec![Part::text(text)], append);
        return events([working, chunk("chunk-1 ", false), chunk("chunk-2", true), completed]);
    }
    if begins("tck-echo") {
        return events([ids.artifact("echo", message.parts, false), completed]);
    }
    events([completed])
}

fn events(all: impl IntoIterator<Item = StreamResponse>) -> Events {
    Box::pin(stream::iter(all.into_iter().map(Ok).collect::<Vec<_>>()))
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) }
}

// === impl Ids ===

impl Ids {
    fn task(&self, message: Message) -> StreamResponse {
        StreamResponse::Task(Task {
            id: self.task.clone(),
            context_id: self.context.clone(),
            status: status(TaskState::Submitted),
            artifacts: None,
            history: Some(vec![message]),
            metadata: None,
        })
    }

    fn status(&self, state: TaskState) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status: status(state),
            metadata: None,
        })
    }

    fn artifact(&self, id: &str, parts: Vec<Part>, append: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact: Artifact {
                artifact_id: id.to_owned(),
                name: None,
                description: None,
                parts,
                metadata: None,
                extensions: None,
            },
            append: Some(append),
            last_chunk: Some(append),
            metadata: None,
        })
    }
}
