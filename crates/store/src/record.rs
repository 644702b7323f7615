//! What is written to a store and read from it.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_protocol::{
    Artifact, ContextId, Event, Json, JsonObject, Message, StreamResponse, Task, TaskId, TaskState,
    TaskStatus, Timestamp,
};
use serde::Serialize;

use crate::error::StoreError;

/// Whose tasks they are. Nothing crosses from one scope to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// What isolates.
    pub realm: Arc<str>,
    /// Who created them.
    pub owner: Arc<str>,
    /// Who works on them.
    pub agent: Arc<str>,
}

/// Events to commit together, with what rides in the same transaction.
#[derive(Debug, Default)]
pub struct Batch {
    json: Vec<u8>,
    changes: Vec<(usize, Change)>,
    /// A new value of the agent's own state for this task.
    pub state: Option<Json>,
    /// The idempotency key that this batch uses up.
    pub admission: Option<Admission>,
}

/// What an event does to the task.
#[derive(Debug)]
pub enum Change {
    /// The task begins.
    Created(Box<Task>),
    /// Its status changes.
    Status {
        /// The new status.
        status: TaskStatus,
        /// Extension data for the task.
        metadata: Option<JsonObject>,
        /// The client's message that caused it and now becomes history.
        received: Option<Box<Message>>,
    },
    /// It has an artifact, or more of one.
    Artifact {
        /// The artifact, or the parts to append.
        artifact: Artifact,
        /// Whether the parts are appended.
        append: bool,
    },
}

/// An idempotency key with a digest of the request that it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The client's key.
    pub key: String,
    /// Tells a repeated request from another one.
    pub digest: [u8; 32],
}

/// What a commit gave.
#[derive(Debug)]
pub struct Appended {
    /// The events with their numbers, now visible.
    pub events: Vec<Event>,
    /// The task with the batch folded in.
    pub task: Arc<Task>,
}

/// A task as it stands.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The task.
    pub task: Arc<Task>,
    /// The number of the last event folded into it.
    pub number: u64,
    /// The agent's own state for this task.
    pub state: Option<Json>,
}

/// Events read from the journal.
#[derive(Debug)]
pub enum Read {
    /// Those that come next; none if there are none yet.
    Events(Vec<Event>),
    /// They have been compacted into the task.
    Compacted,
}

/// Which tasks are wanted.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only those of this conversation.
    pub context_id: Option<ContextId>,
    /// Only those in this state.
    pub state: Option<TaskState>,
    /// Only those whose status is of this time or later.
    pub since: Option<Timestamp>,
    /// Only those that come after this one.
    pub after: Option<PageToken>,
    /// At most so many.
    pub limit: usize,
}

/// Tasks, the one whose status changed last coming first.
#[derive(Debug)]
pub struct Page {
    /// The tasks.
    pub tasks: Vec<Arc<Task>>,
    /// Where the next page begins, if there is one.
    pub next: Option<PageToken>,
    /// How many tasks match, on all pages.
    pub total: usize,
}

/// A place in the order of tasks: by time of status, then by id, newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageToken {
    /// Milliseconds of the status timestamp.
    pub millis: i64,
    /// The task.
    pub id: TaskId,
}

// === impl Batch ===

impl Batch {
    /// Adds an event: its `StreamResponse` as the wire will show it, and what it does to the task.
    pub fn push<T: Serialize>(&mut self, wire: &T, change: Change) -> Result<(), serde_json::Error> {
        let start = self.json.len();
        if let Err(error) = serde_json::to_writer(&mut self.json, wire) {
            self.json.truncate(start);
            return Err(error);
        }
        self.changes.push((self.json.len(), change));
        Ok(())
    }

    /// Adds an event of a task, and the client's message that caused it if there is one. A direct message has
    /// no task and no journal; it is refused.
    pub fn record(
        &mut self,
        event: StreamResponse,
        received: Option<Message>,
    ) -> Result<(), serde_json::Error> {
        let start = self.json.len();
        if let Err(error) = serde_json::to_writer(&mut self.json, &event) {
            self.json.truncate(start);
            return Err(error);
        }
        let change = match event {
            StreamResponse::Task(task) => Change::Created(Box::new(task)),
            StreamResponse::StatusUpdate(update) => Change::Status {
                status: update.status,
                metadata: update.metadata,
                received: received.map(Box::new),
            },
            StreamResponse::ArtifactUpdate(update) => {
                Change::Artifact { artifact: update.artifact, append: update.append }
            }
            StreamResponse::Message(_) => {
                self.json.truncate(start);
                return Err(serde::ser::Error::custom("a direct message belongs to no task"));
            }
        };
        self.changes.push((self.json.len(), change));
        Ok(())
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.state.is_none()
    }

    /// How many bytes the events have.
    pub fn bytes(&self) -> usize {
        self.json.len()
    }

    /// What the events do, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().map(|(_, change)| change)
    }

    /// The events with the numbers that follow `number`, their bytes shared in one allocation.
    pub(crate) fn number_from(self, number: u64) -> (Vec<Event>, impl Iterator<Item = Change>) {
        let json = bytes::Bytes::from(self.json.into_boxed_slice());
        let mut start = 0;
        let mut next = number;
        let slice = |(end, _): &(usize, Change)| {
            let event = Event { number: next + 1, json: json.slice(start..*end) };
            (start, next) = (*end, event.number);
            event
        };
        let events = self.changes.iter().map(slice).collect();
        (events, self.changes.into_iter().map(|(_, change)| change))
    }
}

// === impl PageToken ===

impl PageToken {
    /// Reads a token that [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StoreError::BadPageToken)?;
        let text = String::from_utf8(bytes).map_err(|_| StoreError::BadPageToken)?;
        let (millis, id) = text.split_once('.').ok_or(StoreError::BadPageToken)?;
        let millis = millis.parse().map_err(|_| StoreError::BadPageToken)?;
        Ok(Self { millis, id: TaskId::from(id) })
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(format!("{}.{}", self.millis, self.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tokens_read_back() {
        let token = PageToken { millis: -7, id: TaskId::from("a.b") };
        assert_eq!(PageToken::parse(&token.to_string()).unwrap(), token);
        for text in ["", "x", "!!", "LTc", "YS5i"] {
            assert!(PageToken::parse(text).is_err(), "{text}");
        }
    }
}
