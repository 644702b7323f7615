//! Numbers, batches, transitions: what one task is.

use std::sync::Arc;

use chancery_protocol::{
    Json, JsonObject, Message, Part, StreamResponse, Task, TaskId, TaskState, TaskStatus,
};
use chancery_store::{ListQuery, Read, Store, StoreError};

use crate::support::*;

pub(crate) async fn a_created_task_is_there(store: Arc<Store>) {
    let appended = create("t", TaskState::Submitted, 5).done(&store).await;
    assert_eq!(numbers(&appended.events), [1]);
    let found = snapshot(&store, "t").await;
    assert_eq!(found.task, appended.task);
    assert_eq!(value(&found.task).id.as_str(), "t");
    assert_eq!(value(&found.task).status, status(TaskState::Submitted, 5));
    assert_eq!(texts(&value(&found.task).history), ["begin t"]);
    assert_eq!(found.number, 1);
    assert_eq!(found.state, None);
    assert_eq!(read(&store, "t", 0, 10).await, appended.events);
    assert_eq!(appended.events[0].payload().unwrap(), StreamResponse::Task((*value(&found.task)).clone()));
    assert!(is_gone(&store, "other").await);
}

pub(crate) async fn numbers_follow_each_other(store: Arc<Store>) {
    let first = create("t", TaskState::Working, 0).chunk("a", "0").chunk("a", "1").done(&store).await;
    assert_eq!(numbers(&first.events), [1, 2, 3]);
    let second = draft("t").chunk("a", "2").done(&store).await;
    assert_eq!(numbers(&second.events), [4]);
    let third = draft("t").chunk("a", "3").status(TaskState::Completed, 1).done(&store).await;
    assert_eq!(numbers(&third.events), [5, 6]);
    // Another task counts for itself.
    assert_eq!(numbers(&create("u", TaskState::Working, 0).done(&store).await.events), [1]);

    let all = read(&store, "t", 0, 100).await;
    assert_eq!(all, [first.events, second.events, third.events].concat());
    let chunks: Vec<_> = all.iter().filter_map(chunk_text).collect();
    assert_eq!(chunks, ["0", "1", "2", "3"]);
    assert!(matches!(all[5].payload().unwrap(), StreamResponse::StatusUpdate(_)));
    assert_eq!(snapshot(&store, "t").await.number, 6);
}

pub(crate) async fn reads_from_any_position(store: Arc<Store>) {
    let mut batch = create("t", TaskState::Working, 0);
    for n in 2..=9 {
        batch = batch.chunk("a", &n.to_string());
    }
    let all = batch.done(&store).await.events;
    for after in 0..=9_usize {
        for max in 0..=10 {
            let expected = &all[after..(after + max).min(9)];
            assert_eq!(read(&store, "t", after as u64, max).await, expected, "{max} after {after}");
        }
        assert_eq!(read(&store, "t", after as u64, usize::MAX).await, &all[after..]);
    }
    for after in [10, 1_000, u64::MAX] {
        assert_eq!(read(&store, "t", after, 10).await, [], "after {after}");
    }
    // What comes later is found by whoever has read all there was.
    let next = draft("t").chunk("a", "10").done(&store).await.events;
    assert_eq!(read(&store, "t", 9, 10).await, next);
}

pub(crate) async fn a_batch_is_all_or_nothing(store: Arc<Store>) {
    create("t", TaskState::Working, 0).chunk("a", "0").state("1").done(&store).await;
    create("u", TaskState::Working, 5).done(&store).await;
    let before = picture(&store, "t").await;

    let good = || draft("t").saying(TaskState::InputRequired, 10, "?").chunk("a", "1").state("2");
    let error = good().status(TaskState::Submitted, 11).chunk("a", "2").refused(&store).await;
    assert!(matches!(error, StoreError::Transition { from: TaskState::InputRequired, .. }), "{error}");
    assert_eq!(picture(&store, "t").await, before);

    let error = good().status(TaskState::Completed, 11).chunk("b", "2").refused(&store).await;
    assert!(matches!(error, StoreError::Transition { from: TaskState::Completed, .. }), "{error}");
    assert_eq!(picture(&store, "t").await, before);

    // Nor is a task begun by a batch that is refused, and its id stays free.
    let error = create("v", TaskState::Completed, 20).chunk("a", "0").refused(&store).await;
    assert!(matches!(error, StoreError::Transition { .. }), "{error}");
    assert!(is_gone(&store, "v").await);
    assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, 2);
    create("v", TaskState::Working, 20).done(&store).await;

    assert_eq!(numbers(&good().done(&store).await.events), [3, 4]);
}

