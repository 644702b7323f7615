//! What a reader of a stream has seen of its task, so that after a break nothing comes twice and nothing is missing.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use chancery_protocol::{
    Artifact, ContextId, JsonObject, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskId, TaskState,
    TaskStatus, TaskStatusUpdateEvent, write_json,
};
use serde::Serialize;

use super::error::ClientError;
use super::replied::StreamEvent;

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
    pub(crate) fn take(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) -> Result<(), ClientError> {
        let (resumed, number) = (std::mem::take(&mut self.resumed), event.number);
        if self.is_over() && (number == 0 || number > self.last) {
            // A task that has ended does not begin again; to follow one that says so would have no end.
            return Err(ClientError::bad("an event of its stream came after the end of the task"));
        }
        if let StreamResponse::Task(task) = event.payload {
            return self.take_task(task, number, resumed, out);
        }
        if number > 0 && number <= self.last {
            return Ok(());
        }
        if resumed && self.gapless && number > self.last + 1 && self.last > 0 {
            let (from, to) = (self.last + 1, number - 1);
            let why = format!("events {from} to {to} are missing");
            return Err(ClientError::StreamCut { last_event: self.last, why });
        }
        match &event.payload {
            StreamResponse::StatusUpdate(update) => {
                self.same_task(&update.task_id)?;
                self.context = Some(update.context_id.clone());
                self.note_status(&update.status);
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.same_task(&update.task_id)?;
                self.note_artifact(&update.artifact, update.append);
            }
            StreamResponse::Message(_) if self.task.is_some() => {
                return Err(ClientError::bad("a message came where a task had begun"));
            }
            StreamResponse::Message(_) | StreamResponse::Task(_) => self.is_message = true,
        }
        self.note_number(number);
        out.push(event);
        Ok(())
    }

    /// The task as it stands: the beginning of a stream. After a break, it is told what has changed since.
    fn take_task(
        &mut self,
        task: Task,
        number: u64,
        resumed: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ClientError> {
        let is_known = self.state.is_some();
        self.same_task(&task.id)?;
        self.context = task.context_id.clone().or(self.context.take());
        let changes = (resumed && is_known).then(|| self.changes(&task));
        self.note_status(&task.status);
        self.artifacts.clear();
        for artifact in &task.artifacts {
            self.note_artifact(artifact, false);
        }
        if let Some(changes) = changes {
            let count = changes.len();
            let number_of = |at| if at + 1 == count { number } else { 0 };
            let numbered = changes.into_iter().enumerate();
            out.extend(numbered.map(|(at, change)| StreamEvent::new(number_of(at), change)));
        } else if number == 0 || number > self.last || (resumed && number < self.last) {
            out.push(StreamEvent::new(number, StreamResponse::Task(task)));
        }
        if resumed {
            // From here on the peer counts as it likes.
            self.last = number;
        } else {
            self.note_number(number);
        }
        Ok(())
    }

    /// What a snapshot says that the events so far did not.
    fn changes(&self, task: &Task) -> Vec<StreamResponse> {
        let context_id = self.context.clone().unwrap_or_else(|| ContextId::from(""));
        let mut changes = Vec::new();
        for artifact in &task.artifacts {
            let known = self.continues(artifact);
            let mut artifact = artifact.clone();
            artifact.parts.drain(..known.unwrap_or_default());
            if known.is_none() || !artifact.parts.is_empty() {
                let append = known.is_some_and(|known| known > 0);
                changes.push(artifact_update(&task.id, &context_id, artifact, append));
            }
        }
        if digest_of(&task.status) != self.status {
            changes.push(status_update(&task.id, &context_id, task.status.clone(), task.metadata.clone()));
        }
        changes
    }

    /// How many parts of an artifact have come; none if what came is not how it begins.
    fn continues(&self, artifact: &Artifact) -> Option<usize> {
        let Some(known) = self.artifacts.get(&digest_of(&artifact.artifact_id)) else {
            return (!self.forgetful).then_some(0);
        };
        let begins = Parts::of(artifact.parts.get(..known.count)?);
        (begins.digest.finish() == known.digest.finish()).then_some(known.count)
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

    fn note_status(&mut self, status: &TaskStatus) {
        self.state = Some(status.state);
        self.status = digest_of(status);
    }

    fn note_artifact(&mut self, artifact: &Artifact, append: bool) {
        let (id, has_room) = (digest_of(&artifact.artifact_id), self.artifacts.len() < MAX_ARTIFACTS);
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
    fn of(parts: &[Part]) -> Self {
        let mut known = Self::default();
        known.add(parts);
        known
    }

    fn add(&mut self, parts: &[Part]) {
        self.count += parts.len();
        for part in parts {
            self.digest.write_u64(digest_of(part));
        }
    }
}

/// A digest of what something is written as.
fn digest_of(value: &impl Serialize) -> u64 {
    let (mut json, mut digest) = (Vec::new(), DefaultHasher::new());
    // What came as JSON can be written; if not, all of its kind look the same.
    let _ = write_json(&mut json, value);
    digest.write(&json);
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
    metadata: Option<JsonObject>,
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

    fn event(number: u64, json: impl Into<String>) -> StreamEvent {
        StreamEvent { number, ..StreamEvent::read(json.into().as_bytes()).unwrap() }
    }

    fn task(number: u64, artifacts: &str, status: &str) -> StreamEvent {
        event(
            number,
            format!(r#"{{"task":{{"id":"t","contextId":"c","status":{status},"artifacts":[{artifacts}]}}}}"#),
        )
    }

    fn chunk(number: u64, text: &str, append: bool) -> StreamEvent {
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

    fn status(number: u64, status: &str) -> StreamEvent {
        event(number, format!(r#"{{"statusUpdate":{{"taskId":"t","contextId":"c","status":{status}}}}}"#))
    }

    fn take(progress: &mut Progress, event: StreamEvent) -> Vec<(u64, String)> {
        let mut out = Vec::new();
        progress.take(event, &mut out).unwrap();
        let written = out.iter().map(|event| event.written().unwrap());
        written.map(|event| (event.number, String::from_utf8(event.json.to_vec()).unwrap())).collect()
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
        let other =
            r#"{"statusUpdate":{"taskId":"u","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
        assert!(refuse(&mut cut(false), other).contains("another task"));
        let mut direct = Progress::after(0);
        assert_eq!(take(&mut direct, event(0, message)).len(), 1);
        assert!(direct.is_over());
    }
}
