//! The events of a stream, in the words of v0.1: under the client's name for the task, the artifacts by their places, and
//! the last event said to be the last.
//!
//! v0.1 begins no stream with the task. Where the task comes first in one, its status is told, and those of its artifacts
//! that the client cannot know yet.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    Artifact, ArtifactId, Error, Event, EventStream, JsonObject, StreamResponse, Task, TaskId, TaskState,
    TaskStatus, write_json,
};
use futures_util::{StreamExt as _, stream};

use super::model::{OlderArtifact, OlderEvent};
use super::ruvector;

/// What a stream has to know of its task.
#[derive(Debug)]
pub(super) struct Telling {
    name: TaskId,
    /// The places of the artifacts, in the order in which they first came.
    places: HashMap<ArtifactId, usize>,
    /// Whether a question of the agent's is the last event.
    question_is_last: bool,
    /// What the client knows before the stream begins.
    known: Option<Arc<Task>>,
    to_ruvector: bool,
}

impl Telling {
    /// A stream that answers a message. It ends with the agent's question, if it asks one.
    pub(super) fn of_answer(name: TaskId, known: Option<Arc<Task>>, to_ruvector: bool) -> Self {
        let mut telling =
            Self { name, places: HashMap::new(), question_is_last: true, known: None, to_ruvector };
        if let Some(task) = &known {
            telling.place_all(task);
        }
        Self { known, ..telling }
    }

    /// A stream that watches a task.
    pub(super) fn of_watching(name: TaskId, task: &Task) -> Self {
        let mut telling =
            Self { name, places: HashMap::new(), question_is_last: false, known: None, to_ruvector: false };
        telling.place_all(task);
        telling
    }

    fn place_all(&mut self, task: &Task) {
        for artifact in &task.artifacts {
            self.place(&artifact.artifact_id);
        }
        self.to_ruvector |= ruvector::began(task);
    }

    fn place(&mut self, id: &ArtifactId) -> usize {
        let next = self.places.len();
        *self.places.entry(id.clone()).or_insert(next)
    }

    /// Everything that a stream says.
    pub(super) fn of(mut self, events: EventStream) -> EventStream {
        let told = move |event: Result<Event, Error>| match event.and_then(|event| self.tell(&event)) {
            Ok(events) => events.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        Box::pin(events.map(told).flat_map(stream::iter))
    }

    fn tell(&mut self, event: &Event) -> Result<Vec<Event>, Error> {
        match event.payload().map_err(Error::internal)? {
            StreamResponse::Task(task) => self.task(task, event.number),
            StreamResponse::Message(message) => {
                // There is no task to be found afterwards; this is all that there is to say.
                let status = TaskStatus::now(TaskState::Completed, Some(message));
                Ok(vec![self.status(status, None, event.number)?])
            }
            StreamResponse::StatusUpdate(update) => {
                Ok(vec![self.status(update.status, update.metadata, event.number)?])
            }
            StreamResponse::ArtifactUpdate(update) => {
                let index = self.place(&update.artifact.artifact_id);
                let artifact = self.artifact(update.artifact);
                let chunk = OlderArtifact {
                    artifact: &artifact,
                    index,
                    append: update.append,
                    last_chunk: update.last_chunk,
                };
                let metadata = update.metadata.map(|own| self.metadata(own));
                let told =
                    OlderEvent::Artifact { id: &self.name, artifact: chunk, metadata: metadata.as_ref() };
                Ok(vec![written(&told, event.number)?])
            }
        }
    }

    /// A task as it stands. The number of the event goes to the last of what is told of it.
    pub(super) fn task(&mut self, task: Task, number: u64) -> Result<Vec<Event>, Error> {
        self.place_all(&task);
        let known = self.known.take();
        let known = known.as_ref().map_or(&[][..], |known| &known.artifacts);
        let mut told = Vec::new();
        for artifact in task.artifacts.into_iter().filter(|artifact| !known.contains(artifact)) {
            let index = self.place(&artifact.artifact_id);
            let artifact = self.artifact(artifact);
            let whole = OlderArtifact { artifact: &artifact, index, append: false, last_chunk: false };
            let event = OlderEvent::Artifact { id: &self.name, artifact: whole, metadata: None };
            told.push(written(&event, 0)?);
        }
        told.push(self.status(task.status, task.metadata, number)?);
        Ok(told)
    }

    fn status(
        &self,
        mut status: TaskStatus,
        metadata: Option<JsonObject>,
        number: u64,
    ) -> Result<Event, Error> {
        let state = status.state;
        let is_last = state.is_terminal() || (self.question_is_last && state == TaskState::InputRequired);
        if let Some(message) = &mut status.message {
            message.metadata = message.metadata.take().map(|own| self.metadata(own));
        }
        let metadata = metadata.map(|own| self.metadata(own));
        let told =
            OlderEvent::Status { id: &self.name, status: &status, is_last, metadata: metadata.as_ref() };
        written(&told, number)
    }

    fn artifact(&self, artifact: Artifact) -> Artifact {
        let metadata = artifact.metadata.map(|own| self.metadata(own));
        Artifact { metadata, ..artifact }
    }

    fn metadata(&self, metadata: JsonObject) -> JsonObject {
        if self.to_ruvector { ruvector::older(metadata) } else { metadata }
    }
}

fn written(event: &OlderEvent<'_>, number: u64) -> Result<Event, Error> {
    let mut json = Vec::with_capacity(256);
    write_json(&mut json, event).map_err(Error::internal)?;
    Ok(Event { number, json: Bytes::from(json) })
}
