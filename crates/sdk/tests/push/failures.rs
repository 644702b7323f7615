//! Receivers that fail, and come back or do not.

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::Timestamp;
use chancery_sdk::push::{Deliverer, PushLimits};
use chancery_sdk::store::{Clock, Store};
use tokio::sync::Notify;

use crate::receiver::*;

/// Milliseconds.
const SLACK: i64 = 100;

/// Lets the time come that the next attempt was postponed to, and says how long that was in milliseconds. The clock
/// moves a little each time it is looked at, so that is not exact.
async fn come_to(store: &Store, clock: &Clock, deliverer: &Deliverer) -> i64 {
    let before = store.now();
    let next = postponed(store).await;
    clock.set(next);
    deliverer.wake();
    next.as_millis() - before.as_millis()
}

#[tokio::test]
async fn what_fails_is_tried_again_and_nothing_overtakes_it() {
    let script = [500, 503, 408, 425, 429, 204, 502].map(Say::Status);
    let mut receiver = Receiver::start(script).await;
    let (store, clock) = store();
    begin(&store, "t", config("x", receiver.url("")), 2).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    for n in 0..5 {
        assert_eq!(receiver.texts(1).await, ["TASK_STATE_WORKING"]);
        let waited = come_to(&store, &clock, &deliverer).await;
        // Doubled each time, and of that a half to the whole.
        let whole = 1_000 << n;
        assert!((whole / 2 - SLACK..=whole + SLACK).contains(&waited), "{n}: {waited}");
    }
    assert_eq!(receiver.texts(2).await, ["TASK_STATE_WORKING", "0"]);
    // Another event, so it begins with a short wait again.
    let waited = come_to(&store, &clock, &deliverer).await;
    assert!((500 - SLACK..=1_000 + SLACK).contains(&waited), "{waited}");
    assert_eq!(receiver.texts(2).await, ["0", "1"]);
    settled(&store).await;
    assert!(receiver.is_silent());
}

#[tokio::test]
async fn a_receiver_may_say_when_it_wants_to_be_asked_again() {
    let script = [
        Say::Later(429, "120"),
        Say::Later(503, "1"),
        Say::Later(503, "99999999"),
        Say::Later(503, "soon"),
        Say::Later(503, "0"),
    ];
    let mut receiver = Receiver::start(script).await;
    let (store, clock) = store();
    begin(&store, "t", config("x", receiver.url("")), 0).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    let waits = [(120_000, 120_000), (1_000, 1_000), (900_000, 900_000), (4_000, 8_000), (1_000, 1_000)];
    for (least, most) in waits {
        receiver.next().await;
        let waited = come_to(&store, &clock, &deliverer).await;
        assert!((least - SLACK..=most + SLACK).contains(&waited), "{waited}, not {least} to {most}");
    }
    receiver.next().await;
    settled(&store).await;
}

#[tokio::test]
async fn what_is_refused_for_good_is_given_up_and_the_next_goes_on() {
    let elsewhere = Receiver::start([]).await;
    let script = [
        Say::Status(400),
        Say::Status(401),
        Say::Status(404),
        Say::Status(410),
        Say::Redirect(elsewhere.url("")),
        Say::Endless(413),
    ];
    let mut receiver = Receiver::start(script).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 7).await;
    let _deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    // Each of them once, although time stands still.
    assert_eq!(receiver.texts(8).await, ["TASK_STATE_WORKING", "0", "1", "2", "3", "4", "5", "6"]);
    settled(&store).await;
    assert!(receiver.is_silent());
    let mut elsewhere = elsewhere;
    assert!(elsewhere.is_silent());
}

#[tokio::test]
async fn an_answer_without_an_end_is_still_an_answer() {
    let mut receiver = Receiver::start([Say::Endless(200), Say::Endless(200)]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 2).await;
    let _deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    assert_eq!(receiver.texts(3).await, ["TASK_STATE_WORKING", "0", "1"]);
    settled(&store).await;
}

