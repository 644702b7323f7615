//! A deliverer that ends, and another that goes on from the store.

use std::time::Duration;

use chancery_sdk::push::{Deliverer, PushLimits};

use crate::receiver::*;

#[tokio::test]
async fn another_goes_on_where_the_first_was_cut_off() {
    let script = [Say::Status(204), Say::Status(204), Say::Nothing];
    let mut receiver = Receiver::start(script).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 4).await;
    let first = Deliverer::spawn(store.clone(), egress(), patient());
    assert_eq!(receiver.texts(3).await, ["TASK_STATE_WORKING", "0", "1"]);
    // No time for the one that is on its way.
    first.stop(Duration::ZERO).await;
    chunk(&store, "t", "meanwhile").await;
    let second = Deliverer::spawn(store.clone(), egress(), patient());
    // Only that one is repeated.
    assert_eq!(receiver.texts(4).await, ["1", "2", "3", "meanwhile"]);
    settled(&store).await;
    assert!(receiver.is_silent());
    second.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_graceful_stop_repeats_nothing_and_begins_nothing() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 100).await;
    let mut seen = Vec::new();
    while seen.len() < 101 {
        let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
        seen.extend(receiver.texts(1).await);
        deliverer.stop(Duration::from_secs(60)).await;
        while let Some(text) = receiver.arrived() {
            seen.push(text);
        }
        // Stopped is stopped.
        deliverer.wake();
        deliverer.stop(Duration::from_secs(60)).await;
    }
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(seen[1..], expected);
    settled(&store).await;
}

#[tokio::test]
async fn the_count_of_failures_outlives_the_deliverer() {
    let (store, _) = store();
    let dead = Dead::new();
    begin(&store, "t", config("x", dead.url("")), 1).await;
    let first = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    let next = postponed(&store).await;
    first.stop(Duration::from_secs(60)).await;
    let delivery = store.deliveries(None, next, 1).await.unwrap().remove(0);
    assert_eq!((delivery.attempts, delivery.cursor), (1, 0));
    // The next one does not ask before it is time.
    let second = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    second.wake();
    second.stop(Duration::from_secs(60)).await;
    let delivery = store.deliveries(None, next, 1).await.unwrap().remove(0);
    assert_eq!(delivery.attempts, 1);
}

#[tokio::test]
async fn the_last_clone_that_is_dropped_stops_it() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    let clone = deliverer.clone();
    drop(deliverer);
    begin(&store, "t", config("x", receiver.url("")), 0).await;
    clone.wake();
    assert_eq!(receiver.texts(1).await, ["TASK_STATE_WORKING"]);
    settled(&store).await;
    drop(clone);
    // Its task lets go of the store.
    while std::sync::Arc::strong_count(&store) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    chunk(&store, "t", "late").await;
    assert!(receiver.is_silent());
}
