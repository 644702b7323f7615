//! What is kept of tasks that have ended, and of those that have not.

use std::time::Duration;

use chancery_protocol::{TaskId, TaskState, TaskStatus};
use chancery_store::{ListQuery, Retention, Scope, Store, StoreError, StoreLimits};

use crate::support::*;

/// Events for a second, tasks for a minute.
fn short(max_tasks: usize) -> StoreLimits {
    limits(|limits| {
        let (events, tasks) = (Duration::from_secs(1), Duration::from_secs(60));
        limits.retention = Retention { events, tasks, max_tasks, ..limits.retention };
    })
}

/// Makes a task that ends at a time.
async fn ended(store: &Store, id: &str, millis: i64) {
    create(id, TaskState::Working, 0).chunk("a", "0").state(r#"{"n":1.0}"#).done(store).await;
    draft(id).saying(TaskState::Completed, millis, "done").done(store).await;
}

pub(crate) async fn events_are_compacted_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(100));
    ended(&store, "t", 0).await;
    ended(&store, "u", 500).await;
    let before = snapshot(&store, "t").await;
    store.sweep(at(999)).await;
    assert_eq!(numbers(&read(&store, "t", 0, 10).await), [1, 2, 3]);

    store.sweep(at(1_000)).await;
    assert!(is_compacted(&store, "t", 0).await);
    assert!(is_compacted(&store, "t", 2).await);
    // Who has seen all has missed nothing.
    assert_eq!(read(&store, "t", 3, 10).await, []);
    let after = snapshot(&store, "t").await;
    assert_eq!((&after.task, after.number, &after.state), (&before.task, 3, &before.state));
    assert_eq!(after.state.unwrap().as_str(), r#"{"n":1.0}"#);
    assert_eq!(value(&after.task).artifacts.len(), 1);
    assert_eq!(ids(&store.list(&scope(), &query(10)).await.unwrap()), ["u", "t"]);
    // It has still ended, and still exists.
    let error = draft("t").chunk("a", "1").refused(&store).await;
    assert!(matches!(error, StoreError::Transition { .. }), "{error}");
    let error = create("t", TaskState::Working, 2_000).refused(&store).await;
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    // The other one has its events for half a second more.
    assert_eq!(read(&store, "u", 0, 10).await.len(), 3);
    store.sweep(at(1_500)).await;
    assert!(is_compacted(&store, "u", 0).await);
}

pub(crate) async fn a_task_outlives_the_events_that_tell_it(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(100));
    for id in ["t", "u"] {
        let life = create(id, TaskState::Working, 0).chunk("a", "0").chunk("a", "1").state("1");
        life.status(TaskState::Completed, 0).watched().done(&store).await;
    }
    // One that somebody has asked for before, and one that nobody has.
    let before = snapshot(&store, "t").await;
    store.sweep(at(1_000)).await;
    for id in ["t", "u"] {
        assert!(is_compacted(&store, id, 0).await);
        let after = snapshot(&store, id).await;
        assert_eq!((after.number, &after.state), (4, &before.state));
        assert_eq!(value(&after.task).artifacts, value(&before.task).artifacts);
    }
    assert_eq!(snapshot(&store, "t").await.task, before.task);
    store.sweep(at(60_000)).await;
    assert!(is_gone(&store, "t").await && is_gone(&store, "u").await);
}

pub(crate) async fn tasks_are_forgotten_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(100));
    ended(&store, "t", 0).await;
    ended(&store, "u", 500).await;
    store.sweep(at(59_999)).await;
    assert!(!is_gone(&store, "t").await);

    store.sweep(at(60_000)).await;
    assert!(is_gone(&store, "t").await);
    assert!(!is_gone(&store, "u").await);
    let read = store.read(&scope(), &TaskId::from("t"), 0, 10).await;
    assert!(matches!(read, Err(StoreError::NotFound { .. })), "{read:?}");
    for attempt in [draft("t").chunk("a", "1"), draft("t").status(TaskState::Working, 1)] {
        let error = attempt.refused(&store).await;
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    }
    let page = store.list(&scope(), &query(10)).await.unwrap();
    assert_eq!((ids(&page), page.total), (vec!["u".to_owned()], 1));
    let completed = ListQuery { state: Some(TaskState::Completed), ..query(10) };
    assert_eq!(store.list(&scope(), &completed).await.unwrap().total, 1);

    store.sweep(at(60_500)).await;
    assert!(is_gone(&store, "u").await);
    assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, 0);
    // The scope is as good as new.
    ended(&store, "t", 61_000).await;
    assert_eq!(snapshot(&store, "t").await.number, 3);
}