pub(crate) async fn transitions_follow_the_protocol(store: Arc<Store>) {
    for from in ACTIVE.into_iter().chain(TERMINAL) {
        for to in ACTIVE.into_iter().chain(TERMINAL).chain([TaskState::Unspecified]) {
            if (from, to) == (TaskState::Submitted, TaskState::Submitted) {
                continue;
            }
            let id = format!("{from:?}-{to:?}");
            if TERMINAL.contains(&from) {
                create(&id, TaskState::Submitted, 0).done(&store).await;
                draft(&id).status(from, 0).done(&store).await;
            } else {
                create(&id, from, 0).done(&store).await;
            }
            let legal =
                ACTIVE.contains(&from) && !matches!(to, TaskState::Unspecified | TaskState::Submitted);
            let before = picture(&store, &id).await;
            match draft(&id).status(to, 1).commit(&store, &scope()).await {
                Ok(appended) => {
                    assert!(legal, "{id} is illegal");
                    assert_eq!(value(&appended.task).status, status(to, 1));
                    assert_eq!(snapshot(&store, &id).await.task, appended.task);
                }
                Err(StoreError::Transition { id: named, from: left, to: refused }) => {
                    assert!(!legal, "{id} is legal");
                    assert_eq!((named.as_str(), left, refused), (&*id, from, to));
                    assert_eq!(picture(&store, &id).await, before);
                }
                Err(error) => panic!("{id}: {error}"),
            }
        }
    }
}

pub(crate) async fn nothing_follows_the_end(store: Arc<Store>) {
    for end in TERMINAL {
        let id = format!("{end:?}");
        create(&id, TaskState::Working, 0).chunk("a", "0").done(&store).await;
        draft(&id).status(end, 1).done(&store).await;
        let before = picture(&store, &id).await;
        let attempts = [
            draft(&id).chunk("a", "1"),
            draft(&id).artifact("b", "1"),
            draft(&id).saying(end, 2, "again"),
            draft(&id).status(TaskState::Working, 2),
            draft(&id).chunk("a", "1").status(TaskState::Working, 2),
            draft(&id).chunk("a", "1").state("{}"),
        ];
        for attempt in attempts {
            let error = attempt.refused(&store).await;
            assert!(matches!(error, StoreError::Transition { from, .. } if from == end), "{error}");
            assert_eq!(picture(&store, &id).await, before);
        }
        let error = draft(&id).created(TaskState::Working, 2).refused(&store).await;
        assert!(matches!(error, StoreError::Exists { .. }), "{error}");
        assert_eq!(picture(&store, &id).await, before);
    }
}

pub(crate) async fn a_task_is_created_once(store: Arc<Store>) {
    create("t", TaskState::Working, 0).chunk("a", "0").done(&store).await;
    let before = picture(&store, "t").await;
    let attempts = [
        create("t", TaskState::Submitted, 1),
        create("t", TaskState::Working, 0).chunk("a", "1"),
        draft("t").chunk("a", "1").created(TaskState::Working, 1),
    ];
    for attempt in attempts {
        let error = attempt.refused(&store).await;
        assert!(matches!(&error, StoreError::Exists { id } if id.as_str() == "t"), "{error}");
        assert_eq!(picture(&store, "t").await, before);
    }
    // Nor twice at once.
    let error = create("u", TaskState::Working, 0).created(TaskState::Working, 1).refused(&store).await;
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert!(is_gone(&store, "u").await);
}

pub(crate) async fn an_unknown_task_takes_nothing(store: Arc<Store>) {
    for round in 0..2 {
        let attempts = [
            draft("t").status(TaskState::Working, 1),
            draft("t").chunk("a", "1"),
            draft("t").artifact("a", "1").status(TaskState::Completed, 1),
            draft("t").chunk("a", "1").created(TaskState::Working, 1),
            draft("t").state("{}"),
        ];
        for attempt in attempts {
            let error = attempt.refused(&store).await;
            assert!(matches!(&error, StoreError::NotFound { id } if id.as_str() == "t"), "{error}");
            assert!(is_gone(&store, "t").await);
        }
        let read = store.read(&scope(), &TaskId::from("t"), 0, 10).await;
        assert!(matches!(read, Err(StoreError::NotFound { .. })));
        assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, round);
        // The second time there is something else in this scope.
        create("u", TaskState::Working, 0).commit(&store, &scope()).await.ok();
    }
}

