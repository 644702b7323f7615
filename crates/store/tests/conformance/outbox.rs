//! What is still to be delivered, and that nothing is lost on the way.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{TaskId, TaskState, Timestamp, Version};
use chancery_store::{Delivery, OutboxPlace, Registration, Retention, Store, StoreLimits};

use crate::support::*;

/// What is due: task, configuration, cursor and attempts.
async fn due(store: &Store) -> Vec<(String, String, u64, u32)> {
    deliveries(store).await.iter().map(described).collect()
}

async fn deliveries(store: &Store) -> Vec<Delivery> {
    store.deliveries(None, store.now(), 1_000).await.unwrap()
}

fn described(delivery: &Delivery) -> (String, String, u64, u32) {
    let config = delivery.config.id.as_ref().unwrap().to_string();
    (delivery.task.to_string(), config, delivery.cursor, delivery.attempts)
}

fn row(task: &str, config: &str, cursor: u64, attempts: u32) -> (String, String, u64, u32) {
    (task.to_owned(), config.to_owned(), cursor, attempts)
}

async fn put(store: &Store, task: &str, config: &str) {
    store.put_push_config(&scope(), &TaskId::from(task), push_config(config)).await.unwrap();
}

async fn only(store: &Store) -> Delivery {
    let mut all = deliveries(store).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros() + seconds * 1_000_000)
}

pub(crate) async fn a_delivery_knows_the_version_it_was_registered_in(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).push("new").done(&store).await;
    let old = Registration { config: push_config("old"), version: Version::V0_3 };
    store.put_push_config(&scope(), &"t".into(), old).await.unwrap();
    draft("t").chunk("a", "0").done(&store).await;
    let versions = || async {
        let described =
            |delivery: &Delivery| (delivery.config.id.clone().unwrap().to_string(), delivery.version);
        deliveries(&store).await.iter().map(described).collect::<Vec<_>>()
    };
    assert_eq!(versions().await, [("new".to_owned(), Version::V1_0), ("old".to_owned(), Version::V0_3)]);
    // Who registers again may have learnt another.
    put(&store, "t", "old").await;
    assert!(versions().await.contains(&("old".to_owned(), Version::V1_0)));
}

pub(crate) async fn a_put_gets_what_comes_later(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    let appended = create("t", TaskState::Working, 0).chunk("a", "0").done(&store).await;
    assert!(!appended.push);
    put(&store, "t", "x").await;
    assert_eq!(due(&store).await, []);
    assert!(draft("t").chunk("a", "1").done(&store).await.push);
    assert_eq!(due(&store).await, [row("t", "x", 2, 0)]);
    put(&store, "t", "y").await;
    assert!(draft("t").status(TaskState::InputRequired, 1).done(&store).await.push);
    assert_eq!(due(&store).await, [row("t", "x", 2, 0), row("t", "y", 3, 0)]);
    // A task without any has nothing to deliver, whatever others have.
    create("u", TaskState::Working, 0).done(&store).await;
    assert!(!draft("u").chunk("a", "0").done(&store).await.push);
    assert_eq!(due(&store).await.len(), 2);
    // One that is put after the end gets nothing.
    draft("u").status(TaskState::Completed, 1).done(&store).await;
    put(&store, "u", "x").await;
    assert_eq!(due(&store).await.len(), 2);
}

pub(crate) async fn one_that_rides_in_a_batch_gets_all_of_it(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    assert!(create("t", TaskState::Submitted, 0).chunk("a", "0").push("x").done(&store).await.push);
    draft("t").status(TaskState::InputRequired, 1).done(&store).await;
    draft("t").status(TaskState::Working, 2).chunk("a", "1").push("y").done(&store).await;
    // A batch of chunks alone, and one of nothing.
    draft("t").chunk("a", "2").push("z").done(&store).await;
    assert!(draft("t").push("none").done(&store).await.push);
    assert_eq!(due(&store).await, [row("t", "x", 0, 0), row("t", "y", 3, 0), row("t", "z", 5, 0)]);
    assert_eq!(numbers(&read(&store, "t", 3, 10).await), [4, 5, 6]);
}

