//! Receivers beside each other: one that is dead, one that is slow, and one that must not notice.

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::push::{Deliverer, PushLimits};
use tokio::sync::Notify;

use crate::receiver::*;

#[tokio::test]
async fn the_living_do_not_wait_for_the_dead_and_the_slow() {
    let slow = Receiver::start(std::iter::repeat_n(Say::Nothing, 10_000)).await;
    let mut live = Receiver::start([]).await;
    let dead = Dead::new();
    let (store, clock) = store();
    // More of each than there are slots, and all of them first.
    for n in 0..200 {
        begin(&store, &format!("slow{n}"), config("x", slow.url("")), 2).await;
        begin(&store, &format!("dead{n}"), config("x", dead.url("")), 2).await;
    }
    begin(&store, "live", config("x", live.url("")), 20).await;
    // The slow ones are never given up by time, so nothing of this is owed to a timeout.
    let deliverer = Deliverer::spawn(store.clone(), egress(), patient());
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(live.texts(21).await[1..], expected);
    // Also while the dead are tried again.
    for n in 0..10 {
        clock.advance(Duration::from_secs(20));
        chunk(&store, "live", &n.to_string()).await;
        deliverer.wake();
        assert_eq!(live.texts(1).await, [n.to_string()]);
    }
    assert!(live.is_silent());
    // The slow ones were let in a few at a time.
    let mut slow = slow;
    for _ in 0..PushLimits::default().requests_per_host {
        slow.next().await;
    }
    assert!(slow.is_silent());
}

#[tokio::test]
async fn a_task_with_two_receivers_does_not_hold_one_for_the_other() {
    let slow = Receiver::start([Say::Nothing]).await;
    let mut live = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("slow", slow.url("")), 0).await;
    store.put_push_config(&scope(), &"t".into(), config("live", live.url(""))).await.unwrap();
    let deliverer = Deliverer::spawn(store.clone(), egress(), patient());
    for n in 0..50 {
        chunk(&store, "t", &n.to_string()).await;
        deliverer.wake();
    }
    let expected: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    assert_eq!(live.texts(50).await, expected);
}

#[tokio::test]
async fn what_does_not_fit_into_memory_is_delivered_all_the_same() {
    let mut receiver = Receiver::start([]).await;
    let (store, clock) = store();
    for n in 0..100 {
        begin(&store, &format!("t{n}"), config("x", receiver.url(&format!("{n}"))), 0).await;
    }
    let limits = PushLimits { waiting: 32, requests: 2, requests_per_host: 1, ..PushLimits::default() };
    let deliverer = Deliverer::spawn(store.clone(), egress(), limits);
    let mut paths = std::collections::BTreeSet::new();
    while paths.len() < 100 {
        tokio::select! {
            got = receiver.next() => { paths.insert(got.path); }
            next = postponed(&store) => { clock.set(next); deliverer.wake(); }
        }
    }
    settled(&store).await;
    assert!(receiver.is_silent());
}

#[tokio::test]
async fn what_is_deleted_while_it_waits_for_its_turn_gets_nothing() {
    let answer = Arc::new(Notify::new());
    let mut receiver = Receiver::start([Say::When(answer.clone())]).await;
    let (store, _) = store();
    begin(&store, "first", config("x", receiver.url("first")), 0).await;
    begin(&store, "deleted", config("x", receiver.url("deleted")), 2).await;
    begin(&store, "replaced", config("x", receiver.url("replaced")), 0).await;
    begin(&store, "last", config("x", receiver.url("last")), 0).await;
    let limits = PushLimits { requests_per_host: 1, ..patient() };
    let _deliverer = Deliverer::spawn(store.clone(), egress(), limits);
    assert_eq!(receiver.next().await.path, "/first");
    store.delete_push_config(&scope(), &"deleted".into(), &"x".into()).await.unwrap();
    let other = config("x", receiver.url("other"));
    store.put_push_config(&scope(), &"replaced".into(), other).await.unwrap();
    answer.notify_one();
    let paths = [receiver.next().await.path, receiver.next().await.path];
    assert_eq!(paths, ["/last", "/other"]);
    settled(&store).await;
    assert!(receiver.is_silent());
}