pub(crate) async fn history_is_in_order(store: Arc<Store>) {
    let asking = |said: &str| TaskStatus {
        message: Some(Box::new(Message::agent(said))),
        ..status(TaskState::InputRequired, 1)
    };
    create("t", TaskState::Submitted, 0)
        .saying(TaskState::Working, 1, "starting")
        .full_status(asking("which?"), None, None)
        .done(&store)
        .await;
    // The question becomes history before the answer that supersedes it.
    let heard = Some(Message::user("this one"));
    draft("t").full_status(status(TaskState::Working, 2), None, heard).chunk("a", "0").done(&store).await;
    // An answer that comes with the next question: the question stays the status.
    let heard = Some(Message::user("and that one"));
    let asked = draft("t").full_status(asking("sure?"), None, heard).done(&store).await;
    let task = value(&asked.task);
    let said = ["begin t", "starting", "which?", "this one", "and that one"];
    assert_eq!(texts(&task.history), said);
    assert_eq!(texts(task.status.message.as_deref()), ["sure?"]);
    let heard = Some(Message::user("yes"));
    draft("t")
        .full_status(status(TaskState::Working, 4), None, heard)
        .saying(TaskState::Completed, 5, "done")
        .done(&store)
        .await;
    let task = value(&snapshot(&store, "t").await.task);
    assert_eq!(texts(&task.history), [&said[..], &["sure?", "yes"]].concat());
    assert_eq!(texts(task.status.message.as_deref()), ["done"]);
}

pub(crate) async fn events_are_kept_byte_for_byte(store: Arc<Store>) {
    let odd = r#"{"z":1.0,"a":[1e2,"\u00e9\n"],"z2":{}}"#;
    let metadata = JsonObject::parse(odd).unwrap();
    let mut task = Task::submitted("t".into(), "c".into(), Message::user("é\u{2028}\n\"\\"));
    task.status = status(TaskState::Working, 0);
    task.metadata = Some(metadata.clone());
    let data = chancery_protocol::Artifact::new("d", vec![Part::data(Json::parse(odd).unwrap())]);
    let raw = chancery_protocol::Artifact::new("r", vec![Part::raw(vec![0, 255, 10, 13])]);
    let batch = draft("t").task(task).full_artifact(data, false).full_artifact(raw, true).full_status(
        status(TaskState::InputRequired, 1),
        Some(metadata),
        None,
    );
    let wire: Vec<_> = batch.wire().iter().map(|wire| serde_json::to_string(wire).unwrap()).collect();
    batch.done(&store).await;
    let kept = read(&store, "t", 0, 10).await;
    let kept: Vec<_> = kept.iter().map(|event| std::str::from_utf8(&event.json).unwrap()).collect();
    assert_eq!(kept, wire);
    assert!(kept[1].contains(odd));
    assert_eq!(value(&snapshot(&store, "t").await.task).metadata.as_ref().unwrap().as_str(), odd);
}

pub(crate) async fn what_is_noted_about_a_status_is_kept_with_it(store: Arc<Store>) {
    let asked = create("t", TaskState::Working, 0).status(TaskState::InputRequired, 1).chunk("a", "0");
    let appended = asked.noted("cost", 7).done(&store).await;
    let noted: Vec<_> =
        appended.events.iter().map(|event| String::from_utf8_lossy(&event.json).contains("cost")).collect();
    assert_eq!(noted, [false, true, false]);
    assert_eq!(read(&store, "t", 0, 10).await, appended.events);
    assert!(value(&snapshot(&store, "t").await.task).metadata.is_some());

    create("u", TaskState::Completed, 5).noted("cost", 7).done(&store).await;
    assert!(value(&snapshot(&store, "u").await.task).metadata.is_some());
}

/// Nobody can have seen such a task in between, so only the task itself is kept.
pub(crate) async fn a_whole_life_in_one_batch_is_compacted_at_once(store: Arc<Store>) {
    let batch = create("t", TaskState::Submitted, 0).artifact("a", "0").status(TaskState::Completed, 1);
    let appended = batch.done(&store).await;
    assert!(appended.events.is_empty());
    assert_eq!(appended.number, 3);
    let read = store.read(&scope(), &"t".into(), 0, 10).await.unwrap();
    assert!(matches!(read, Read::Compacted), "{read:?}");
    let snapshot = snapshot(&store, "t").await;
    assert_eq!((snapshot.number, snapshot.task.state()), (3, TaskState::Completed));
    assert_eq!(value(&snapshot.task).artifacts.len(), 1);
    // One that has ended when it is first heard of is no different.
    let appended = create("u", TaskState::Failed, 2).done(&store).await;
    assert_eq!((appended.events.len(), appended.number, appended.task.is_over()), (0, 1, true));
    let read = store.read(&scope(), &"u".into(), 0, 10).await.unwrap();
    assert!(matches!(read, Read::Compacted), "{read:?}");
    create("u", TaskState::Working, 3).refused(&store).await;
}

