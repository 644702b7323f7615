//! What a task says that the journal does not know yet.
//!
//! An agent elsewhere shows its task as a whole, again and again: as the first event of each stream, and as the answer
//! to a look at it. Only what is new in it becomes events here, so that nobody sees anything twice.

use std::collections::HashSet;

use chancery_protocol::{
    Artifact, ContextId, Message, MessageId, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent,
};
use chancery_store::Batch;

/// The events that lead from what is known of a task to how it stands now. What a client has said is history, whether
/// the agent keeps it or not.
pub(super) fn delta(known: &Task, mut now: Task, said: Option<Message>) -> Batch {
    let mut batch = Batch::default();
    let context_id = context_of(&now, known);
    for artifact in std::mem::take(&mut now.artifacts) {
        if let Some((artifact, append)) = new_in(known, artifact) {
            batch.artifact(TaskArtifactUpdateEvent {
                task_id: known.id.clone(),
                context_id: context_id.clone(),
                artifact,
                append,
                last_chunk: false,
                metadata: None,
            });
        }
    }
    let metadata = now.metadata.take().filter(|metadata| known.metadata.as_ref() != Some(metadata));
    // What was said alone makes no event: it waits for the next one.
    if now.status != known.status || metadata.is_some() {
        let history = new_messages(known, now.history, said);
        let (task_id, status) = (known.id.clone(), now.status);
        batch.status(TaskStatusUpdateEvent { task_id, context_id, status, metadata }, history);
    }
    batch
}

/// The conversation of a task, as its events name it.
fn context_of(now: &Task, known: &Task) -> ContextId {
    let named = known.context_id.as_ref().or(now.context_id.as_ref());
    named.cloned().unwrap_or_else(|| ContextId::from(""))
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

/// What was said, as far as the journal does not have it.
fn new_messages(known: &Task, history: Vec<Message>, said: Option<Message>) -> Vec<Message> {
    let current = known.status.message.as_deref();
    let mut ids: HashSet<MessageId> =
        known.history.iter().chain(current).map(|message| message.message_id.clone()).collect();
    history.into_iter().chain(said).filter(|message| ids.insert(message.message_id.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chancery_protocol::{JsonObject, Part, StreamResponse, TaskState, TaskStatus, Timestamp};

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

    /// The events as they would be shown, and the task that they make.
    async fn told(known: &Task, now: &Task, said: Option<Message>) -> (Vec<StreamResponse>, Task) {
        let store = chancery_store::Store::memory();
        let scope = chancery_store::Scope { realm: "r".into(), owner: "o".into(), agent: "a".into() };
        let mut created = Batch::default();
        created.create(known.clone());
        store.append(&scope, &known.id, created).await.unwrap();
        let appended = store.append(&scope, &known.id, delta(known, now.clone(), said)).await.unwrap();
        let events = appended.events.iter().map(|event| event.payload().unwrap()).collect();
        (events, (*appended.task.value().unwrap()).clone())
    }

    #[tokio::test]
    async fn nothing_new_is_no_event() {
        let known = task(&["one"], TaskState::Working);
        assert!(delta(&known, known.clone(), None).is_empty());
    }

    #[tokio::test]
    async fn only_what_was_appended_is_told() {
        let known = task(&["one"], TaskState::Working);
        let now = task(&["one", "two", "three"], TaskState::Completed);
        let (events, folded) = told(&known, &now, None).await;
        let [StreamResponse::ArtifactUpdate(update), StreamResponse::StatusUpdate(status)] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert!(update.append && update.artifact.parts == [Part::text("two"), Part::text("three")]);
        assert_eq!(status.status.state, TaskState::Completed);
        assert_eq!(folded, now);
    }

    #[tokio::test]
    async fn an_artifact_that_is_another_now_is_told_whole() {
        let known = task(&["one", "two"], TaskState::Working);
        for now in [task(&["onetwo"], TaskState::Working), task(&["one"], TaskState::Working)] {
            let (events, folded) = told(&known, &now, None).await;
            assert!(matches!(&events[..], [StreamResponse::ArtifactUpdate(update)] if !update.append));
            assert_eq!(folded, now);
        }
        let mut named = known.clone();
        named.artifacts[0].name = "a name".to_owned();
        let (events, folded) = told(&known, &named, None).await;
        assert_eq!((events.len(), folded), (1, named));
    }

    #[tokio::test]
    async fn what_was_said_is_history_once() {
        let mut known = task(&[], TaskState::InputRequired);
        known.status.message = Some(Box::new(Message::agent("Which one?")));
        let (question, answer) = (known.status.message.clone().unwrap(), Message::user("That one"));
        let mut now = task(&["done"], TaskState::Completed);
        // One agent keeps the history, another does not.
        for history in [vec![*question.clone(), answer.clone()], Vec::new()] {
            now.history = history;
            let (_, folded) = told(&known, &now, Some(answer.clone())).await;
            assert_eq!(folded.history, [*question.clone(), answer.clone()]);
        }
    }

    #[tokio::test]
    async fn metadata_and_time_are_told_with_the_status() {
        let known = task(&[], TaskState::Working);
        let mut now = known.clone();
        now.metadata = Some(JsonObject::parse(r#"{"b":1.0,"a":12345678901234567890}"#).unwrap());
        now.status.timestamp = Some(Timestamp::now());
        let (events, folded) = told(&known, &now, None).await;
        assert_eq!((events.len(), &folded), (1, &now));
        assert!(delta(&folded, now, None).is_empty());
    }
}