#[tokio::test]
async fn no_answer_in_time_is_a_failure() {
    let mut receiver = Receiver::start([Say::Nothing]).await;
    let (store, clock) = store();
    begin(&store, "t", config("x", receiver.url("")), 0).await;
    let limits =
        PushLimits { request_timeout: Duration::from_millis(100), attempts: 1_000, ..PushLimits::default() };
    let deliverer = Deliverer::spawn(store.clone(), egress(), limits);
    receiver.next().await;
    come_to(&store, &clock, &deliverer).await;
    // It answers now; a slow machine may need more than one attempt to hear it.
    loop {
        tokio::select! {
            () = settled(&store) => break,
            next = postponed(&store) => clock.set(next),
        }
        deliverer.wake();
    }
    assert!(!receiver.is_silent());
}

#[tokio::test]
async fn after_many_failures_in_a_row_what_is_pending_is_given_up() {
    let script = [500; 3].into_iter().chain([204]).chain([500; 4]).map(Say::Status);
    let mut receiver = Receiver::start(script).await;
    let (store, clock) = store();
    begin(&store, "t", config("x", receiver.url("")), 3).await;
    let limits = PushLimits { attempts: 4, ..PushLimits::default() };
    let deliverer = Deliverer::spawn(store.clone(), egress(), limits);
    for _ in 0..3 {
        assert_eq!(receiver.texts(1).await, ["TASK_STATE_WORKING"]);
        come_to(&store, &clock, &deliverer).await;
    }
    // One success, and the count begins anew.
    assert_eq!(receiver.texts(1).await, ["TASK_STATE_WORKING"]);
    for n in 0..4 {
        assert_eq!(receiver.texts(1).await, ["0"], "{n}");
        if n < 3 {
            come_to(&store, &clock, &deliverer).await;
        }
    }
    settled(&store).await;
    assert!(receiver.is_silent());
    // What comes later is tried again.
    chunk(&store, "t", "later").await;
    deliverer.wake();
    assert_eq!(receiver.texts(1).await, ["later"]);
    settled(&store).await;
}

#[tokio::test]
async fn twelve_failures_are_enough_by_default() {
    let (store, clock) = store();
    let dead = Dead::new();
    begin(&store, "t", config("x", dead.url("")), 3).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    for _ in 0..11 {
        come_to(&store, &clock, &deliverer).await;
    }
    settled(&store).await;
    assert!(store.deliveries(None, Timestamp::from_millis(i64::MAX), 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_replaced_receiver_is_tried_at_once() {
    let (store, _) = store();
    let dead = Dead::new();
    begin(&store, "t", config("x", dead.url("")), 1).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    postponed(&store).await;
    let mut receiver = Receiver::start([]).await;
    store.put_push_config(&scope(), &"t".into(), config("x", receiver.url(""))).await.unwrap();
    deliverer.wake();
    assert_eq!(receiver.texts(2).await, ["TASK_STATE_WORKING", "0"]);
    settled(&store).await;
}

#[tokio::test]
async fn a_receiver_that_is_replaced_while_it_is_asked_has_no_say() {
    let answer = Arc::new(Notify::new());
    let mut first = Receiver::start([Say::When(answer.clone())]).await;
    let mut second = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", first.url("")), 1).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), patient());
    assert_eq!(first.texts(1).await, ["TASK_STATE_WORKING"]);
    store.put_push_config(&scope(), &"t".into(), config("x", second.url("next"))).await.unwrap();
    // The one after it is delivered, so the deliverer has met the new one while it had the old one in hand.
    begin(&store, "u", config("y", second.url("probe")), 0).await;
    deliverer.wake();
    assert_eq!(second.next().await.path, "/probe");
    answer.notify_one();
    // One request at a time for each configuration, and the new receiver gets all that was pending.
    assert_eq!(second.texts(2).await, ["TASK_STATE_WORKING", "0"]);
    settled(&store).await;
    assert!(first.is_silent());
}
