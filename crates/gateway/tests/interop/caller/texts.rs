//! The scenarios about agents that say texts, whatever they make of the protocol.

use std::collections::BTreeMap;

use chancery_sdk::protocol::{SendMessageResponse, StreamResponse};
use chancery_sdk::{Artifact, Event, Message, Part, Task, TaskState};
use futures_util::TryStreamExt as _;

use super::{Caller, Complaint, Step, expect, expect_equal, saying};

const GREETING: &str = "tck-echo Grüße, 世界 🦀";

/// What a stream has said.
#[derive(Default)]
struct Told {
    /// By artifact, as they were put together.
    artifacts: BTreeMap<String, String>,
    message: Option<String>,
    /// What the progress of the task was, or its artifacts, each time that something was added.
    pieces: Vec<String>,
    last: Option<TaskState>,
}

impl Caller {
    /// The same text comes back, once as a whole and once by a stream.
    pub(super) async fn text(&self) -> Step {
        expect_equal("whole", text_of(&self.client.send(GREETING).await?), GREETING.to_owned())?;
        let told = self.told(GREETING).await?;
        expect_equal("streamed", told.text(), GREETING.to_owned())
    }

    /// A text that is made in two pieces is seen to grow.
    pub(super) async fn chunks(&self) -> Step {
        let told = self.told("tck-stream-chunked").await?;
        expect_equal("last state", told.last, Some(TaskState::Completed))?;
        let grew = told.pieces.iter().any(|piece| piece.contains("chunk-1") && !piece.contains("chunk-2"));
        expect(grew, format!("it came as a whole: {:?}", told.pieces))?;
        expect(told.pieces.iter().any(|piece| piece.contains("chunk-2")), format!("{:?}", told.pieces))
    }

    /// What was said before in the context is known.
    pub(super) async fn follow_up(&self) -> Step {
        let first = self.client.send("tck-echo remember me").await?;
        let context = match &first {
            SendMessageResponse::Task(task) => task.context_id.clone(),
            SendMessageResponse::Message(message) => message.context_id.clone(),
        };
        let context = context.ok_or_else(|| Complaint("no context".into()))?;
        let second = self.client.send(Message::user("tck-recall").in_context(context)).await?;
        expect_equal("recalled", text_of(&second), "tck-echo remember me".to_owned())
    }

    /// An agent that breaks is one that has failed, and can be called again.
    pub(super) async fn failure(&self) -> Step {
        match self.client.send("tck-error").await {
            Ok(SendMessageResponse::Task(task)) => {
                expect_equal("state", task.status.state, TaskState::Failed)?
            }
            Ok(SendMessageResponse::Message(message)) => {
                return Err(Complaint(format!("no failure but the message `{}`", message.text())));
            }
            Err(error) => expect(error.code().is_some(), format!("no error of the protocol but {error}"))?,
        }
        let after = self.task(saying("tck-echo")).await?;
        expect_equal("state", after.status.state, TaskState::Completed)
    }

    async fn told(&self, what: &str) -> Step<Told> {
        let events: Vec<Event> = self.client.stream(what).await?.try_collect().await?;
        let mut told = Told::default();
        for event in &events {
            told.take(event.payload()?);
        }
        Ok(told)
    }
}

impl Told {
    fn take(&mut self, payload: StreamResponse) {
        match payload {
            StreamResponse::Task(task) => self.take_task(&task),
            StreamResponse::Message(message) => self.message = Some(message.text().into_owned()),
            StreamResponse::StatusUpdate(update) => {
                self.last = Some(update.status.state);
                self.pieces.extend(update.status.message.map(|message| message.text().into_owned()));
            }
            StreamResponse::ArtifactUpdate(update) => {
                let known = self.artifacts.entry(update.artifact.artifact_id.to_string()).or_default();
                if !update.append {
                    known.clear();
                }
                known.push_str(&said(&update.artifact));
                let piece = known.clone();
                self.pieces.push(piece);
            }
        }
    }

    fn take_task(&mut self, task: &Task) {
        self.last = Some(task.status.state);
        for artifact in &task.artifacts {
            self.artifacts.insert(artifact.artifact_id.to_string(), said(artifact));
        }
    }

    fn text(&self) -> String {
        self.message.clone().unwrap_or_else(|| self.artifacts.values().cloned().collect())
    }
}

fn said(artifact: &Artifact) -> String {
    artifact.parts.iter().filter_map(Part::as_text).collect()
}

fn text_of(answer: &SendMessageResponse) -> String {
    match answer {
        SendMessageResponse::Task(task) => task.artifacts.iter().map(said).collect(),
        SendMessageResponse::Message(message) => message.text().into_owned(),
    }
}
