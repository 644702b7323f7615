//! What is written to a store and read from it.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use chancery_protocol::{
    Artifact, ContextId, Edge, Error, Event, Json, JsonObject, KeptTask, Message, Part, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, Timestamp,
};
use serde::Serialize;

use crate::encode::Encoder;
use crate::error::StoreError;
use crate::outbox::Registration;

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
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<Change>,
    bytes: usize,
    /// A new value of the agent's own state for this task.
    pub state: Option<Json>,
    /// The idempotency key that this batch uses up.
    pub admission: Option<Admission>,
    /// A push notification configuration to register, with its id. It gets every event of this batch.
    pub push: Option<Box<Registration>>,
    /// The record of the admitted call that caused this, as it now stands.
    pub edge: Option<Box<Edge>>,
    /// Somebody waits to see the events: they are kept, also if the task begins and ends in here.
    pub is_watched: bool,
    /// The task that begins in here was a reserved call, which is one no longer.
    pub opens_reserved: bool,
}

/// One event, and what it does to the task.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The task begins.
    Created(Box<Task>),
    /// Its status changes. What was said that no event shows becomes history: the client's message that caused it,
    /// if one did.
    Status(TaskStatusUpdateEvent, Vec<Message>),
    /// It has an artifact, or more of one.
    Artifact(TaskArtifactUpdateEvent),
}