/// Unless somebody waits to see how it came about.
pub(crate) async fn a_whole_life_that_is_watched_keeps_its_events(store: Arc<Store>) {
    let batch = create("t", TaskState::Submitted, 0).artifact("a", "0").status(TaskState::Completed, 1);
    let appended = batch.watched().done(&store).await;
    assert_eq!((appended.events.len(), appended.number, appended.task.is_over()), (3, 3, true));
    assert_eq!(read(&store, "t", 0, 10).await, appended.events);
    let found = snapshot(&store, "t").await;
    assert_eq!((found.number, found.task.state(), &found.task), (3, TaskState::Completed, &appended.task));
    assert_eq!(value(&found.task).artifacts.len(), 1);
    draft("t").status(TaskState::Working, 2).refused(&store).await;

    // What is told of it is what it would have become step by step.
    let life = |id: &str| {
        let begun = draft(id).context("other").created(TaskState::Submitted, 3).state("7");
        let chunks = (0..70).fold(begun, |draft, n| draft.chunk("a", &format!("chunk {n}")));
        chunks.artifact("b", "é").saying(TaskState::Completed, 4, "done")
    };
    life("u").watched().done(&store).await;
    life("v").done(&store).await;
    let (told, whole) = (snapshot(&store, "u").await, snapshot(&store, "v").await);
    let (of_events, of_fold) = (value(&told.task), value(&whole.task));
    assert_eq!((&of_events.artifacts, &of_events.context_id), (&of_fold.artifacts, &of_fold.context_id));
    assert_eq!(texts(of_events.status.message.as_deref()), ["done"]);
    assert_eq!((of_events.id.as_str(), texts(&of_events.history)), ("u", vec!["begin u".to_owned()]));
    assert_eq!((told.number, told.state), (whole.number, whole.state));
    let all = read(&store, "u", 0, 99).await;
    assert_eq!(all.len(), 73);
    assert_eq!(read(&store, "u", 66, 5).await, all[66..71]);
    let listed =
        store.list(&scope(), &ListQuery { context_id: Some("other".into()), ..query(9) }).await.unwrap();
    assert_eq!((ids(&listed), listed.total), (vec!["v".to_owned(), "u".to_owned()], 2));
    let error = life("u").watched().refused(&store).await;
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
}

pub(crate) async fn the_state_value_rides_with_the_batch(store: Arc<Store>) {
    let state = async || snapshot(&store, "t").await.state.map(|state| state.as_str().to_owned());
    create("t", TaskState::Working, 0).state(r#"{"n":1.0,"b":"\u00e9"}"#).done(&store).await;
    assert_eq!(state().await.as_deref(), Some(r#"{"n":1.0,"b":"\u00e9"}"#));
    // It survives batches that do not speak of it.
    draft("t").chunk("a", "0").status(TaskState::InputRequired, 1).done(&store).await;
    assert_eq!(state().await.as_deref(), Some(r#"{"n":1.0,"b":"\u00e9"}"#));
    draft("t").chunk("a", "1").state("[2]").done(&store).await;
    assert_eq!(state().await.as_deref(), Some("[2]"));
    // A batch that is refused takes it along.
    draft("t").status(TaskState::Submitted, 2).state("3").refused(&store).await;
    assert_eq!(state().await.as_deref(), Some("[2]"));
    // By itself it is no event.
    assert_eq!(draft("t").state("4").done(&store).await.events, []);
    assert_eq!(state().await.as_deref(), Some("4"));
    assert_eq!(snapshot(&store, "t").await.number, 4);
    draft("t").status(TaskState::Completed, 3).state("null").done(&store).await;
    assert_eq!(state().await.as_deref(), Some("null"));
    create("u", TaskState::Working, 0).done(&store).await;
    assert_eq!(snapshot(&store, "u").await.state, None);
}

fn chunk_text(event: &chancery_protocol::Event) -> Option<String> {
    match event.payload().unwrap() {
        StreamResponse::ArtifactUpdate(update) => update.artifact.parts[0].as_text().map(str::to_owned),
        _ => None,
    }
}
