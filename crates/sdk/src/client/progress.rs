//! What a reader of a stream has seen of its task, so that after a break nothing comes twice and nothing is missing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use chancery_protocol::{
    Artifact, ContextId, Event, StreamResponse, Task, TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ClientError;

/// What has come so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) task: Option<TaskId>,
    /// Where the task stands; none before anything was said about it.
    pub(crate) state: Option<TaskState>,
    /// The number of the last event; 0 if it had none.
    pub(crate) last: u64,
    /// A direct answer came, so there is no task.
    pub(crate) is_message: bool,
    /// Whether every event so far had the number after that of the one before.
    gapless: bool,
    context: Option<ContextId>,
    status: u64,
    /// By a digest of their ids.
    artifacts: BTreeMap<u64, Parts>,
    /// Whether there were more artifacts than are remembered.
    forgetful: bool,
    /// The next event is the first one after a break.
    resumed: bool,
}

/// How many artifacts of a task are remembered. Of any more a snapshot is told whole.
const MAX_ARTIFACTS: usize = 4096;

/// How much of an artifact has come: so many parts, and a digest of them.
#[derive(Clone, Debug, Default)]
struct Parts {
    count: usize,
    digest: DefaultHasher,
}

/// As much of an event as is needed to follow it.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow, default)]
    task: Option<TaskOutline<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "statusUpdate", alias = "status_update")]
    status_update: Option<StatusOutline<'a>>,
    #[serde(borrow, default, rename = "artifactUpdate", alias = "artifact_update")]
    artifact_update: Option<ArtifactUpdateOutline<'a>>,
}

#[derive(Deserialize)]
struct TaskOutline<'a> {
    id: TaskId,
    #[serde(default, rename = "contextId", alias = "context_id")]
    context: Option<ContextId>,
    #[serde(borrow)]
    status: &'a RawValue,
    #[serde(borrow, default)]
    artifacts: Option<Vec<ArtifactOutline<'a>>>,
}

#[derive(Deserialize)]
struct StatusOutline<'a> {
    #[serde(rename = "taskId", alias = "task_id")]
    task: TaskId,
    #[serde(default, rename = "contextId", alias = "context_id")]
    context: Option<ContextId>,
    #[serde(borrow)]
    status: &'a RawValue,
}

#[derive(Deserialize)]
struct ArtifactUpdateOutline<'a> {
    #[serde(rename = "taskId", alias = "task_id")]
    task: TaskId,
    #[serde(borrow)]
    artifact: ArtifactOutline<'a>,
    #[serde(default)]
    append: Option<bool>,
}

#[derive(Deserialize)]
struct ArtifactOutline<'a> {
    #[serde(borrow, rename = "artifactId", alias = "artifact_id")]
    id: Cow<'a, str>,
    #[serde(borrow)]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct State {
    state: TaskState,
}

// === impl Progress ===

impl Progress {
    /// Begins after an event that somebody has seen already; 0 if nobody has.
    pub(crate) fn after(last: u64) -> Self {
        Self { last, gapless: true, resumed: last > 0, ..Self::default() }
    }

    /// The stream has been taken up again.
    pub(crate) fn resume(&mut self) {
        self.resumed = true;
    }

    /// Nothing more has to come: the task is over, or the agent has simply answered.
    pub(crate) fn is_over(&self) -> bool {
        self.is_message || self.state.is_some_and(TaskState::is_terminal)
    }

