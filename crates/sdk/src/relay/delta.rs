//! What a task says that the journal does not know yet.
//!
//! An agent elsewhere shows its task as a whole, again and again: as the first event of each stream, and as the answer
//! to GetTask. Only what is new in it becomes events here, so that nobody sees anything twice.

use chancery_protocol::{
    Artifact, JsonObject, Message, Role, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
    USAGE_EXTENSION,
};

/// What is new in a task: artifacts, then the status with what the agent said before it.
#[derive(Debug, Default)]
pub(super) struct Delta {
    pub(super) artifacts: Vec<TaskArtifactUpdateEvent>,
    pub(super) status: Option<TaskStatusUpdateEvent>,
    /// Messages of the agent's that no status shows.
    pub(super) said: Vec<Message>,
}

impl Delta {
    /// What leads from what is known of a task to how it stands now.
    pub(super) fn between(known: &Task, mut now: Task) -> Self {
        let mut delta = Self::default();
        for artifact in std::mem::take(&mut now.artifacts) {
            if let Some((artifact, append)) = new_in(known, artifact) {
                delta.artifacts.push(TaskArtifactUpdateEvent {
                    task_id: known.id.clone(),
                    context_id: "".into(),
                    artifact,
                    append,
                    last_chunk: false,
                    metadata: None,
                });
            }
        }
        let metadata = now.metadata.take();
        let says_more = metadata.as_ref().is_some_and(|said| is_new(known.metadata.as_ref(), said));
        if !is_same_status(&known.status, &now.status) || says_more {
            delta.said = new_messages(known, now.history, now.status.message.as_deref());
            let (task_id, status) = (known.id.clone(), now.status);
            delta.status = Some(TaskStatusUpdateEvent { task_id, context_id: "".into(), status, metadata });
        }
        delta
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.artifacts.is_empty() && self.status.is_none()
    }
}

/// The artifact if it is new or another one now; what was appended to it, if that is all.
fn new_in(known: &Task, mut artifact: Artifact) -> Option<(Artifact, bool)> {
    let Some(before) = known.artifacts.iter().find(|one| one.artifact_id == artifact.artifact_id) else {
        return Some((artifact, false));
    };
    let count = before.parts.len();
    if !artifact.parts.starts_with(&before.parts) || !is_same_but_for_parts(before, &artifact) {
        return Some((artifact, false));
    }
    artifact.parts.drain(..count);
    (!artifact.parts.is_empty()).then_some((artifact, true))
}

fn is_same_but_for_parts(one: &Artifact, other: &Artifact) -> bool {
    one.name == other.name
        && one.description == other.description
        && one.metadata == other.metadata
        && one.extensions == other.extensions
}

/// What the agent said, as far as the journal does not have it. What clients said, the journal has. Ids alone tell no
/// messages apart: some agents give all of theirs the same one.
fn new_messages(known: &Task, history: Vec<Message>, status: Option<&Message>) -> Vec<Message> {
    let before = known.history.iter().chain(known.status.message.as_deref());
    let mut known: Vec<&Message> = before.chain(status).filter(|said| said.role == Role::Agent).collect();
    let by_agent = history.into_iter().filter(|said| said.role == Role::Agent);
    let is_new = |said: &Message| {
        let is_same = |known: &&Message| known.message_id == said.message_id && known.parts == said.parts;
        known.iter().position(is_same).map(|place| known.swap_remove(place)).is_none()
    };
    by_agent.filter(is_new).collect()
}

/// Whether two statuses say the same, whenever that was.
pub(super) fn is_same_status(one: &TaskStatus, other: &TaskStatus) -> bool {
    let same_words = match (&one.message, &other.message) {
        (Some(one), Some(other)) => one.message_id == other.message_id && one.parts == other.parts,
        (one, other) => one.is_none() && other.is_none(),
    };
    one.state == other.state && same_words
}

/// Whether metadata says anything beside usage, which is settled here, that is not known.
fn is_new(known: Option<&JsonObject>, metadata: &JsonObject) -> bool {
    let Some(said) = metadata.without(USAGE_EXTENSION) else { return false };
    known.is_none_or(|known| known.merged(&said) != *known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chancery_protocol::{Part, TaskState, TaskStatus};

    fn task(parts: &[&str], state: TaskState) -> Task {
        let parts: Vec<_> = parts.iter().map(|text| Part::text(*text)).collect();
        Task {
            id: "t".into(),
            context_id: Some("c".into()),
            status: TaskStatus { state, message: None, timestamp: None },
            artifacts: if parts.is_empty() { Vec::new() } else { vec![Artifact::new("a", parts)] },
            history: Vec::new(),
            metadata: None,
        }
    }

    #[test]
    fn nothing_new_is_no_event() {
        let known = task(&["one"], TaskState::Working);
        assert!(Delta::between(&known, known.clone()).is_empty());
    }

    #[test]
    fn only_what_was_appended_is_told() {
        let known = task(&["one"], TaskState::Working);
        let delta = Delta::between(&known, task(&["one", "two", "three"], TaskState::Completed));
        let [update] = &delta.artifacts[..] else { panic!("{delta:?}") };
        assert!(update.append && update.artifact.parts == [Part::text("two"), Part::text("three")]);
        assert_eq!(delta.status.unwrap().status.state, TaskState::Completed);
    }

    #[test]
    fn an_artifact_that_is_another_now_is_told_whole() {
        let known = task(&["one", "two"], TaskState::Working);
        for now in [task(&["onetwo"], TaskState::Working), task(&["one"], TaskState::Working)] {
            let delta = Delta::between(&known, now);
            assert!(matches!(&delta.artifacts[..], [update] if !update.append) && delta.status.is_none());
        }
        let mut named = known.clone();
        named.artifacts[0].name = "a name".to_owned();
        assert_eq!(Delta::between(&known, named).artifacts.len(), 1);
    }

    #[test]
    fn messages_with_equal_ids_are_told_apart_by_what_they_say() {
        let said = |text: &str| Message { message_id: "m".into(), ..Message::agent(text) };
        let mut known = task(&[], TaskState::Working);
        known.history = vec![Message::user("go"), said("one")];
        let mut now = task(&[], TaskState::Completed);
        now.history = vec![Message::user("go"), said("one"), said("two"), said("two")];
        now.status.message = Some(Box::new(said("two")));
        let delta = Delta::between(&known, now);
        assert_eq!(delta.said.iter().map(Message::text).collect::<Vec<_>>(), ["two"]);
    }

    #[test]
    fn metadata_is_told_with_the_status_and_usage_alone_is_not() {
        let known = task(&[], TaskState::InputRequired);
        let mut now = known.clone();
        now.metadata = JsonObject::parse(r#"{"b":1.0,"a":12345678901234567890}"#).ok();
        let delta = Delta::between(&known, now.clone());
        assert_eq!(delta.status.unwrap().metadata, now.metadata);
        now.metadata = JsonObject::single(USAGE_EXTENSION, &1).ok();
        assert!(Delta::between(&known, now).is_empty());
    }
}
