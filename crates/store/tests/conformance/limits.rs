//! What one task may hold.

use chancery_protocol::{Artifact, Message, Part, Task, TaskState};
use chancery_store::{Store, StoreError, StoreLimits};

use crate::support::*;

/// The batch is refused because there is too much of something, and changes nothing.
async fn too_much(store: &Store, id: &str, batch: Draft, what: &str, limit: usize) {
    let before = picture(store, id).await;
    match batch.refused(store).await {
        StoreError::TaskFull { id: named, what: named_what, limit: named_limit } => {
            assert_eq!((named.as_str(), named_what, named_limit), (id, what, limit));
        }
        error => panic!("{error}"),
    }
    assert_eq!(picture(store, id).await, before);
}

pub(crate) async fn events_are_limited(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.events = 5));
    create("t", TaskState::Working, 0).chunk("a", "2").done(&store).await;
    // A batch fits as a whole or not at all.
    let four = draft("t").chunk("a", "3").chunk("a", "4").chunk("a", "5").chunk("a", "6");
    too_much(&store, "t", four, "events", 5).await;
    let three = draft("t").chunk("a", "3").chunk("a", "4").chunk("a", "5");
    assert_eq!(numbers(&three.done(&store).await.events), [3, 4, 5]);

    too_much(&store, "t", draft("t").chunk("a", "6"), "events", 5).await;
    too_much(&store, "t", draft("t").artifact("a", "6"), "events", 5).await;
    too_much(&store, "t", draft("t").status(TaskState::InputRequired, 1), "events", 5).await;
    // The end carries nothing in with it.
    let smuggled = draft("t").chunk("a", "6").status(TaskState::Completed, 1);
    too_much(&store, "t", smuggled, "events", 5).await;
    let end = draft("t").saying(TaskState::Failed, 1, "full").done(&store).await;
    assert_eq!(numbers(&end.events), [6]);
    assert_eq!(snapshot(&store, "t").await.task.state(), TaskState::Failed);
    // Another task has a limit of its own.
    create("u", TaskState::Working, 0).chunk("a", "2").done(&store).await;
    // A task that is too much from the start never is.
    let mut six = create("v", TaskState::Working, 0);
    for n in 2..=6 {
        six = six.chunk("a", &n.to_string());
    }
    assert!(matches!(six.refused(&store).await, StoreError::TaskFull { what: "events", .. }));
    assert!(is_gone(&store, "v").await);
}

pub(crate) async fn artifacts_are_limited(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.artifacts = 3));
    create("t", TaskState::Working, 0).artifact("a", "0").artifact("b", "0").done(&store).await;
    too_much(&store, "t", draft("t").artifact("c", "0").artifact("d", "0"), "artifacts", 3).await;
    draft("t").artifact("c", "0").done(&store).await;

    too_much(&store, "t", draft("t").artifact("d", "0"), "artifacts", 3).await;
    too_much(&store, "t", draft("t").chunk("a", "1").artifact("d", "0"), "artifacts", 3).await;
    // To append to what is not there is to make it.
    too_much(&store, "t", draft("t").chunk("d", "0"), "artifacts", 3).await;
    // Those that are there may grow and change, and the status may.
    draft("t").chunk("a", "1").artifact("b", "1").chunk("c", "1").done(&store).await;
    draft("t").status(TaskState::InputRequired, 1).status(TaskState::Working, 2).done(&store).await;
    assert_eq!(value(&snapshot(&store, "t").await.task).artifacts.len(), 3);
    let smuggled = draft("t").artifact("d", "0").status(TaskState::Completed, 3);
    too_much(&store, "t", smuggled, "artifacts", 3).await;
    draft("t").status(TaskState::Completed, 3).done(&store).await;
}

pub(crate) async fn artifacts_are_counted_once(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.artifacts = 2));
    // In one batch, an artifact and more of it.
    create("t", TaskState::Working, 0)
        .artifact("a", "0")
        .chunk("a", "1")
        .artifact("a", "2")
        .done(&store)
        .await;
    draft("t").chunk("b", "0").artifact("b", "1").chunk("b", "2").chunk("a", "3").done(&store).await;
    assert_eq!(value(&snapshot(&store, "t").await.task).artifacts.len(), 2);
    too_much(&store, "t", draft("t").chunk("c", "0"), "artifacts", 2).await;

    // Those that a task begins with count.
    let with = |id: &str, count: usize| {
        let mut task = Task::submitted(id.into(), "c".into(), Message::user("go"));
        task.status = status(TaskState::Working, 0);
        let artifact = |n| Artifact::new(format!("a{n}"), vec![Part::text("x")]);
        task.artifacts = (0..count).map(artifact).collect();
        draft(id).task(task)
    };
    with("u", 2).chunk("a0", "1").artifact("a1", "1").done(&store).await;
    too_much(&store, "u", draft("u").artifact("b", "0"), "artifacts", 2).await;
    for batch in [with("v", 3), with("v", 2).artifact("b", "0"), with("v", 2).chunk("b", "0")] {
        let error = batch.refused(&store).await;
        assert!(matches!(error, StoreError::TaskFull { what: "artifacts", limit: 2, .. }), "{error}");
        assert!(is_gone(&store, "v").await);
    }
}

pub(crate) async fn bytes_are_limited(open: impl Fn(StoreLimits) -> Store) {
    let begin = |id: &str| create(id, TaskState::Working, 0).chunk("a", "0");
    let chunk = |id: &str, length: usize| draft(id).chunk("a", &"x".repeat(length));
    let limit = begin("t").bytes() + chunk("t", 10).bytes() + chunk("t", 500).bytes();
    let store = open(limits(|limits| limits.task.bytes = limit));
    begin("t").done(&store).await;
    chunk("t", 10).done(&store).await;
    too_much(&store, "t", chunk("t", 501), "bytes", limit).await;
    too_much(&store, "t", chunk("t", 10_000), "bytes", limit).await;
    too_much(&store, "t", chunk("t", 1).chunk("a", &"x".repeat(499)), "bytes", limit).await;
    chunk("t", 500).done(&store).await;

    too_much(&store, "t", chunk("t", 0), "bytes", limit).await;
    too_much(&store, "t", draft("t").status(TaskState::InputRequired, 1), "bytes", limit).await;
    too_much(&store, "t", chunk("t", 0).status(TaskState::Completed, 1), "bytes", limit).await;
    let end = draft("t").saying(TaskState::Failed, 1, &"y".repeat(2 * limit)).done(&store).await;
    assert_eq!(numbers(&end.events), [5]);
    begin("u").done(&store).await;
    let error = create("v", TaskState::Working, 0).chunk("a", &"x".repeat(limit)).refused(&store).await;
    assert!(matches!(error, StoreError::TaskFull { what: "bytes", .. }), "{error}");
    assert!(is_gone(&store, "v").await);
}
