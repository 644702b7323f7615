//! A server that is asked to end under load: calls that it has begun are answered, streams go on after the restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::kill::check_all;
use crate::load;
use crate::server::Home;
use crate::wire::{Binding, Call};

const SENDS: usize = 40;
const STREAMS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_to_end_loses_no_call_and_no_event() {
    let home = Home::new(&[]);
    let server = home.start();
    let address = server.address;
    let mut sends = JoinSet::new();
    for number in 0..SENDS {
        let message = json!({"messageId": "m", "contextId": "sends", "role": "ROLE_USER",
            "parts": [{"text": "stream 20 40"}]});
        let call = Call::send(Binding::by(number), "stream", &json!({"message": message}));
        sends.spawn(async move { call.result(address).await });
    }
    let progress = Arc::new(AtomicUsize::new(0));
    let streams = load::begin(address, 0, STREAMS, &progress);
    // Every send has begun, and so have the streams.
    let begun = Call::list("stream", &json!({"contextId": "sends", "pageSize": 1}));
    while begun.result(address).await.unwrap()["totalSize"] != SENDS
        || progress.load(Ordering::Relaxed) < 2 * STREAMS
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.terminate();
    for answer in sends.join_all().await {
        let task = answer.expect("a call that has begun is answered")["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    }
    let witnesses = streams.join_all().await;
    let status = server.ended().await;
    assert!(status.success(), "{status}: {}", home.log());
    assert!(
        witnesses.iter().any(|witness| !witness.frames.is_empty() && !witness.ended),
        "no stream was cut"
    );
    let server = home.start();
    check_all(server.address, witnesses).await;
    home.is_calm();
}
