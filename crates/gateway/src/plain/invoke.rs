//! One call: what is sent becomes a message of A2A, and what comes of it is told plainly.

use std::time::{Duration, Instant};

use chancery_control::POLICY_TIMEOUT;
use chancery_control::policy::SKILL_EXTENSION;
use chancery_protocol::{
    CallContext, Caller, Json, JsonObject, Message, MessageId, Part, Reply, Request, Role,
    SendMessageRequest, SendMessageResponse, Task, TaskState, USAGE_EXTENSION,
};
use chancery_sdk::Visitor;

use super::Plain;
use super::body::{InvokeParams, InvokeResult};
use super::failure::Failure;
use super::head;
use crate::fleet::{FLEET, Member};

/// How much longer than it may take a call is waited for: whoever works on it notices first, and says so.
const GRACE: Duration = Duration::from_secs(2);

impl Plain {
    /// The message and its circumstances, as A2A has them.
    pub(super) fn prepare(
        &self,
        visitor: &Visitor,
        caller: Caller,
        agent: Option<&Member>,
        params: InvokeParams,
    ) -> Result<(Box<SendMessageRequest>, Box<CallContext>), Failure> {
        let id = head::required_id(visitor.head())?;
        let InvokeParams { text, parts, skill, context_id, task_id, agreement_id, timeout_ms } = params;
        let parts = match (text, parts) {
            (Some(text), None) => vec![Part::text(text)],
            (None, Some(parts)) => parts,
            _ => return Err(Failure::invalid("SCHEMA", "`params` must have either `text` or `parts`")),
        };
        let now = self.regime().plane().hands.now();
        let agreed = agreement_id.map(|id| self.seal.open(&id, &caller.principal, now)).transpose()?;
        if let Some(agreed) = &agreed {
            agreed.check(agent.map(|member| &*member.name), skill.as_deref())?;
        }
        // What was agreed at the fleet's own address is for whom it was agreed with.
        let agent = agent.map(|member| &*member.name).or(agreed.as_ref().map(|agreed| agreed.agent.as_str()));
        let mut context = visitor.context(agent.unwrap_or(FLEET), caller)?;
        context.idempotency_key = Some(id.to_owned());
        let (mut timeout_ms, mut skill) = (timeout_ms, skill);
        if let Some(agreed) = agreed {
            let ceilings = [context.ceiling_micro_usd, agreed.budget_micro_usd];
            context.ceiling_micro_usd = ceilings.into_iter().flatten().min();
            timeout_ms = [timeout_ms, agreed.timeout_ms].into_iter().flatten().min();
            skill = skill.or_else(|| agreed.skills.into_iter().next());
        }
        let timeout = timeout_ms.map(Duration::from_millis);
        context.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut message = Message::new(Role::User, parts);
        // What is sent again is the same message.
        message.message_id = MessageId::from(id);
        (message.context_id, message.task_id) = (context_id, task_id);
        message.metadata = skill.and_then(|skill| JsonObject::single(SKILL_EXTENSION, skill.as_str()).ok());
        Ok((Box::new(message.into()), context))
    }

    /// Has a message answered as a whole.
    pub(super) async fn invoke(
        &self,
        visitor: &Visitor,
        request: Box<SendMessageRequest>,
        context: Box<CallContext>,
    ) -> Result<InvokeResult, Failure> {
        let deadline = context.deadline;
        let answered = visitor.call(Request::SendMessage(request), context);
        let answered = match deadline {
            Some(deadline) => tokio::time::timeout_at((deadline + GRACE).into(), answered).await,
            None => Ok(answered.await),
        };
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        let reply = match answered {
            Ok(Ok(Reply::Sent(reply))) => reply,
            Ok(Ok(_)) => return Err(Failure::from(chancery_protocol::ErrorCode::Internal)),
            Ok(Err(_)) | Err(_) if is_late() => return Err(Failure::timeout(None)),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(Failure::timeout(None)),
        };
        let task = match reply {
            SendMessageResponse::Message(message) => return Ok(InvokeResult::of_message(message)),
            SendMessageResponse::Task(view) => view.into_task()?,
        };
        match timed_out(task.status.state, &said(&task), is_late()) {
            true => Err(Failure::time_is_up(task.id.to_string(), said(&task))),
            false if task.status.state.is_terminal() || task.status.state.is_interrupted() => {
                Ok(InvokeResult::of_task(task))
            }
            // It was waited for as long as anybody waits, and goes on.
            false => Err(Failure::timeout(Some(task.id.to_string()))),
        }
    }
}

impl From<chancery_protocol::ErrorCode> for Failure {
    fn from(code: chancery_protocol::ErrorCode) -> Self {
        chancery_protocol::Error::new(code).into()
    }
}

/// Whether a task has failed because its time was up.
pub(super) fn timed_out(state: TaskState, said: &str, is_late: bool) -> bool {
    state == TaskState::Failed && (is_late || said.starts_with(POLICY_TIMEOUT))
}

fn said(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default()
}

/// What a task says that it has consumed.
pub(super) fn usage(metadata: Option<&JsonObject>) -> Option<Json> {
    let usage: serde_json::Value = metadata?.entry(USAGE_EXTENSION).ok().flatten()?;
    Json::from_value(&usage).ok()
}

impl InvokeResult {
    pub(super) fn of_message(message: Message) -> Self {
        Self {
            task_id: None,
            context_id: message.context_id.clone(),
            state: TaskState::Completed.as_str(),
            text: message.text().into_owned(),
            usage: usage(message.metadata.as_ref()),
            parts: message.parts,
        }
    }

    pub(super) fn of_task(task: Task) -> Self {
        let (said, usage) = (said(&task), usage(task.metadata.as_ref()));
        let parts: Vec<_> = task.artifacts.into_iter().flat_map(|artifact| artifact.parts).collect();
        let text = match parts.is_empty() {
            true => said,
            false => parts.iter().filter_map(Part::as_text).collect(),
        };
        Self {
            task_id: Some(task.id),
            context_id: task.context_id,
            state: task.status.state.as_str(),
            text,
            parts,
            usage,
        }
    }
}