pub(crate) async fn a_refused_batch_registers_nothing(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).key("k", 1).done(&store).await;
    for batch in [
        draft("t").status(TaskState::Submitted, 1),
        draft("t").chunk("a", "0").key("k", 1),
        create("t", TaskState::Working, 1),
        draft("u").chunk("a", "0"),
        create("u", TaskState::Working, 1).key("k", 2),
    ] {
        batch.push("x").refused(&store).await;
        assert_eq!(due(&store).await, []);
        assert!(store.push_configs(&scope(), &"t".into()).await.unwrap().is_empty());
    }
    assert!(is_gone(&store, "u").await);
}

pub(crate) async fn a_whole_life_keeps_its_events_for_the_receiver(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    let batch = create("t", TaskState::Submitted, 0).artifact("a", "0").status(TaskState::Completed, 1);
    let appended = batch.push("x").done(&store).await;
    assert_eq!((numbers(&appended.events), appended.push), (vec![1, 2, 3], true));
    assert_eq!(read(&store, "t", 0, 10).await, appended.events);
    assert_eq!(due(&store).await, [row("t", "x", 0, 0)]);
}

pub(crate) async fn outcomes_move_the_cursor(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).chunk("a", "0").chunk("a", "1").push("x").done(&store).await;
    let mut delivery = only(&store).await;
    assert!(store.delivered(&delivery, 1).await.unwrap());
    assert_eq!(due(&store).await, [row("t", "x", 1, 0)]);
    delivery.cursor = 1;
    assert!(store.postpone(&delivery, 3, store.now()).await.unwrap());
    assert_eq!(due(&store).await, [row("t", "x", 1, 3)]);
    // Success clears the attempts, and so does giving up: the next event has all of them before it.
    assert!(store.delivered(&delivery, 2).await.unwrap());
    assert_eq!(due(&store).await, [row("t", "x", 2, 0)]);
    delivery.cursor = 2;
    assert!(store.postpone(&delivery, 7, store.now()).await.unwrap());
    assert!(store.give_up(&delivery, 3).await.unwrap());
    assert_eq!(due(&store).await, []);
    assert!(draft("t").status(TaskState::Completed, 1).done(&store).await.push);
    assert_eq!(due(&store).await, [row("t", "x", 3, 0)]);
    // Never beyond the task.
    assert!(store.delivered(&only(&store).await, 1_000).await.unwrap());
    assert_eq!(due(&store).await, []);
}

pub(crate) async fn what_is_postponed_comes_back_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).push("x").done(&store).await;
    create("u", TaskState::Working, 0).push("y").done(&store).await;
    let now = store.now();
    assert_eq!(store.next_delivery_at(now).await.unwrap(), None);
    let first = deliveries(&store).await.remove(0);
    assert!(store.postpone(&first, 1, later(now, 10)).await.unwrap());
    assert_eq!(due(&store).await, [row("u", "y", 0, 0)]);
    assert_eq!(store.next_delivery_at(now).await.unwrap(), Some(later(now, 10)));
    // More events do not make it come sooner.
    draft("t").chunk("a", "0").done(&store).await;
    assert_eq!(due(&store).await, [row("u", "y", 0, 0)]);
    let then = store.deliveries(None, later(now, 10), 10).await.unwrap();
    let then: Vec<_> = then.iter().map(described).collect();
    assert_eq!(then, [row("u", "y", 0, 0), row("t", "x", 0, 1)]);
    assert_eq!(store.next_delivery_at(later(now, 10)).await.unwrap(), None);
    let second = only(&store).await;
    assert!(store.postpone(&second, 1, later(now, 5)).await.unwrap());
    assert_eq!(store.next_delivery_at(now).await.unwrap(), Some(later(now, 5)));
}

pub(crate) async fn places_are_in_order_and_pages_join(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    for n in 0..10 {
        create(&format!("t{n}"), TaskState::Working, 0).push("x").done(&store).await;
        put(&store, &format!("t{n}"), "y").await;
        draft(&format!("t{n}")).chunk("a", "0").done(&store).await;
    }
    let all = deliveries(&store).await;
    assert_eq!(all.len(), 20);
    assert!(all.is_sorted_by(|a, b| a.place < b.place));
    let mut joined = Vec::new();
    let mut after = None;
    loop {
        let page = store.deliveries(after, store.now(), 3).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after = Some(last.place);
        joined.extend(page.iter().map(described));
    }
    assert_eq!(joined, all.iter().map(described).collect::<Vec<_>>());
}