/// A change as the wire shows it: a `StreamResponse`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Wire<'a> {
    Task(&'a Task),
    StatusUpdate(&'a TaskStatusUpdateEvent),
    ArtifactUpdate(&'a TaskArtifactUpdateEvent),
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
    /// The events with their numbers, now visible. A task that begins and ends in one batch is shown to nobody
    /// in between, so it has none, unless somebody is to be shown or sent them: only the task itself is kept.
    pub events: Vec<Event>,
    /// The number of the last event.
    pub number: u64,
    /// The task with the batch folded in, and perhaps what was committed along with it.
    pub task: KeptTask,
    /// Whether there is now something to deliver for this task: see [`Store::deliveries`](crate::Store::deliveries).
    pub push: bool,
}

/// A task as it stands.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The task.
    pub task: KeptTask,
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

/// A page ends where its tasks have so many bytes, however many were asked for. It has one task at least.
const PAGE_BYTES: usize = 4 << 20;

/// Tasks, the one whose status changed last coming first.
#[derive(Debug)]
pub struct Page {
    /// The tasks.
    pub tasks: Vec<KeptTask>,
    /// Where the next page begins, if there is one.
    pub next: Option<PageToken>,
    /// How many tasks match, on all pages.
    pub total: usize,
}

impl Page {
    /// Fills a page with tasks in order, each with its place, until it has enough bytes. `more` says whether there are others
    /// behind them.
    pub(crate) fn fill<E>(
        places: impl ExactSizeIterator<Item = Result<(PageToken, Option<KeptTask>), E>>,
        more: bool,
        total: usize,
    ) -> Result<Self, E> {
        let (mut page, mut bytes, mut left) =
            (Self { tasks: Vec::new(), next: None, total }, 0, places.len());
        for found in places {
            let (place, task) = found?;
            left -= 1;
            bytes += task.as_ref().map_or(0, KeptTask::weight);
            page.tasks.extend(task);
            if left == 0 && more || left > 0 && bytes >= PAGE_BYTES {
                page.next = Some(place);
                break;
            }
        }
        Ok(page)
    }
}

/// What a check of a store has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCheck {
    /// How many tasks there are.
    pub tasks: u64,
    /// What is wrong, in plain words; nothing if all is well.
    pub problems: Vec<String>,
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
    /// Takes what is in here. What follows a burst, or an event that came alone, is likely to be as long, and finds room for it.
    pub fn take(&mut self) -> Self {
        let room = match self.changes.len() {
            2..=BURST => 0,
            length => length,
        };
        std::mem::replace(self, Self { changes: Vec::with_capacity(room), ..Self::default() })
    }

    /// The task begins.
    pub fn create(&mut self, task: impl Into<Box<Task>>) {
        self.push(Change::Created(task.into()));
    }

    /// The status changes, because of a client's message if there is one. What was said becomes history.
    pub fn status(&mut self, update: TaskStatusUpdateEvent, said: impl IntoIterator<Item = Message>) {
        self.push(Change::Status(update, said.into_iter().collect()));
    }

    /// There is an artifact, or more of one.
    pub fn artifact(&mut self, update: TaskArtifactUpdateEvent) {
        self.push(Change::Artifact(update));
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// About how many bytes it takes to keep the events.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state that the task is left in; none if its status does not change.
    pub fn outcome(&self) -> Option<TaskState> {
        self.changes.iter().rev().find_map(|change| match change {
            Change::Created(task) => Some(task.status.state),
            Change::Status(update, _) => Some(update.status.state),
            Change::Artifact(_) => None,
        })
    }

    /// The metadata of the task that begins, and of each status that follows.
    pub fn status_metadata(&mut self) -> impl DoubleEndedIterator<Item = &mut Option<JsonObject>> {
        self.changes.iter_mut().filter_map(|change| match change {
            Change::Created(task) => Some(&mut task.metadata),
            Change::Status(update, _) => Some(&mut update.metadata),
            Change::Artifact(_) => None,
        })
    }

    /// Says more in the metadata of the last status.
    pub fn annotate(&mut self, more: JsonObject) {
        let Some(metadata) = self.status_metadata().next_back() else { return };
        *metadata = Some(match metadata.take() {
            Some(known) => known.merged(&more),
            None => more,
        });
    }

    fn push(&mut self, change: Change) {
        self.bytes += change.weight();
        // Changes are large, so they are moved to larger places seldom.
        if self.changes.len() == self.changes.capacity() {
            self.changes.reserve(3 * self.changes.len());
        }
        self.changes.push(change);
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn creates(&self) -> bool {
        matches!(self.changes.first(), Some(Change::Created(_)))
    }

    pub(crate) fn ends(&self) -> bool {
        self.changes.last().and_then(Change::state).is_some_and(TaskState::is_terminal)
    }

    /// The time of the last status in here. None if there is no status: that changes no place in any order.
    pub(crate) fn status_time(&self) -> Option<Timestamp> {
        Some(self.last_status()?.timestamp.unwrap_or_else(Timestamp::now))
    }

    /// Whether the task begins and ends in here.
    pub fn is_life(&self) -> bool {
        self.creates() && self.ends()
    }

    /// Whether the task begins and ends in here and nobody is to be shown or sent its events. Nobody can have seen
    /// it in between, so it is compacted at once.
    pub(crate) fn is_whole_life(&self) -> bool {
        !self.is_watched && self.push.is_none() && self.is_life()
    }

    /// The conversation of the task that begins in here.
    pub(crate) fn context_id(&self) -> Option<&ContextId> {
        match self.changes.first() {
            Some(Change::Created(task)) => task.context_id.as_ref(),
            _ => None,
        }
    }

    /// The last status in here.
    pub(crate) fn last_status(&self) -> Option<&TaskStatus> {
        self.changes.iter().rev().find_map(|change| match change {
            Change::Created(task) => Some(&task.status),
            Change::Status(update, _) => Some(&update.status),
            Change::Artifact(_) => None,
        })
    }

    /// The events, numbered from 1 until the journal says from where, their bytes shared in one allocation.
    pub(crate) fn encode(&self) -> Result<Vec<Event>, StoreError> {
        if let [change] = &self.changes[..] {
            let mut encoder = Encoder::with_room(self.bytes);
            encoder.write(change)?;
            return Ok(vec![Event { number: 1, json: encoder.json.into() }]);
        }
        let (json, ends) = self.encode_joined()?;
        Ok(split(&json, &ends))
    }

    /// The events written one after the other, and where each ends.
    pub(crate) fn encode_joined(&self) -> Result<(Bytes, Vec<usize>), StoreError> {
        // Not made to fit: it is gone when everyone has been shown it.
        let mut encoder = Encoder::with_room(self.bytes);
        let mut ends = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            encoder.write(change)?;
            ends.push(encoder.json.len());
        }
        Ok((Bytes::from(encoder.json), ends))
    }
}

/// Events that share the bytes they were written to, numbered from 1.
pub(crate) fn split(json: &Bytes, ends: &[usize]) -> Vec<Event> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let events = (1..).zip(starts.zip(ends.iter()));
    events.map(|(number, (start, end))| Event { number, json: json.slice(start..*end) }).collect()
}

// === impl Change ===

impl Change {
    /// What an event has changed, with what was said that it does not show.
    pub(crate) fn of(event: &Event, said: Vec<Message>) -> Result<Self, Error> {
        Ok(match event.payload()? {
            StreamResponse::Task(task) => Self::Created(Box::new(task)),
            StreamResponse::StatusUpdate(update) => Self::Status(update, said),
            StreamResponse::ArtifactUpdate(update) => Self::Artifact(update),
            StreamResponse::Message(_) => return Err(Error::internal("a message is no event of a task")),
        })
    }

    pub(crate) fn wire(&self) -> Wire<'_> {
        match self {
            Self::Created(task) => Wire::Task(task),
            Self::Status(update, _) => Wire::StatusUpdate(update),
            Self::Artifact(update) => Wire::ArtifactUpdate(update),
        }
    }

    /// The state that it puts the task into.
    pub(crate) fn state(&self) -> Option<TaskState> {
        match self {
            Self::Created(task) => Some(task.status.state),
            Self::Status(update, _) => Some(update.status.state),
            Self::Artifact(_) => None,
        }
    }

    fn weight(&self) -> usize {
        let message = |message: &Message| message.parts.iter().map(Part::weight).sum::<usize>();
        let content = match self {
            Self::Created(task) => {
                let said =
                    task.history.iter().chain(task.status.message.as_deref()).map(message).sum::<usize>();
                said + task.artifacts.iter().map(Artifact::weight).sum::<usize>()
            }
            Self::Status(update, said) => {
                update.status.message.as_deref().into_iter().chain(said).map(message).sum::<usize>()
            }
            Self::Artifact(update) => update.artifact.weight(),
        };
        content + ENVELOPE_BYTES
    }
}

/// More changes than a task has that is done at once.
const BURST: usize = 16;

/// What ids, state and time take in every event, about.
const ENVELOPE_BYTES: usize = 200;

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