    /// The agent may well say nothing more until somebody else does.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.is_some_and(TaskState::is_interrupted)
    }

    /// Takes an event and appends what of it is new.
    pub(crate) fn take(&mut self, event: Event, out: &mut Vec<Event>) -> Result<(), ClientError> {
        let outline: Outline<'_> = serde_json::from_slice(&event.json)
            .map_err(|error| ClientError::bad(format!("an event of its stream is none: {error}")))?;
        let resumed = std::mem::take(&mut self.resumed);
        if self.is_over() && (event.number == 0 || event.number > self.last) {
            // A task that has ended does not begin again; to follow one that says so would have no end.
            return Err(ClientError::bad("an event of its stream came after the end of the task"));
        }
        if let Some(task) = outline.task {
            return self.take_task(&task, &event, resumed, out);
        }
        if event.number > 0 && event.number <= self.last {
            return Ok(());
        }
        if resumed && self.gapless && event.number > self.last + 1 && self.last > 0 {
            let (from, to) = (self.last + 1, event.number - 1);
            let why = format!("events {from} to {to} are missing");
            return Err(ClientError::StreamCut { last_event: self.last, why });
        }
        if let Some(update) = outline.status_update {
            self.same_task(&update.task)?;
            self.context = update.context.or(self.context.take());
            self.note_status(update.status)?;
        } else if let Some(update) = outline.artifact_update {
            self.same_task(&update.task)?;
            self.note_artifact(&update.artifact, update.append.unwrap_or_default());
        } else if outline.message.is_some() {
            if self.task.is_some() {
                return Err(ClientError::bad("a message came where a task had begun"));
            }
            self.is_message = true;
        } else {
            return Err(ClientError::bad(
                "an event of its stream is none of task, message, statusUpdate, artifactUpdate",
            ));
        }
        self.note_number(event.number);
        out.push(event);
        Ok(())
    }

    /// The task as it stands: the beginning of a stream. After a break, it is told what has changed since.
    fn take_task(
        &mut self,
        task: &TaskOutline<'_>,
        event: &Event,
        resumed: bool,
        out: &mut Vec<Event>,
    ) -> Result<(), ClientError> {
        let is_known = self.state.is_some();
        self.same_task(&task.id)?;
        self.context = task.context.clone().or(self.context.take());
        if resumed && is_known {
            let StreamResponse::Task(whole) = event.payload().map_err(ClientError::Peer)? else {
                return Ok(());
            };
            self.write_changes(task, whole, event.number, out)?;
        } else if event.number == 0 || event.number > self.last || (resumed && event.number < self.last) {
            out.push(event.clone());
        }
        self.note_status(task.status)?;
        let artifacts = task.artifacts.as_deref().unwrap_or_default();
        self.artifacts.clear();
        for artifact in artifacts {
            self.note_artifact(artifact, false);
        }
        if resumed {
            // From here on the peer counts as it likes.
            self.last = event.number;
        } else {
            self.note_number(event.number);
        }
        Ok(())
    }

    /// What a snapshot says that the events so far did not. Its number goes to the last of the changes.
    fn write_changes(
        &self,
        outline: &TaskOutline<'_>,
        task: Task,
        number: u64,
        out: &mut Vec<Event>,
    ) -> Result<(), ClientError> {
        let context_id = self.context.clone().unwrap_or_else(|| ContextId::from(""));
        let mut changes = Vec::new();
        let raw = outline.artifacts.iter().flatten();
        for (raw, mut artifact) in raw.zip(task.artifacts) {
            let Some(append) = self.continues(raw) else {
                changes.push(artifact_update(&task.id, &context_id, artifact, false));
                continue;
            };
            if append < artifact.parts.len() {
                artifact.parts.drain(..append);
                changes.push(artifact_update(&task.id, &context_id, artifact, append > 0));
            }
        }
        if digest_of(outline.status.get()) != self.status {
            changes.push(status_update(&task.id, &context_id, task.status, task.metadata));
        }
        let count = changes.len();
        for (at, change) in changes.into_iter().enumerate() {
            let json = serde_json::to_vec(&change).map_err(|error| ClientError::bad(error.to_string()))?;
            let number = if at + 1 == count { number } else { 0 };
            out.push(Event { number, json: Bytes::from(json) });
        }
        Ok(())
    }

    /// How many parts of an artifact have come; none if what came is not how it begins.
    fn continues(&self, artifact: &ArtifactOutline<'_>) -> Option<usize> {
        let Some(known) = self.artifacts.get(&digest_of(&artifact.id)) else {
            return (!self.forgetful).then_some(0);
        };
        let same = artifact.parts.len() >= known.count
            && Parts::of(&artifact.parts[..known.count]).digest.finish() == known.digest.finish();
        same.then_some(known.count)
    }

    fn same_task(&mut self, id: &TaskId) -> Result<(), ClientError> {
        match &self.task {
            Some(known) if known != id => Err(ClientError::bad("events of another task came along")),
            Some(_) => Ok(()),
            None => {
                self.task = Some(id.clone());
                Ok(())
            }
        }
    }

    fn note_status(&mut self, raw: &RawValue) -> Result<(), ClientError> {
        let State { state } = serde_json::from_str(raw.get())
            .map_err(|error| ClientError::bad(format!("the status in an event is none: {error}")))?;
        self.state = Some(state);
        self.status = digest_of(raw.get());
        Ok(())
    }

    fn note_artifact(&mut self, artifact: &ArtifactOutline<'_>, append: bool) {
        let (id, has_room) = (digest_of(&artifact.id), self.artifacts.len() < MAX_ARTIFACTS);
        match self.artifacts.get_mut(&id) {
            Some(known) if append => known.add(&artifact.parts),
            Some(known) => *known = Parts::of(&artifact.parts),
            None if has_room => {
                self.artifacts.insert(id, Parts::of(&artifact.parts));
            }
            None => self.forgetful = true,
        }
    }

    fn note_number(&mut self, number: u64) {
        if number > 0 {
            self.gapless &= self.last == 0 || number == self.last + 1;
            self.last = number;
        }
    }
}

