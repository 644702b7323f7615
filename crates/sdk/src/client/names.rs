//! A task that has another name here than at the agent that works on it.
//!
//! Whoever serves an agent's tasks to others keeps the names that the agent gave them. But a task that was there before the
//! agent heard of it has one already, and so every word to the agent and of it is translated.

use bytes::Bytes;
use chancery_protocol::{
    ContextId, Error, Event, Message, Request, StreamResponse, Task, TaskId, TaskStatus,
};

use super::written::Told;

/// The names of one task, and of its conversation.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) here: TaskId,
    pub(crate) there: TaskId,
    pub(crate) context: Option<ContextId>,
}

impl Names {
    /// A request as the agent is to hear it. Which conversation its task belongs to, it knows.
    pub(crate) fn translate(&self, request: &mut Request) {
        match request {
            Request::SendMessage(request) | Request::SendStreamingMessage(request) => {
                request.message.task_id = Some(self.there.clone());
                request.message.context_id = None;
            }
            Request::GetTask(request) => request.id = self.there.clone(),
            Request::CancelTask(request) => request.id = self.there.clone(),
            Request::SubscribeToTask(request) => request.id = self.there.clone(),
            _ => {}
        }
    }

    /// A task as it is known here, if it is this one.
    pub(crate) fn task(&self, task: &mut Task) {
        if task.id != self.there {
            return;
        }
        task.id = self.here.clone();
        task.context_id = self.context.clone().or(task.context_id.take());
        task.history.iter_mut().for_each(|message| self.message(message));
        self.status(&mut task.status);
    }

    /// What a stream says, in the names that are known here.
    pub(crate) fn response(&self, response: &mut StreamResponse) {
        match response {
            StreamResponse::Task(task) => self.task(task),
            StreamResponse::StatusUpdate(update) if update.task_id == self.there => {
                update.task_id = self.here.clone();
                self.context_of(&mut update.context_id);
                self.status(&mut update.status);
            }
            StreamResponse::ArtifactUpdate(update) if update.task_id == self.there => {
                update.task_id = self.here.clone();
                self.context_of(&mut update.context_id);
            }
            _ => {}
        }
    }

    /// The same of an event, which is then no longer as the agent wrote it.
    pub(super) fn told(&self, told: Told) -> Told {
        let Told { event, payload, is_last } = told;
        let renamed = payload.and_then(|mut payload| {
            self.response(&mut payload);
            let json = serde_json::to_vec(&payload).map_err(Error::internal)?;
            Ok((payload, Event { number: event.number, json: Bytes::from(json) }))
        });
        match renamed {
            Ok((payload, event)) => Told { event, payload: Ok(payload), is_last },
            Err(error) => Told { event, payload: Err(error), is_last },
        }
    }

    fn context_of(&self, context_id: &mut ContextId) {
        if let Some(context) = &self.context {
            context_id.clone_from(context);
        }
    }

    fn status(&self, status: &mut TaskStatus) {
        if let Some(message) = &mut status.message {
            self.message(message);
        }
    }

    fn message(&self, message: &mut Message) {
        if message.task_id.as_ref() == Some(&self.there) {
            message.task_id = Some(self.here.clone());
        }
        if message.context_id.is_some() {
            message.context_id = self.context.clone().or(message.context_id.take());
        }
    }
}