pub(crate) async fn one_sweep_does_it_all(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(1_000));
    let names: Vec<_> = (0..100).map(|n| format!("t{n:03}")).collect();
    for (n, id) in (0..).zip(&names) {
        ended(&store, id, n).await;
    }
    store.sweep(at(1_049)).await;
    for (n, id) in names.iter().enumerate() {
        assert_eq!(is_compacted(&store, id, 0).await, n < 50, "{id}");
    }
    store.sweep(at(60_074)).await;
    for (n, id) in names.iter().enumerate() {
        assert_eq!(is_gone(&store, id).await, n < 75, "{id}");
    }
    store.sweep(at(1_000_000)).await;
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, 0);
}

pub(crate) async fn the_cap_forgets_the_oldest(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(10));
    create("active", TaskState::Working, 0).done(&store).await;
    // Begun in one order, ended in another.
    for n in (0..40).rev() {
        create(&format!("t{n:02}"), TaskState::Working, 0).done(&store).await;
    }
    for n in 0..40 {
        draft(&format!("t{n:02}")).status(TaskState::Failed, n).done(&store).await;
    }
    store.sweep(at(100)).await;
    for n in 0..40 {
        let id = format!("t{n:02}");
        assert_eq!(is_gone(&store, &id).await, n < 30, "{id}");
    }
    assert!(!is_gone(&store, "active").await);
    assert_eq!(store.list(&scope(), &query(100)).await.unwrap().total, 11);
    assert_eq!(read(&store, "t39", 0, 10).await.len(), 2);

    // Those without events count as well, and go first.
    store.sweep(at(1_034)).await;
    assert!(is_compacted(&store, "t34", 0).await);
    for n in 40..42 {
        ended(&store, &format!("t{n:02}"), 1_000 + n).await;
    }
    store.sweep(at(1_050)).await;
    let page =
        store.list(&scope(), &ListQuery { state: Some(TaskState::Failed), ..query(100) }).await.unwrap();
    assert_eq!(ids(&page), ["t39", "t38", "t37", "t36", "t35", "t34", "t33", "t32"]);
}

/// Some end where they began, some later, among some that go on: what counts is when they ended.
pub(crate) async fn the_cap_forgets_in_order_of_the_end(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(300));
    for n in 0..1_200 {
        match n % 3 {
            0 => drop(
                create(&name(n), TaskState::Working, n).status(TaskState::Completed, n).done(&store).await,
            ),
            1 => drop(create(&name(n), TaskState::Working, n).done(&store).await),
            _ if n > 301 => drop(draft(&name(n - 301)).status(TaskState::Failed, n).done(&store).await),
            _ => {}
        }
    }
    store.sweep(at(0)).await;
    for n in (0..1_200).filter(|n| n % 3 < 2) {
        let ended = if n % 3 == 0 { n } else { n + 301 };
        assert_eq!(is_gone(&store, &name(n)).await, ended < 750, "{n}");
    }
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, 400);
}

fn name(n: i64) -> String {
    format!("t{n:04}")
}