// === impl Parts ===

impl Parts {
    fn of(parts: &[&RawValue]) -> Self {
        let mut known = Self::default();
        known.add(parts);
        known
    }

    fn add(&mut self, parts: &[&RawValue]) {
        self.count += parts.len();
        for part in parts {
            self.digest.write(part.get().as_bytes());
            self.digest.write_u8(0xff);
        }
    }
}

fn digest_of(text: &str) -> u64 {
    let mut digest = DefaultHasher::new();
    digest.write(text.as_bytes());
    digest.finish()
}

fn artifact_update(id: &TaskId, context: &ContextId, artifact: Artifact, append: bool) -> StreamResponse {
    StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: id.clone(),
        context_id: context.clone(),
        artifact,
        append,
        last_chunk: false,
        metadata: None,
    })
}

fn status_update(
    id: &TaskId,
    context: &ContextId,
    status: TaskStatus,
    metadata: Option<chancery_protocol::JsonObject>,
) -> StreamResponse {
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: id.clone(),
        context_id: context.clone(),
        status,
        metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKING: &str = r#"{"state":"TASK_STATE_WORKING"}"#;

    fn event(number: u64, json: impl Into<String>) -> Event {
        Event { number, json: json.into().into() }
    }

    fn task(number: u64, artifacts: &str, status: &str) -> Event {
        event(
            number,
            format!(r#"{{"task":{{"id":"t","contextId":"c","status":{status},"artifacts":[{artifacts}]}}}}"#),
        )
    }

    fn chunk(number: u64, text: &str, append: bool) -> Event {
        let artifact = artifact(&[text]);
        event(
            number,
            format!(
                r#"{{"artifactUpdate":{{"taskId":"t","contextId":"c","artifact":{artifact},"append":{append}}}}}"#
            ),
        )
    }

    fn artifact(texts: &[&str]) -> String {
        let parts: Vec<_> = texts.iter().map(|text| format!(r#"{{"text":"{text}"}}"#)).collect();
        format!(r#"{{"artifactId":"a","parts":[{}]}}"#, parts.join(","))
    }

    fn status(number: u64, status: &str) -> Event {
        event(number, format!(r#"{{"statusUpdate":{{"taskId":"t","contextId":"c","status":{status}}}}}"#))
    }

    fn take(progress: &mut Progress, event: Event) -> Vec<(u64, String)> {
        let mut out = Vec::new();
        progress.take(event, &mut out).unwrap();
        out.into_iter().map(|event| (event.number, String::from_utf8(event.json.to_vec()).unwrap())).collect()
    }

    /// A stream of a task and two chunks, cut.
    fn cut(numbered: bool) -> Progress {
        let number = |number| if numbered { number } else { 0 };
        let mut progress = Progress::after(0);
        assert_eq!(take(&mut progress, task(number(1), "", WORKING)).len(), 1);
        assert_eq!(take(&mut progress, chunk(number(2), "one", false)).len(), 1);
        assert_eq!(take(&mut progress, chunk(number(3), "two", true)).len(), 1);
        progress.resume();
        progress
    }

    #[test]
    fn a_peer_that_resumes_is_simply_followed() {
        let mut progress = cut(true);
        assert_eq!(take(&mut progress, chunk(3, "two", true)), []);
        assert_eq!(take(&mut progress, chunk(4, "three", true)).len(), 1);
        assert_eq!(progress.last, 4);
    }

    #[test]
    fn a_gap_is_not_passed_over() {
        let mut progress = cut(true);
        let failed = progress.take(chunk(6, "later", true), &mut Vec::new()).unwrap_err();
        assert!(
            matches!(&failed, ClientError::StreamCut { last_event: 3, why } if why.contains("4 to 5")),
            "{failed}"
        );
    }

    #[test]
    fn of_a_snapshot_only_what_is_new_is_told() {
        for numbered in [true, false] {
            let number = if numbered { 5 } else { 0 };
            let mut progress = cut(numbered);
            let snapshot = task(number, &artifact(&["one", "two", "three"]), WORKING);
            let told = take(&mut progress, snapshot);
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, number);
            assert!(
                told[0].1.contains(r#""parts":[{"text":"three"}]"#) && told[0].1.contains(r#""append":true"#)
            );
            assert_eq!(take(&mut progress, chunk(if numbered { 6 } else { 0 }, "four", true)).len(), 1);
        }
        let mut progress = cut(true);
        assert_eq!(take(&mut progress, task(3, &artifact(&["one", "two"]), WORKING)), []);
    }

    #[test]
    fn an_artifact_that_is_another_now_is_told_whole() {
        let mut progress = cut(false);
        let told = take(&mut progress, task(0, &artifact(&["onetwo", "three"]), WORKING));
        assert_eq!(told.len(), 1);
        assert!(told[0].1.contains("onetwo") && !told[0].1.contains("append"), "{told:?}");
    }

    #[test]
    fn a_peer_with_artifacts_without_end_is_followed_in_bounded_room() {
        let mut progress = cut(false);
        for at in 0..2 * MAX_ARTIFACTS {
            let other = format!(r#"{{"artifactId":"{at}","parts":[{{"text":"x"}}]}}"#);
            let update =
                format!(r#"{{"artifactUpdate":{{"taskId":"t","contextId":"c","artifact":{other}}}}}"#);
            assert_eq!(take(&mut progress, event(0, update)).len(), 1);
        }
        assert_eq!(progress.artifacts.len(), MAX_ARTIFACTS);
        progress.resume();
        let last = format!(r#"{{"artifactId":"{}","parts":[{{"text":"x"}}]}}"#, 2 * MAX_ARTIFACTS - 1);
        let snapshot = format!("{},{last}", artifact(&["one", "two"]));
        let told = take(&mut progress, task(0, &snapshot, WORKING));
        assert!(told.len() == 1 && !told[0].1.contains("append"), "{told:?}");
    }

    #[test]
    fn a_new_status_is_told() {
        let mut progress = cut(true);
        let done = r#"{"state":"TASK_STATE_COMPLETED"}"#;
        let told = take(&mut progress, task(9, &artifact(&["one", "two"]), done));
        assert_eq!(told.len(), 1);
        assert!(told[0].1.starts_with(r#"{"statusUpdate":"#) && told[0].0 == 9, "{told:?}");
        assert!(progress.is_over());
    }

    #[test]
    fn peers_that_count_anew_on_each_connection_lose_nothing() {
        let mut progress = cut(true);
        assert_eq!(take(&mut progress, task(1, &artifact(&["one", "two"]), WORKING)), []);
        assert_eq!(take(&mut progress, chunk(2, "three", true)).len(), 1);
        assert_eq!(take(&mut progress, status(3, r#"{"state":"TASK_STATE_COMPLETED"}"#)).len(), 1);
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let refuse = |progress: &mut Progress, json: &str| {
            progress.take(event(0, json), &mut Vec::new()).unwrap_err().to_string()
        };
        let message = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}"#;
        assert!(refuse(&mut cut(false), message).contains("a task had begun"));
        assert!(refuse(&mut cut(false), "{}").contains("none of task"));
        assert!(refuse(&mut cut(false), "[]").contains("is none"));
        let other =
            r#"{"statusUpdate":{"taskId":"u","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
        assert!(refuse(&mut cut(false), other).contains("another task"));
        let mut direct = Progress::after(0);
        assert_eq!(take(&mut direct, event(0, message)).len(), 1);
        assert!(direct.is_over());
    }
}
