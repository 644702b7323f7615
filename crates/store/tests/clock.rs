//! A store goes by its own clock, and by no other.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

use std::time::Duration;

use chancery_protocol::{
    ContextId, Message, Task, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, Timestamp,
};
use chancery_store::{Admission, Batch, Clock, Read, Retention, Scope, Store, StoreError, StoreLimits};

fn scope() -> Scope {
    Scope { realm: "realm".into(), owner: "owner".into(), agent: "agent".into() }
}

/// A store that keeps events for a second, and tasks and keys for a minute, and its clock.
fn store() -> (Store, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(0));
    let mut limits = StoreLimits::default();
    let minute = Duration::from_secs(60);
    limits.retention =
        Retention { events: Duration::from_secs(1), tasks: minute, admissions: minute, ..limits.retention };
    (Store::open_with("memory:", limits, clock.clone()).unwrap(), clock)
}

/// A task that begins and ends, with a key of its own. Each one that ends sweeps.
async fn end(store: &Store, id: &str) {
    let (task_id, context_id) = (TaskId::from(id), ContextId::from("c"));
    let mut batch = Batch::default();
    batch.create(Task::submitted(task_id.clone(), context_id.clone(), Message::user("go")));
    batch.admission = Some(Admission { key: id.to_owned(), digest: [0; 32] });
    store.append(&scope(), &task_id, batch).await.unwrap();
    let status = TaskStatus::at(store.now(), TaskState::Completed, None);
    let mut batch = Batch::default();
    let update = TaskStatusUpdateEvent { task_id: task_id.clone(), context_id, status, metadata: None };
    batch.status(update, None);
    store.append(&scope(), &task_id, batch).await.unwrap();
}

async fn is_whole(store: &Store, id: &str) -> bool {
    matches!(store.read(&scope(), &id.into(), 0, 10).await, Ok(Read::Events(_)))
}

#[tokio::test]
async fn what_is_kept_grows_old_by_the_clock_of_the_store() {
    let (store, clock) = store();
    end(&store, "a").await;
    end(&store, "b").await;
    assert!(is_whole(&store, "a").await);
    clock.advance(Duration::from_secs(1));
    end(&store, "c").await;
    assert!(!is_whole(&store, "a").await);
    assert!(is_whole(&store, "c").await);
    clock.advance(Duration::from_secs(59));
    end(&store, "d").await;
    let gone = store.snapshot(&scope(), &"a".into()).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    assert!(store.snapshot(&scope(), &"c".into()).await.is_ok());
    let key = |id: &str| Admission { key: id.to_owned(), digest: [0; 32] };
    assert_eq!(store.admitted(&scope(), &key("a")).await.unwrap(), None);
    let used = store.admitted(&scope(), &key("c")).await.unwrap();
    assert_eq!(used.map(|used| used.task), Some("c".into()));
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_nothing_young_again() {
    let (store, clock) = store();
    let before = store.now();
    clock.advance(Duration::from_secs(3_600));
    let then = store.now();
    clock.set(before);
    let times: Vec<_> = std::iter::once(then).chain((0..100).map(|_| store.now())).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    // An older store was further on: so is this one from now on.
    let newest = Timestamp::from_millis(1 << 42);
    store.clock().seed(newest);
    assert!(store.now() > newest);
}
