//! How much of what a stream told is in a look at its task.
//!
//! The task is asked for while the stream is open, so what the stream told before the task was looked at is in both.
//! Events come in the order in which they happened: what is in the task is the first few of them, and only how many
//! these are is to be found out. A chunk that is told twice is there twice, and one that looks like another is not it;
//! so it is the end of an artifact that is compared, not any place in it.

use chancery_protocol::{Part, StreamResponse, Task, TaskStatus};

/// How many of the first events a task has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// This many.
    Of(usize),
    /// This many at most. The task would look the same with fewer of them in it, if what it shows had been told before.
    UpTo(usize),
    /// It cannot be told: the agent shows its tasks in another way than it tells of them.
    Unknown,
}

/// Finds it out. The first `sure` events had come before the task was asked for, so they are in it.
pub(super) fn overlap(task: &Task, events: &[StreamResponse], sure: usize) -> Overlap {
    let mut fitting = (sure..=events.len()).rev().filter(|count| fits(task, &events[..*count]));
    match (fitting.next(), fitting.next()) {
        (Some(most), None) => Overlap::Of(most),
        (Some(most), Some(_)) => Overlap::UpTo(most),
        (None, _) => Overlap::Unknown,
    }
}

/// Whether a task may be what it is because of these events, as the last ones that it has seen.
fn fits(task: &Task, events: &[StreamResponse]) -> bool {
    let last_status = events.iter().rev().find_map(|event| match event {
        StreamResponse::StatusUpdate(update) => Some(&update.status),
        _ => None,
    });
    let is_last = |(at, event): &(usize, &StreamResponse)| {
        match event {
        StreamResponse::ArtifactUpdate(update) => !events[at + 1..].iter().any(|later| {
            matches!(later, StreamResponse::ArtifactUpdate(later) if later.artifact.artifact_id == update.artifact.artifact_id)
        }),
        _ => false,
    }
    };
    last_status.is_none_or(|status| is_same(status, &task.status))
        && events.iter().enumerate().filter(is_last).all(|(at, _)| artifact_fits(task, &events[..=at]))
}

/// A status is known by its time, if it has one.
fn is_same(told: &TaskStatus, shown: &TaskStatus) -> bool {
    told.state == shown.state
        && match (told.timestamp, shown.timestamp) {
            (Some(told), Some(shown)) => told == shown,
            _ => true,
        }
}

/// Whether the artifact of the last of these events is what they have made of it.
fn artifact_fits(task: &Task, events: &[StreamResponse]) -> bool {
    let Some(StreamResponse::ArtifactUpdate(last)) = events.last() else { return true };
    let id = &last.artifact.artifact_id;
    let Some(shown) = task.artifacts.iter().find(|shown| shown.artifact_id == *id) else { return false };
    let (mut told, mut is_whole): (Vec<&Part>, bool) = (Vec::new(), false);
    for event in events {
        let StreamResponse::ArtifactUpdate(update) = event else { continue };
        if update.artifact.artifact_id != *id {
            continue;
        }
        if !update.append {
            told.clear();
            is_whole = true;
        }
        told.extend(&update.artifact.parts);
    }
    let before = shown.parts.len().checked_sub(told.len());
    before.is_some_and(|before| {
        (before == 0 || !is_whole) && shown.parts[before..].iter().eq(told.iter().copied())
    })
}

#[cfg(test)]
mod tests {
    use chancery_protocol::{Artifact, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent, Timestamp};

    use super::*;

    fn parts(texts: &[&str]) -> Vec<Part> {
        texts.iter().copied().map(Part::text).collect()
    }

    fn chunk(text: &str, append: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: "t".into(),
            context_id: "c".into(),
            artifact: Artifact::new("a", parts(&[text])),
            append,
            last_chunk: false,
            metadata: None,
        })
    }

    fn status(state: TaskState, millis: i64) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: "t".into(),
            context_id: "c".into(),
            status: TaskStatus::at(Timestamp::from_millis(millis), state, None),
            metadata: None,
        })
    }

    fn task(texts: &[&str], state: TaskState, millis: i64) -> Task {
        let artifacts = if texts.is_empty() { vec![] } else { vec![Artifact::new("a", parts(texts))] };
        Task {
            id: "t".into(),
            context_id: Some("c".into()),
            status: TaskStatus::at(Timestamp::from_millis(millis), state, None),
            artifacts,
            history: Vec::new(),
            metadata: None,
        }
    }

    #[test]
    fn what_the_task_ends_with_is_in_it() {
        let (working, done) = (TaskState::Working, TaskState::Completed);
        let told = [chunk("x", true), chunk("y", true), status(done, 2)];
        let of = |texts: &[&str], state, millis| overlap(&task(texts, state, millis), &told, 0);
        assert_eq!(of(&["w"], working, 1), Overlap::Of(0));
        assert_eq!(of(&["w", "x"], working, 1), Overlap::UpTo(1));
        assert_eq!(of(&["w", "x", "y"], working, 1), Overlap::UpTo(2));
        assert_eq!(of(&["w", "x", "y"], done, 2), Overlap::UpTo(3));
        // What had come before the question is in the answer, or the agent shows its tasks otherwise.
        assert_eq!(overlap(&task(&["w", "x"], working, 1), &told, 1), Overlap::Of(1));
        assert_eq!(overlap(&task(&["x", "y"], done, 2), &told, 3), Overlap::Of(3));
        assert_eq!(overlap(&task(&["xy"], done, 2), &told, 3), Overlap::Unknown);
    }

    #[test]
    fn a_chunk_that_looks_like_one_before_it_is_not_taken_for_it() {
        let working = TaskState::Working;
        let told = [chunk("x", true), chunk("x", true)];
        assert_eq!(overlap(&task(&["w", "x"], working, 1), &told, 1), Overlap::Of(1));
        assert_eq!(overlap(&task(&["w", "x", "x"], working, 1), &told, 2), Overlap::Of(2));
        // Here it cannot be told, and whoever asks again will know.
        assert_eq!(overlap(&task(&["x"], working, 1), &told[..1], 0), Overlap::UpTo(1));
        assert_eq!(overlap(&task(&["x", "x"], working, 1), &told[..1], 1), Overlap::Of(1));
    }

    #[test]
    fn what_begins_an_artifact_anew_says_all_of_it() {
        let working = TaskState::Working;
        let told = [chunk("x", false), chunk("x", true)];
        assert_eq!(overlap(&task(&["x"], working, 1), &told, 1), Overlap::Of(1));
        assert_eq!(overlap(&task(&["x", "x"], working, 1), &told, 1), Overlap::Of(2));
        assert_eq!(overlap(&task(&[], working, 1), &told, 0), Overlap::Of(0));
    }
}
