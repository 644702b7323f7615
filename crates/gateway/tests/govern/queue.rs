//! Calls that wait for room in the budget, whose senders do not wait for them: their tasks are there from the first moment.

use std::time::Duration;

use chancery_sdk::Client;
use chancery_sdk::protocol::{ListTasksRequest, SendMessageConfiguration, SendMessageRequest, Task};
use chancery_sdk::{ClientError, ErrorCode};
use serde_json::Value;

use super::ECHO;
use super::gateway::Gateway;
use super::wire::{WIRES, Wire};

/// One call a day, and a line for the others.
fn one_a_day(max_wait_ms: u64, agent: &str) -> String {
    format!(
        "[budget.caller]\nmax_tasks_per_day = 1\noverflow = {{ queue = {{ max_depth = 8, max_wait = {max_wait_ms} }} }}\n{agent}"
    )
}

/// An agent of this name that runs elsewhere.
fn elsewhere(name: &str, upstream: &Gateway, agent: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{}\"\n", upstream.agent(agent))
}

async fn connect(gateway: &Gateway, agent: &str) -> Client {
    WIRES[0].connect(gateway, agent).await
}

/// Sends a message, and does not wait for what comes of it.
async fn send_on(client: &Client, text: &str) -> Result<Task, ClientError> {
    let mut request = SendMessageRequest::from(text);
    let at_once = SendMessageConfiguration { return_immediately: true, ..Default::default() };
    request.configuration = Some(at_once);
    client.send(request).await.map(|sent| sent.task().expect("it has a task").clone())
}

fn state(task: &Task) -> &str {
    task.status.state.as_str().strip_prefix("TASK_STATE_").expect("a state")
}

async fn until(client: &Client, task: &Task, wanted: &str) -> Task {
    loop {
        let known = client.get(task.id.clone()).await.expect("it is there");
        if state(&known) == wanted {
            return known;
        }
        assert!(!known.status.state.is_terminal(), "{known:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn top_up(gateway: &Gateway, tasks: &str) {
    gateway.run(&["budget", "top-up", "--caller", "anonymous", "--per", "day", "--tasks", tasks]);
}

/// How many calls were charged to the caller.
fn charged(gateway: &Gateway) -> u64 {
    let said = gateway.run(&["budget", "show", "-o", "json", "--caller", "anonymous"]);
    let said: Value = serde_json::from_str(said.trim()).expect("it is JSON");
    said["charged"].as_u64().expect("a number")
}

/// What holds of a task that waits, wherever its agent is: it is seen, watched, canceled, and it outlives the process.
async fn it_waits(mut gateway: Gateway, agent: &str) {
    let client = connect(&gateway, agent).await;
    client.send("first").await.expect("there is room for one");
    let kept = send_on(&client, "kept").await.expect("it waits");
    let dropped = send_on(&client, "dropped").await.expect("it waits");
    assert_eq!((state(&kept), state(&dropped)), ("SUBMITTED", "SUBMITTED"));
    assert_eq!(kept.history[0].text(), "kept");
    let listed = client.list(ListTasksRequest::default()).await.expect("they are listed").tasks;
    assert!([&kept, &dropped].iter().all(|one| listed.iter().any(|other| other.id == one.id)), "{listed:?}");

    let mut events = client.subscribe(dropped.id.clone()).await.expect("it can be watched");
    let canceled = client.cancel(dropped.id.clone()).await.expect("it can be canceled");
    assert_eq!(state(&canceled), "CANCELED");
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.expect("a good one"));
    }
    assert!(String::from_utf8_lossy(&last.expect("an event").json).contains("TASK_STATE_CANCELED"));

    gateway.kill_and_restart();
    let client = connect(&gateway, agent).await;
    assert_eq!(state(&client.get(kept.id.clone()).await.expect("it is there")), "SUBMITTED");
    assert_eq!(charged(&gateway), 1);
    let mut events = client.subscribe(kept.id.clone()).await.expect("it can be watched");
    top_up(&gateway, "1");
    let done = until(&client, &kept, "COMPLETED").await;
    let said: String =
        done.artifacts.iter().flat_map(|one| &one.parts).filter_map(|part| part.as_text()).collect();
    let last = done.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
    assert!(said == "kept" || last == "kept", "{done:?}");
    while let Some(event) = events.next().await {
        let event = event.expect("a good one");
        assert!(!String::from_utf8_lossy(&event.json).contains("TASK_STATE_FAILED"));
    }
    assert_eq!(charged(&gateway), 2, "it is charged once");
    assert_eq!(state(&client.get(dropped.id.clone()).await.expect("it is there")), "CANCELED");
    gateway.kill_and_restart();
    assert_eq!(charged(&gateway), 2, "and not again");
}