pub(crate) async fn active_tasks_stay(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| {
        let none = Duration::ZERO;
        limits.retention = Retention { events: none, tasks: none, max_tasks: 0, ..limits.retention };
    }));
    let mut active = Vec::new();
    for state in ACTIVE {
        for n in 0..8 {
            let id = format!("{state:?}{n}");
            create(&id, TaskState::Submitted, 0).chunk("a", "0").done(&store).await;
            if state != TaskState::Submitted {
                draft(&id).status(state, n).done(&store).await;
            }
            active.push(id);
        }
    }
    for n in 0..20 {
        ended(&store, &format!("ended{n}"), n).await;
    }
    store.sweep(at(1 << 40)).await;
    for n in 0..20 {
        assert!(is_gone(&store, &format!("ended{n}")).await);
    }
    for id in &active {
        let found = snapshot(&store, id).await;
        assert_eq!(read(&store, id, 0, 10).await.len() as u64, found.number, "{id}");
        assert!(found.number >= 2);
    }
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, active.len());
    // They go on, and go when they have ended.
    draft(&active[9]).chunk("a", "1").status(TaskState::InputRequired, 100).done(&store).await;
    store.sweep(at(1 << 40)).await;
    assert_eq!(numbers(&read(&store, &active[9], 0, 10).await), [1, 2, 3, 4, 5]);
    draft(&active[9]).status(TaskState::Canceled, 101).done(&store).await;
    store.sweep(at(1 << 40)).await;
    assert!(is_gone(&store, &active[9]).await);
}

/// A status need not carry a time. A task that ends with such a one has just ended, rather than in 1970.
pub(crate) async fn an_end_without_a_time_is_an_end_now(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(100));
    create("t", TaskState::Working, 0).done(&store).await;
    let before = store.now();
    let end = TaskStatus { state: TaskState::Completed, message: None, timestamp: None };
    draft("t").full_status(end, None, None).done(&store).await;
    store.sweep(before).await;
    assert_eq!(read(&store, "t", 0, 10).await.len(), 2);
    store.sweep(at(1 << 40)).await;
    assert!(is_gone(&store, "t").await);
}

/// A task that ends at a time, of somebody.
async fn ended_of(store: &Store, scope: &Scope, id: &str, millis: i64) {
    create(id, TaskState::Working, millis).done_in(store, scope).await;
    draft(id).status(TaskState::Completed, millis).done_in(store, scope).await;
}

async fn ended_at_once_of(store: &Store, scope: &Scope, id: &str, millis: i64) {
    create(id, TaskState::Working, millis).status(TaskState::Completed, millis).done_in(store, scope).await;
}

async fn total(store: &Store, scope: &Scope) -> usize {
    store.list(scope, &query(1)).await.unwrap().total
}

pub(crate) async fn one_owner_does_not_push_out_anothers(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(20));
    let (little, much) = (scope_of("realm", "little", "a"), scope_of("realm", "much", "a"));
    let elsewhere = scope_of("realm", "much", "b");
    // The oldest of all are not of whoever has most.
    for n in 0..2 {
        ended_of(&store, &little, &format!("l{n}"), n).await;
        ended_at_once_of(&store, &little, &format!("m{n}"), n).await;
    }
    for n in 10..40 {
        ended_of(&store, &much, &format!("t{n}"), n).await;
        ended_at_once_of(&store, &elsewhere, &format!("u{n}"), n).await;
    }
    store.sweep(at(100)).await;
    assert_eq!(total(&store, &little).await, 4);
    assert_eq!(total(&store, &much).await + total(&store, &elsewhere).await, 16);
    assert_eq!(ids(&store.list(&much, &query(9)).await.unwrap())[0], "t39", "the newest stay");
    assert_eq!(ids(&store.list(&elsewhere, &query(9)).await.unwrap())[0], "u39");
}

pub(crate) async fn an_owner_has_only_so_many(open: impl Fn(StoreLimits) -> Store) {
    let limits = limits(|limits| limits.retention.max_tasks_per_owner = 5);
    let store = open(limits);
    let (ann, bob) = (scope_of("realm", "ann", "a"), scope_of("realm", "bob", "a"));
    for n in 0..12 {
        ended_of(&store, &ann, &format!("t{n:02}"), n).await;
    }
    for n in 0..3 {
        ended_of(&store, &bob, &format!("t{n:02}"), n).await;
    }
    store.sweep(at(100)).await;
    assert_eq!(ids(&store.list(&ann, &query(9)).await.unwrap()), ["t11", "t10", "t09", "t08", "t07"]);
    assert_eq!(total(&store, &bob).await, 3);
}