pub(crate) async fn what_is_new_comes_after_what_was_seen(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).push("x").done(&store).await;
    let mut seen: Option<OutboxPlace> = None;
    for n in 0..20_u64 {
        let fresh = store.deliveries(seen, store.now(), 10).await.unwrap();
        assert_eq!(fresh.iter().map(described).collect::<Vec<_>>(), [row("t", "x", n, 0)]);
        seen = Some(fresh[0].place);
        // Asked for in the past, which is now.
        assert!(store.postpone(&fresh[0], 1, Timestamp::from_millis(0)).await.unwrap());
        let again = store.deliveries(seen, store.now(), 10).await.unwrap();
        assert_eq!(again.iter().map(described).collect::<Vec<_>>(), [row("t", "x", n, 1)]);
        seen = Some(again[0].place);
        assert!(store.delivered(&again[0], n + 1).await.unwrap());
        assert!(store.deliveries(seen, store.now(), 10).await.unwrap().is_empty());
        draft("t").chunk("a", "0").done(&store).await;
    }
}

pub(crate) async fn an_overtaken_outcome_changes_nothing(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).chunk("a", "0").push("x").done(&store).await;
    let stale = only(&store).await;
    assert!(store.delivered(&stale, 1).await.unwrap());
    let nothing_changes = async |expected| {
        assert!(!store.delivered(&stale, 2).await.unwrap());
        assert!(!store.give_up(&stale, 2).await.unwrap());
        assert!(!store.postpone(&stale, 9, later(store.now(), 1_000)).await.unwrap());
        assert_eq!(due(&store).await, expected);
    };
    nothing_changes(vec![row("t", "x", 1, 0)]).await;
    // Another receiver under the same id, at the same cursor.
    store.delete_push_config(&scope(), &"t".into(), &"x".into()).await.unwrap();
    nothing_changes(vec![]).await;
    let stale = Delivery { cursor: 2, ..stale.clone() };
    let mut other = push_config("x");
    other.token = "another".to_owned();
    store.put_push_config(&scope(), &"t".into(), other).await.unwrap();
    draft("t").chunk("a", "1").done(&store).await;
    assert!(!store.delivered(&stale, 3).await.unwrap());
    assert!(!store.postpone(&stale, 9, later(store.now(), 1_000)).await.unwrap());
    assert!(!store.give_up(&stale, 3).await.unwrap());
    assert_eq!(due(&store).await, [row("t", "x", 2, 0)]);
    // Nor does one of a task that is not there.
    let nowhere = Delivery { task: "u".into(), ..stale };
    assert!(!store.delivered(&nowhere, 3).await.unwrap());
}

pub(crate) async fn a_replaced_configuration_keeps_its_place_in_the_journal(
    open: impl Fn(StoreLimits) -> Store,
) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).chunk("a", "0").chunk("a", "1").push("x").done(&store).await;
    let mut delivery = only(&store).await;
    store.delivered(&delivery, 1).await.unwrap();
    delivery.cursor = 1;
    store.postpone(&delivery, 5, later(store.now(), 1_000)).await.unwrap();
    assert_eq!(due(&store).await, []);
    let mut moved = push_config("x");
    moved.url = "https://moved.example/".to_owned();
    store.put_push_config(&scope(), &"t".into(), moved.clone()).await.unwrap();
    // It is tried at once, and gets what its predecessor did not.
    assert_eq!(due(&store).await, [row("t", "x", 1, 0)]);
    assert_eq!(*only(&store).await.config, moved);
    store.delivered(&only(&store).await, 3).await.unwrap();
    draft("t").chunk("a", "2").push("x").done(&store).await;
    assert_eq!(due(&store).await, [row("t", "x", 3, 0)]);
    assert_eq!(*only(&store).await.config, push_config("x"));
}