#[tokio::test]
async fn a_task_that_waits_for_room_here_is_there_from_the_first_moment() {
    it_waits(Gateway::start(&one_a_day(3_600_000, ECHO)), "echo").await;
}

#[tokio::test]
async fn so_is_one_whose_agent_is_elsewhere_and_has_not_heard_of_it() {
    let upstream = Gateway::start(ECHO);
    it_waits(Gateway::start(&one_a_day(3_600_000, &elsewhere("far", &upstream, "echo"))), "far").await;
}

#[tokio::test]
async fn a_task_that_has_waited_for_too_long_is_rejected_and_says_by_what() {
    let upstream = Gateway::start(ECHO);
    for (agents, agent) in [(ECHO.to_owned(), "echo"), (elsewhere("far", &upstream, "echo"), "far")] {
        let gateway = Gateway::start(&one_a_day(300, &agents));
        let client = connect(&gateway, agent).await;
        client.send("first").await.expect("there is room for one");
        let waits = send_on(&client, "late").await.expect("it waits");
        let rejected = until(&client, &waits, "REJECTED").await;
        let said =
            rejected.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
        assert!(said.contains("budget"), "{said}");
        assert_eq!(charged(&gateway), 1);
        // Whoever waits for the answer hears the same as a refusal.
        let error = client.send("late").await.expect_err("there is no room");
        assert_eq!(error.code(), Some(ErrorCode::ResourceExhausted), "{error}");
    }
}

#[tokio::test]
async fn what_has_waited_is_talked_to_and_canceled_like_any_other() {
    let ask =
        "[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let upstream = Gateway::start(ask);
    let far = elsewhere("far-ask", &upstream, "ask") + &elsewhere("far-stream", &upstream, "stream");
    for (agents, prefix) in [(ask, ""), (&*far, "far-")] {
        let gateway = Gateway::start(&one_a_day(3_600_000, agents));
        let (ask, stream) = (format!("{prefix}ask"), format!("{prefix}stream"));
        let client = connect(&gateway, &ask).await;
        client.send("hello").await.expect("there is room for one");
        let asks = send_on(&client, "hello").await.expect("it waits");
        let streamer = connect(&gateway, &stream).await;
        let streams = send_on(&streamer, "stream 1000 100").await.expect("it waits");
        top_up(&gateway, "3");
        until(&client, &asks, "INPUT_REQUIRED").await;
        let mut answer = SendMessageRequest::from("blue");
        answer.message.task_id = Some(asks.id.clone());
        let done = client.send(answer).await.expect("it goes on");
        let done = done.task().expect("a task");
        assert_eq!((&done.id, state(done)), (&asks.id, "COMPLETED"), "{done:?}");

        until(&streamer, &streams, "WORKING").await;
        assert_eq!(state(&streamer.cancel(streams.id.clone()).await.expect("it can be")), "CANCELED");
    }
}

#[tokio::test]
async fn a_task_waits_whatever_the_wire_is() {
    let gateway = Gateway::start(&one_a_day(3_600_000, ECHO));
    connect(&gateway, "echo").await.send("first").await.expect("there is room for one");
    for wire in WIRES.iter().filter(|Wire(version, _)| *version != chancery_sdk::protocol::Version::V0_1) {
        let client = wire.connect(&gateway, "echo").await;
        let waits = send_on(&client, "again").await.unwrap_or_else(|error| panic!("{wire:?}: {error}"));
        assert_eq!(state(&waits), "SUBMITTED", "{wire:?}");
        assert_eq!(state(&client.cancel(waits.id).await.expect("it can be")), "CANCELED", "{wire:?}");
    }
}
