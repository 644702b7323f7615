//! Asking another agent from inside a turn, so that stopping the one stops the other.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{
    BoxFuture, Call, CallContext, CancelTaskRequest, Endpoint, Error, ErrorCode, GetTaskRequest, Identity,
    Message, Proof, SendMessageConfiguration, SendMessageRequest, SendMessageResponse, StreamResponse,
    SubscribeToTaskRequest, Task, TaskId, TaskView,
};
use tokio::time::timeout;

use crate::runtime::spawn;
use crate::turn::Turn;

/// How long to wait before asking again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long an answer is waited for that only serves to cancel.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

impl Turn {
    /// Sends a message to another agent, in the name of this turn's caller, and waits for what comes of it: a
    /// direct answer, or a task that has ended or waits for somebody. If this turn is stopped meanwhile, by
    /// cancel, deadline or failure, the other task is canceled.
    pub async fn call<E: Endpoint + Clone>(
        &self,
        agent: &E,
        message: Message,
    ) -> Result<SendMessageResponse<Task>, Error> {
        // Nothing leaves before it is written down.
        self.dispatch().await.map_err(Error::internal)?;
        let own_agent = Identity {
            proof: Proof::Application,
            agent: Some(self.sink.scope().agent.clone()),
            ..Identity::default()
        };
        let mut context = CallContext::new(self.principal().clone(), "".into());
        context.identity = Arc::new(own_agent);
        context.deadline = Some(self.deadline());
        context.lineage = self.lineage();
        context.traceparent = self.incoming.context.traceparent.clone();
        let configuration = SendMessageConfiguration { return_immediately: true, ..Default::default() };
        let request = Box::new(SendMessageRequest {
            tenant: String::new(),
            message,
            configuration: Some(configuration),
            metadata: None,
        });
        let mut delegated = Delegated::new(agent.clone(), context);
        let id = match delegated.send(request).await? {
            SendMessageResponse::Message(message) => return Ok(SendMessageResponse::Message(message)),
            SendMessageResponse::Task(view) => view.task.id().clone(),
        };
        delegated.id = Some(id.clone());
        let task = delegated.settled(&id).await?;
        delegated.id = None;
        Ok(SendMessageResponse::Task(task))
    }
}

/// A task of another agent that is canceled if nobody waits for it any more.
struct Delegated<E: Endpoint + Clone> {
    agent: E,
    context: Box<CallContext>,
    /// A message that has gone out and is not answered yet.
    sending: Option<Sending>,
    /// None when it needs no canceling.
    id: Option<TaskId>,
}

type Sending = BoxFuture<'static, Result<SendMessageResponse<TaskView>, Error>>;

impl<E: Endpoint + Clone> Delegated<E> {
    fn new(agent: E, context: Box<CallContext>) -> Self {
        Self { agent, context, sending: None, id: None }
    }

    /// Sends the message. Whoever stops waiting for the answer leaves it to [`Drop`] to wait: only the answer says
    /// which task there is to cancel.
    async fn send(
        &mut self,
        request: Box<SendMessageRequest>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let (agent, call) = (self.agent.clone(), Call { request, context: self.context.clone() });
        let sending = self.sending.insert(Box::pin(async move { agent.send_message(call).await }));
        let sent = sending.await;
        self.sending = None;
        sent
    }

    /// Watches the task until it has ended or waits for somebody.
    async fn settled(&mut self, id: &TaskId) -> Result<Task, Error> {
        loop {
            let request = SubscribeToTaskRequest { tenant: String::new(), id: id.clone() };
            let call = Call { request, context: self.context.clone() };
            let mut events = match self.agent.subscribe_to_task(call).await {
                Ok(events) => events,
                Err(error) if error.code() == ErrorCode::UnsupportedOperation => {
                    return self.polled(id).await;
                }
                Err(error) => return Err(error),
            };
            while let Some(event) = poll_fn(|context| events.as_mut().poll_next(context)).await.transpose()? {
                let state = match event.payload()? {
                    StreamResponse::Task(task) => task.status.state,
                    StreamResponse::StatusUpdate(update) => update.status.state,
                    StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => continue,
                };
                if state.is_terminal() || state.is_interrupted() {
                    return self.get(id).await;
                }
            }
        }
    }

    /// Asks for the task now and then, because it has ended or the agent does not stream.
    async fn polled(&mut self, id: &TaskId) -> Result<Task, Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            let task = self.get(id).await?;
            let state = task.status.state;
            if state.is_terminal() || state.is_interrupted() {
                return Ok(task);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn get(&mut self, id: &TaskId) -> Result<Task, Error> {
        let request = GetTaskRequest { tenant: String::new(), id: id.clone(), history_length: None };
        let found = self.agent.get_task(Call { request, context: self.context.clone() }).await?;
        found.into_task()
    }
}

impl<E: Endpoint + Clone> Drop for Delegated<E> {
    fn drop(&mut self) {
        let (sending, id) = (self.sending.take(), self.id.take());
        if sending.is_none() && id.is_none() {
            return;
        }
        let (agent, mut context) = (self.agent.clone(), self.context.clone());
        // That the time is up is no reason to cancel in no time.
        context.deadline = None;
        spawn(async move {
            let id = match (id, sending) {
                (Some(id), _) => id,
                (None, Some(sending)) => match timeout(LONGEST_ANSWER, sending).await {
                    Ok(Ok(SendMessageResponse::Task(view))) => view.task.id().clone(),
                    _ => return,
                },
                (None, None) => return,
            };
            let request = CancelTaskRequest { tenant: String::new(), id, metadata: None };
            // It may have ended by itself just now.
            let _ = agent.cancel_task(Call { request, context }).await;
        });
    }
}
