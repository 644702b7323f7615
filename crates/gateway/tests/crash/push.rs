//! Push notifications of a server that is killed: every event, in order, to everybody who takes it.
//!
//! `CHANCERY_CRASH_PUSH_TASKS=1000 CHANCERY_CRASH_RECEIVERS=20` is the full version.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;

use crate::kill::setting;
use crate::receiver::{Manner, Receiver};
use crate::server::Home;
use crate::wire::{Binding, Call};

const KILLS: usize = 2;

/// For how long nothing may come. The longest wait between two attempts is five minutes.
const PATIENCE: Duration = Duration::from_secs(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_who_takes_events_gets_all_of_them_in_order() {
    let tasks = setting("CHANCERY_CRASH_PUSH_TASKS", 60);
    let count = setting("CHANCERY_CRASH_RECEIVERS", 8);
    let mut receivers: Vec<_> = (0..count).map(|number| Receiver::new(Manner::by(number))).collect();
    let urls: Vec<_> =
        (0..tasks).map(|number| receivers[number % count].url(&format!("/task-{number}"))).collect();
    let home = Home::new(&["--allow-egress", "127.0.0.0/8"]);
    let mut server = home.start();
    let mut known = HashMap::new();
    for round in 1..=KILLS {
        // Some are new, some have been cut off before they were answered.
        let upto = tasks * round / KILLS;
        let sends = begin(server.address, (0..upto).filter(|number| !known.contains_key(number)), &urls);
        until(&receivers, "a moment to kill", || received(&receivers) >= upto).await;
        server.kill();
        known.extend(sends.join_all().await.into_iter().filter_map(|(number, id)| Some((number, id?))));
        server = home.start();
    }
    let missing = begin(server.address, (0..tasks).filter(|number| !known.contains_key(number)), &urls);
    for (number, id) in missing.join_all().await {
        known.insert(number, id.unwrap_or_else(|| panic!("task {number} is not taken")));
    }
    let mut expected = vec![Vec::new(); tasks];
    for (number, id) in &known {
        let events = Call::resume(Binding::HttpJson, "stream", id, 0).all(server.address).await;
        expected[*number] = events.into_iter().map(|frame| frame.data).collect();
    }
    let is_done = |receivers: &[Receiver], wanted: fn(Manner) -> bool| {
        let mut theirs = (0..tasks).filter(|number| wanted(receivers[number % count].manner));
        theirs.all(|number| arrived(receivers, number).last() == expected[number].last())
    };
    // Nobody keeps those who are prompt waiting.
    until(&receivers, "the prompt", || is_done(&receivers, |manner| manner == Manner::Prompt)).await;
    for receiver in receivers.iter_mut().filter(|receiver| receiver.manner == Manner::Dead) {
        assert_eq!(receiver.count(), 0, "nobody listened");
        receiver.listen();
    }
    until(&receivers, "the others", || is_done(&receivers, |_| true)).await;
    for (number, expected) in expected.iter().enumerate() {
        let mut found = arrived(&receivers, number);
        let all = found.len();
        found.dedup();
        assert_eq!(found, *expected, "task {number}, {:?}", receivers[number % count].manner);
        assert!(all - found.len() <= KILLS, "task {number}: {all} for {} events", found.len());
    }
    home.is_calm();
    assert_eq!(home.check(), tasks as u64);
}

/// Begins tasks, each with somebody to be told. Gives the ids of those that were answered.
fn begin(
    address: SocketAddr,
    numbers: impl Iterator<Item = usize>,
    urls: &[String],
) -> JoinSet<(usize, Option<String>)> {
    let mut sends = JoinSet::new();
    for number in numbers {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "stream 3 30"}]});
        let config = json!({"id": "receiver", "url": urls[number]});
        let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
        let params = json!({"message": message, "configuration": configuration});
        let key = format!("task-{number}");
        let call = Call::send(Binding::by(number), "stream", &params).with_key(Some(&key));
        sends.spawn(async move {
            let reply = call.result(address).await.ok();
            (number, reply.map(|reply| reply["task"]["id"].as_str().unwrap().to_owned()))
        });
    }
    sends
}

/// What has come for a task.
fn arrived(receivers: &[Receiver], number: usize) -> Vec<Bytes> {
    receivers[number % receivers.len()].bodies(&format!("/task-{number}"))
}

fn received(receivers: &[Receiver]) -> usize {
    receivers.iter().map(Receiver::count).sum()
}

/// Waits for something, as long as there is progress.
async fn until(receivers: &[Receiver], what: &str, is_so: impl Fn() -> bool) {
    let (mut count, mut since) = (received(receivers), Instant::now());
    while !is_so() {
        let now = received(receivers);
        if now > count {
            (count, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "nothing comes any more; waiting for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
