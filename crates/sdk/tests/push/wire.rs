//! What goes over the wire.

use std::time::Duration;

use chancery_sdk::protocol::{AuthenticationInfo, TaskPushNotificationConfig};
use chancery_sdk::push::{Deliverer, PushLimits};
use chancery_sdk::store::Read;

use crate::receiver::*;

#[tokio::test]
async fn a_receiver_gets_the_event_as_it_was_committed() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    let authentication =
        Some(AuthenticationInfo { scheme: "Bearer".to_owned(), credentials: "sesame".to_owned() });
    let config = TaskPushNotificationConfig {
        token: "hush".to_owned(),
        authentication,
        ..config("x", receiver.url("hook"))
    };
    begin(&store, "t", config, 1).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    let Ok(Read::Events(events)) = store.read(&scope(), &"t".into(), 0, 10).await else { panic!() };
    for event in &events {
        let got = receiver.next().await;
        assert_eq!(got.body, event.json);
        assert_eq!((got.method.as_str(), got.path.as_str()), ("POST", "/hook"));
        assert_eq!(got.header("content-type"), "application/a2a+json");
        assert_eq!(got.header("a2a-version"), "1.0");
        assert_eq!(got.header("authorization"), "Bearer sesame");
        assert_eq!(got.header("x-a2a-notification-token"), "hush");
        assert_eq!(got.header("a2a-notification-token"), "hush");
        assert_eq!(got.header("host"), receiver.address.to_string());
        assert_eq!(got.header("content-length"), event.json.len().to_string());
    }
    settled(&store).await;
    deliverer.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn without_secrets_there_are_no_headers_for_them() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 0).await;
    let _deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    let got = receiver.next().await;
    for name in ["authorization", "x-a2a-notification-token", "a2a-notification-token"] {
        assert!(!got.headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn secrets_that_are_no_header_values_are_not_sent() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    let bad = TaskPushNotificationConfig {
        token: "a\r\nInjected: yes".to_owned(),
        ..config("x", receiver.url("bad"))
    };
    begin(&store, "t", bad, 1).await;
    begin(&store, "u", config("y", receiver.url("good")), 0).await;
    let _deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    assert_eq!(receiver.next().await.path, "/good");
    settled(&store).await;
    assert!(receiver.is_silent());
}

#[tokio::test]
async fn events_come_in_order_while_they_are_made() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 0).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    for n in 0..200 {
        chunk(&store, "t", &n.to_string()).await;
        deliverer.wake();
        if n % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    complete(&store, "t").await;
    deliverer.wake();
    let expected: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    assert_eq!(receiver.texts(1).await, ["TASK_STATE_WORKING"]);
    assert_eq!(receiver.texts(200).await, expected);
    assert_eq!(receiver.texts(1).await, ["TASK_STATE_COMPLETED"]);
    settled(&store).await;
    assert!(receiver.is_silent());
}

#[tokio::test]
async fn every_configuration_of_a_task_gets_everything_that_is_its_own() {
    let mut receivers = [Receiver::start([]).await, Receiver::start([]).await];
    let (store, _) = store();
    begin(&store, "t", config("x", receivers[0].url("")), 1).await;
    let deliverer = Deliverer::spawn(store.clone(), egress(), PushLimits::default());
    store.put_push_config(&scope(), &"t".into(), config("y", receivers[1].url(""))).await.unwrap();
    chunk(&store, "t", "later").await;
    deliverer.wake();
    assert_eq!(receivers[0].texts(3).await, ["TASK_STATE_WORKING", "0", "later"]);
    assert_eq!(receivers[1].texts(1).await, ["later"]);
    settled(&store).await;
    // Who has been deleted gets nothing more.
    store.delete_push_config(&scope(), &"t".into(), &"x".into()).await.unwrap();
    chunk(&store, "t", "last").await;
    deliverer.wake();
    assert_eq!(receivers[1].texts(1).await, ["last"]);
    settled(&store).await;
    assert!(receivers[0].is_silent());
}

#[tokio::test]
async fn nothing_is_posted_where_nothing_may_be_dialled() {
    let mut receiver = Receiver::start([]).await;
    let (store, _) = store();
    begin(&store, "t", config("x", receiver.url("")), 2).await;
    let url = format!("http://localhost:{}/", receiver.address.port());
    begin(&store, "u", config("y", url), 2).await;
    let strict = chancery_sdk::egress::Egress::default();
    let _deliverer = Deliverer::spawn(store.clone(), strict, PushLimits::default());
    // Given up at once: asking again would not change the policy.
    settled(&store).await;
    assert!(receiver.is_silent());
}