pub(crate) async fn what_is_pending_is_neither_compacted_nor_forgotten(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| {
        let none = Duration::ZERO;
        limits.retention = Retention { events: none, tasks: none, max_tasks: 0, ..limits.retention };
    }));
    create("t", TaskState::Working, 0).push("x").done(&store).await;
    put(&store, "t", "y").await;
    draft("t").status(TaskState::Completed, 0).done(&store).await;
    let whole = create("w", TaskState::Working, 0).status(TaskState::Completed, 0).push("x");
    whole.done(&store).await;
    let far = at(1 << 40);
    store.sweep(far).await;
    assert_eq!(numbers(&read(&store, "t", 0, 10).await), [1, 2]);
    assert_eq!(numbers(&read(&store, "w", 0, 10).await), [1, 2]);
    for delivery in deliveries(&store).await {
        if delivery.config.id.as_ref().unwrap().as_str() == "x" {
            assert!(store.delivered(&delivery, 2).await.unwrap());
        }
    }
    store.sweep(far).await;
    assert!(is_gone(&store, "w").await);
    assert_eq!(due(&store).await, [row("t", "y", 1, 0)]);
    assert_eq!(numbers(&read(&store, "t", 1, 10).await), [2]);
    let last = only(&store).await;
    store.postpone(&last, 1, later(store.now(), 1_000)).await.unwrap();
    store.sweep(far).await;
    assert!(!is_gone(&store, "t").await);
    assert!(store.give_up(&last, 2).await.unwrap());
    store.sweep(far).await;
    assert!(is_gone(&store, "t").await);
    assert_eq!(store.next_delivery_at(store.now()).await.unwrap(), None);
}

pub(crate) async fn what_is_deleted_holds_nothing_back(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| {
        let none = Duration::ZERO;
        limits.retention = Retention { events: none, tasks: none, max_tasks: 0, ..limits.retention };
    }));
    create("t", TaskState::Working, 0).push("x").done(&store).await;
    draft("t").status(TaskState::Completed, 0).done(&store).await;
    store.sweep(at(1 << 40)).await;
    assert!(!is_gone(&store, "t").await);
    store.delete_push_config(&scope(), &"t".into(), &"x".into()).await.unwrap();
    assert_eq!(due(&store).await, []);
    store.sweep(at(1 << 40)).await;
    assert!(is_gone(&store, "t").await);
    // An active task is not touched by any of it.
    create("u", TaskState::Working, 0).push("x").done(&store).await;
    store.delete_push_config(&scope(), &"u".into(), &"x".into()).await.unwrap();
    store.sweep(at(1 << 40)).await;
    assert_eq!(numbers(&read(&store, "u", 0, 10).await), [1]);
}

/// Writers append while one goes through the outbox as a deliverer does: always onwards from what it has seen.
pub(crate) async fn no_event_is_lost_among_threads(open: impl Fn(StoreLimits) -> Store) {
    const WRITERS: usize = 4;
    const CHUNKS: u64 = 50;
    let store = Arc::new(open(StoreLimits::default()));
    for writer in 0..WRITERS {
        create(&format!("t{writer}"), TaskState::Working, 0).push("x").done(&store).await;
    }
    let totals = on_threads(WRITERS + 1, |thread| {
        let store = store.clone();
        async move {
            if thread < WRITERS {
                for n in 0..CHUNKS {
                    draft(&format!("t{thread}")).chunk("a", &n.to_string()).done(&store).await;
                }
                return 0;
            }
            let (mut seen, mut total) = (None, 0);
            while total < WRITERS as u64 * (CHUNKS + 1) {
                for delivery in store.deliveries(seen, store.now(), 10).await.unwrap() {
                    seen = Some(delivery.place);
                    let events = read(&store, delivery.task.as_str(), delivery.cursor, 7).await;
                    let last = events.last().unwrap().number;
                    assert_eq!(events[0].number, delivery.cursor + 1);
                    assert!(store.delivered(&delivery, last).await.unwrap());
                    total += events.len() as u64;
                }
                tokio::task::yield_now().await;
            }
            total
        }
    })
    .await;
    assert_eq!(totals[WRITERS], WRITERS as u64 * (CHUNKS + 1));
    assert_eq!(due(&store).await, []);
}
