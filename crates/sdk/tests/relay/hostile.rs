//! Agents that lie, stall or break off: the caller is told so, and no task is left open.

use std::time::Duration;

use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::testing::{Exchange, HOSTILE, Hostile, Must, Peer, Reply};
use chancery_sdk::{ClientError, ErrorCode, Relay};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::{COMPLETED, FAILED, Site, Wire, message, serve_with, state, text};

/// A relay that loses patience at once.
async fn hasty(url: &str) -> Result<Site, ClientError> {
    let limit = Duration::from_secs(2);
    let client = chancery_sdk::Client::builder()
        .request_timeout(limit)
        .stream_idle_timeout(limit)
        .stream_resumes(1)
        .retries(0)
        // What has no end is to be found out soon, also by a build that is not optimized, on a machine that has more to do.
        .max_event_bytes(1 << 20)
        .max_response_bytes(1 << 20)
        .connect(url)
        .await?;
    let relay =
        Relay::new(client, "relayed").await?.patience(Duration::from_millis(100)).blocking_timeout(limit);
    Ok(serve_with(|server| server.relay_at("", relay)).await)
}

/// What a caller makes of it: an error, or the state that its task has ended in.
async fn met(hostile: &Hostile, url: &str, caller: Wire) -> Result<(), String> {
    let relay = hasty(url).await.map_err(|error| error.to_string())?;
    let client = relay.client(caller);
    let ended = if hostile.exchange == Exchange::Get {
        let answer = client.send(message("hello")).await;
        if answer.json().get("error").is_some() {
            return Err(answer.body);
        }
        state(&answer.task()).to_owned()
    } else {
        let params = json!({"message": message("hello")}).to_string();
        let mut events =
            client.try_open("SendStreamingMessage", &params).await.map_err(|answer| answer.body)?;
        let last = events.rest().await.pop().expect("an event");
        last.state().expect("a state at the end")
    };
    // Whatever the caller saw, nothing is left open.
    let listed = client.call("ListTasks", json!({})).await.result();
    for task in listed["tasks"].as_array().expect("tasks") {
        assert!([COMPLETED, FAILED].contains(&state(task)), "{}: {task}", hostile.name);
    }
    if ended == COMPLETED { Ok(()) } else { Err(ended) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_agent_is_taken_as_it_must_be() {
    let bindings = [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson];
    let pairs = bindings.iter().flat_map(|binding| HOSTILE.iter().map(move |hostile| (hostile, binding)));
    let tried = stream::iter(pairs).map(|(hostile, binding)| async move {
        // Told by the binding that is not its own.
        let caller = if *binding == ProtocolBinding::JsonRpc { Wire::Rest } else { Wire::JsonRpc };
        let judged = hostile.try_out(binding, async |url| met(hostile, url, caller).await).await;
        judged.map_err(|wrong| format!("{binding}: {wrong}"))
    });
    let tried: Vec<_> = tried.buffer_unordered(16).collect().await;
    let wrong: Vec<_> = tried.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(HOSTILE.iter().any(|hostile| hostile.must == Must::Succeed));
}

fn task(id: &str, state: &str) -> Value {
    json!({"task": {"id": id, "contextId": "c", "status": {"state": state}}})
}

fn status(id: &str, state: &str) -> Value {
    json!({"statusUpdate": {"taskId": id, "contextId": "c", "status": {"state": state}}})
}

const ASKED: &str = "TASK_STATE_INPUT_REQUIRED";
const WORKING: &str = "TASK_STATE_WORKING";

#[tokio::test]
async fn a_stream_that_breaks_the_protocol_ends_in_a_failed_task() {
    let message = json!({"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}});
    let breaches = [
        vec![status("t", "TASK_STATE_SUBMITTED")],
        vec![status("t", "TASK_STATE_DREAMING")],
        vec![status("u", WORKING)],
        vec![message],
        vec![json!({"statusUpdate": {"taskId": "t"}})],
        vec![task("u", WORKING)],
    ];
    for breach in breaches {
        let events = breach.clone();
        let peer = Peer::script()
            .card(ProtocolBinding::JsonRpc)
            .answer_with(move |heard| {
                let mut all = vec![(0, task("t", "TASK_STATE_SUBMITTED")), (0, status("t", WORKING))];
                all.extend(events.iter().map(|event| (0, event.clone())));
                heard.stream(&all)
            })
            .start()
            .expect("a port");
        let relay = hasty(peer.url()).await.expect("a card");
        let events = relay.rest().stream(crate::support::message("go")).await.rest().await;
        let (first, last) = (events.first().expect("an event"), events.last().expect("an event"));
        assert!(last.is(FAILED), "{breach:?}: {last:?}");
        let why = last.payload()["statusUpdate"]["status"]["message"].clone();
        assert!(text(&why).contains("protocol"), "{why}");
        let task = crate::support::id(&first.payload()["task"]);
        assert_eq!(state(&relay.rest().get(&task).await), FAILED);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_the_protocol_is_no_answer() {
    let message = json!({"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}});
    for answer in [task("u", COMPLETED), message, json!({"task": {"id": "t"}}), json!({"surprise": 1})] {
        let second = answer.clone();
        let peer = Peer::script()
            .card(ProtocolBinding::HttpJson)
            .answer_with(|heard| heard.result(&task("t", ASKED)))
            .answer_with(move |heard| heard.result(&second))
            .start()
            .expect("a port");
        let relay = hasty(peer.url()).await.expect("a card");
        let client = relay.jsonrpc();
        let task = crate::support::id(&client.say("hello").await);
        let refused = client.send(crate::support::follow_up(&task, "more")).await;
        refused.refused(ErrorCode::InvalidAgentResponse);
        assert_eq!(state(&client.get(&task).await), FAILED, "{answer}");
    }
    // One that names no task begins none.
    let peer = Peer::script()
        .card(ProtocolBinding::HttpJson)
        .answer_with(|heard| heard.result(&task("", COMPLETED)));
    let peer = peer.start().expect("a port");
    let relay = hasty(peer.url()).await.expect("a card");
    relay.rest().send(message_of("x")).await.refused(ErrorCode::InvalidAgentResponse);
}

fn message_of(text: &str) -> Value {
    crate::support::message(text)
}

#[tokio::test]
async fn a_task_without_end_fails_when_it_is_full() {
    let piece = json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true,
        "artifact": {"artifactId": "a", "parts": [{"text": "x".repeat(4096)}]}}});
    let peer = Peer::script()
        .card(ProtocolBinding::HttpJson)
        .answer_with(move |heard| {
            let frames = heard.frames(&[(0, task("t", WORKING))]);
            let again = heard.frames(&[(0, piece.clone())]).repeat(16);
            Reply::events(frames).until_close().then_endlessly(again)
        })
        .start()
        .expect("a port");
    let client = chancery_sdk::Client::connect(peer.url()).await.expect("a card");
    let relay = Relay::new(client, "relayed").await.expect("a card");
    let mut limits = chancery_sdk::store::StoreLimits::default();
    limits.task.bytes = 1 << 20;
    let relay = crate::support::serve_on(limits, |server| server.relay_at("", relay)).await;
    let last =
        relay.jsonrpc().stream(crate::support::message("go")).await.rest().await.pop().expect("an event");
    assert!(last.is(FAILED), "{last:?}");
    // The agent was told to stop.
    crate::support::until("a cancel", || async {
        peer.calls().iter().any(|heard| heard.path == "/tasks/t:cancel")
    })
    .await;
}

/// What cannot be read, of a task or of none.
fn unreadable() -> Value {
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": "soon"}})
}

#[tokio::test]
async fn a_task_whose_stream_cannot_be_read_is_asked_for_and_not_canceled() {
    for first in [Some(task("t", WORKING)), None] {
        let begins = first.clone();
        let peer = Peer::script()
            .card(ProtocolBinding::JsonRpc)
            .answer_with(move |heard| {
                let all: Vec<_> =
                    begins.clone().into_iter().chain([unreadable()]).map(|event| (0, event)).collect();
                heard.stream(&all)
            })
            .answer_with(|heard| heard.result(&task("t", WORKING)["task"]))
            .answer_with(|heard| {
                let mut done = task("t", COMPLETED)["task"].clone();
                done["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "done"}]}]);
                heard.result(&done)
            })
            .start()
            .expect("a port");
        let relay = hasty(peer.url()).await.expect("a card");
        let events = relay.rest().stream(message_of("go")).await.rest().await;
        assert!(events.last().expect("an event").is(COMPLETED), "{first:?}: {events:?}");
        assert!(events.iter().any(|event| event.data.contains("done")), "{first:?}: {events:?}");
        let methods: Vec<_> = peer.calls().iter().map(|heard| heard.json()["method"].clone()).collect();
        assert_eq!(methods, ["SendStreamingMessage", "GetTask", "GetTask"], "{first:?}");
    }
}

#[tokio::test]
async fn events_that_have_the_form_of_another_version_are_read() {
    let status = |state: &str, is_last: bool| json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": state}, "final": is_last});
    let chunk = json!({"kind": "artifact-update", "taskId": "t", "contextId": "c",
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "piece"}]}});
    let all = [task("t", "TASK_STATE_SUBMITTED"), status(WORKING, false), chunk, status(COMPLETED, true)];
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(move |heard| heard.stream(&all.clone().map(|event| (0, event))))
        .start()
        .expect("a port");
    let relay = hasty(peer.url()).await.expect("a card");
    let events = relay.rest().stream(message_of("go")).await.rest().await;
    assert!(events.last().expect("an event").is(COMPLETED), "{events:?}");
    assert!(events.iter().any(|event| event.data.contains("piece")), "{events:?}");
    assert_eq!(peer.calls().len(), 1, "the stream was enough");
}

#[tokio::test]
async fn a_state_that_nobody_knows_is_passed_on_as_its_number() {
    let status =
        |state: Value| json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}});
    let all = [task("t", WORKING), status(json!(42)), status(json!(COMPLETED))];
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(move |heard| heard.stream(&all.clone().map(|event| (0, event))))
        .start()
        .expect("a port");
    let relay = hasty(peer.url()).await.expect("a card");
    let events = relay.rest().stream(message_of("go")).await.rest().await;
    let states: Vec<_> =
        events.iter().map(|event| event.payload()["statusUpdate"]["status"]["state"].clone()).collect();
    assert!(states.contains(&json!(42)), "{events:?}");
    assert!(events.last().expect("an event").is(COMPLETED), "{events:?}");
}
