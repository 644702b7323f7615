//! Streams that break: taken up again exactly where they were, or said to be broken.

mod support;

use std::time::Duration;

use chancery_sdk as sdk;
use chancery_sdk::protocol::{ProtocolBinding, StreamResponse};
use chancery_sdk::{ClientError, ErrorCode, Event, Outcome, TaskState, Turn};
use serde_json::{Value, json};
use support::*;

const BINDINGS: [ProtocolBinding; 3] =
    [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc];

/// Everything up to the end, and how it ended.
async fn drain(events: &mut sdk::Events) -> (Vec<Event>, Option<ClientError>) {
    let mut all = Vec::new();
    loop {
        match within("the next event", events.next()).await {
            Some(Ok(event)) => all.push(event),
            Some(Err(error)) => {
                assert!(events.next().await.is_none(), "an error is the last item");
                return (all, Some(error));
            }
            None => return (all, None),
        }
    }
}

/// The text that the artifacts of a stream add up to.
fn told(events: &[Event]) -> String {
    let parts = events.iter().filter_map(|event| match event.payload().expect("an event") {
        StreamResponse::ArtifactUpdate(update) => Some(update.artifact.parts),
        _ => None,
    });
    parts.flatten().filter_map(|part| part.as_text().map(str::to_owned)).collect()
}

fn last_state(events: &[Event]) -> TaskState {
    match events.last().expect("events").payload().expect("an event") {
        StreamResponse::Task(task) => task.status.state,
        StreamResponse::StatusUpdate(update) => update.status.state,
        other => panic!("not a state: {other:?}"),
    }
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.number).collect()
}

/// Says so many numbered lines, a few at a time.
fn teller(lines: usize) -> sdk::AgentSpec {
    agent(move |turn: Turn| async move {
        let mut artifact = turn.begin_artifact("lines");
        for line in 0..lines {
            artifact.append(format!("{line} ")).await?;
            if line % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        artifact.finish("end").await?;
        Ok(Outcome::completed())
    })
}

fn all_lines(lines: usize) -> String {
    (0..lines).map(|line| format!("{line} ")).chain(["end".to_owned()]).collect()
}

#[tokio::test]
async fn a_long_stream_comes_whole_and_in_order() {
    let site = serve(teller(3000)).await;
    for binding in BINDINGS {
        let url = format!("http://{}", site.address);
        let client = sdk::Client::builder().prefer([binding]).connect(url).await.expect("the server");
        let mut events = client.stream("go").await.expect("a stream");
        let (all, error) = drain(&mut events).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(told(&all), all_lines(3000));
        assert_eq!(numbers(&all), (1..=all.len() as u64).collect::<Vec<_>>());
        assert_eq!((events.last_event(), last_state(&all)), (all.len() as u64, TaskState::Completed));

        let id = events.task_id().expect("a task").clone();
        let mut rest = client.resume(id.clone(), 2990).await.expect("the rest");
        let (rest, error) = drain(&mut rest).await;
        assert!(error.is_none() && rest[..] == all[2990..]);
        // A task that has ended is not watched, unless from a place in it.
        let over = client.subscribe(id).await.expect_err("it is over");
        assert_eq!(over.code(), Some(ErrorCode::UnsupportedOperation));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_again_and_again_comes_exactly_once() {
    for binding in BINDINGS {
        // Of a frame of HTTP/2 that was cut, nothing is seen.
        let (lines, budgets) = match binding {
            ProtocolBinding::Grpc => (1_500, [20_000, 30_001, 70_000]),
            _ => (150, [1_500, 3_001, 7_000]),
        };
        for budget in budgets {
            // The first connection also carries the card.
            let (url, behind) = proxy(move |connection| if connection == 0 { 4_000 } else { budget }).await;
            let site = serve_with(|server| server.agent(teller(lines)).public_url(url.clone())).await;
            *behind.lock() = Some(site.address);
            let client =
                sdk::Client::builder().prefer([binding.clone()]).connect(&url).await.expect("the server");
            let mut events = client.stream("go").await.expect("a stream");
            let (all, error) = drain(&mut events).await;
            assert!(error.is_none(), "{error:?} after {}", all.len());
            assert_eq!(told(&all), all_lines(lines));
            assert_eq!(numbers(&all), (1..=all.len() as u64).collect::<Vec<_>>());
        }
    }
}

fn task(state: &str, artifacts: &Value) -> Value {
    json!({"task": {"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts}})
}

fn chunk(text: &str) -> Value {
    let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true}})
}

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}})
}

fn parts(texts: &[&str]) -> Value {
    let parts: Vec<_> = texts.iter().map(|text| json!({"text": text})).collect();
    json!([{"artifactId": "a", "parts": parts}])
}

/// A client that gives up soon.
async fn hasty(peer: &Peer) -> sdk::Client {
    sdk::Client::builder().stream_resumes(2).retries(0).connect(&peer.url).await.expect("a peer")
}

#[tokio::test]
async fn a_peer_that_only_gives_snapshots_tells_nothing_twice() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::cut(&heard.stream(&[
            (0, task(WORKING, &json!([]))),
            (0, chunk("one ")),
            (0, chunk("two ")),
        ])),
        1 => Reply::cut(
            &heard.stream(&[(0, task(WORKING, &parts(&["one ", "two ", "three "]))), (0, chunk("four "))]),
        ),
        _ => Reply::events(heard.stream(&[
            (0, task(WORKING, &parts(&["one ", "two ", "three ", "four "]))),
            (0, chunk("five")),
            (0, status(COMPLETED)),
        ])),
    })
    .await;
    let client = hasty(&peer).await;
    let (all, error) = drain(&mut client.stream("go").await.expect("a stream")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!((told(&all).as_str(), last_state(&all)), ("one two three four five", TaskState::Completed));
    let methods: Vec<_> = peer.calls().iter().map(|call| call.json()["method"].clone()).collect();
    assert_eq!(methods, ["SendStreamingMessage", "SubscribeToTask", "SubscribeToTask"]);
}

#[tokio::test]
async fn a_task_that_ended_meanwhile_is_looked_up() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::cut(&heard.stream(&[(3, task(WORKING, &json!([])))])),
        1 => heard.error(-32004),
        _ => heard.result(&task(COMPLETED, &parts(&["all"]))["task"]),
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!((all.len(), last_state(&all)), (2, TaskState::Completed));
    let calls = peer.calls();
    assert_eq!(calls[1].header("last-event-id"), Some("3"));
    assert_eq!((&calls[2].json()["method"], calls[2].header("last-event-id")), (&json!("GetTask"), None));
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_again_ends_with_an_error() {
    // The peer goes away, the peer does not stream this task though it goes on, the peer knows nothing of it.
    for nth in 0..3 {
        let peer = Peer::agent("JSONRPC", false, move |at, heard| match (at, nth) {
            (0, _) => Reply::cut(&heard.stream(&[(1, task(WORKING, &json!([]))), (2, chunk("x"))])),
            (_, 0) => Reply::Raw(Vec::new()),
            (1, 1) => heard.error(-32004),
            (_, 1) => heard.result(&task(WORKING, &json!([]))["task"]),
            _ => heard.error(-32001),
        })
        .await;
        let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
        assert_eq!(all.len(), 2);
        match error.expect("never a clean end") {
            ClientError::StreamCut { last_event: 2, .. } if nth < 2 => {}
            ClientError::Peer(error) if nth == 2 => assert_eq!(error.code(), ErrorCode::TaskNotFound),
            other => panic!("{other}"),
        }
        assert_eq!(peer.calls().len(), [3, 3, 2][nth]);
    }
}

#[tokio::test]
async fn an_end_before_the_task_ended_is_a_cut() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::events(heard.stream(&[(0, task(WORKING, &json!([])))])),
        _ => Reply::events(String::new()),
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert_eq!(all.len(), 1);
    assert!(matches!(error, Some(ClientError::StreamCut { .. })), "{error:?}");
    // The same in a state that waits for somebody is an end.
    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        Reply::events(heard.stream(&[(0, task(WORKING, &json!([]))), (0, status(INPUT_REQUIRED))]))
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert!(all.len() == 2 && error.is_none(), "{error:?}");
}

#[tokio::test]
async fn a_gap_is_an_error() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::cut(&heard.stream(&[(1, task(WORKING, &json!([]))), (2, chunk("x"))])),
        _ => Reply::events(heard.stream(&[(5, chunk("y")), (6, status(COMPLETED))])),
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert_eq!(numbers(&all), [1, 2]);
    assert!(
        matches!(&error, Some(ClientError::StreamCut { last_event: 2, why }) if why.contains("3 to 4")),
        "{error:?}"
    );
}

#[tokio::test]
async fn before_the_task_is_known_only_a_key_helps() {
    for idempotent in [false, true] {
        let peer = Peer::agent("JSONRPC", idempotent, |at, heard| match at {
            0 => Reply::cut(": hello\n\n"),
            _ => Reply::events(heard.stream(&[(1, task(WORKING, &json!([]))), (2, status(COMPLETED))])),
        })
        .await;
        let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
        let calls = peer.calls();
        if idempotent {
            assert!(all.len() == 2 && error.is_none(), "{error:?}");
            let key = calls[0].header("idempotency-key").expect("a key");
            assert_eq!(calls[1].header("idempotency-key"), Some(key));
            assert_eq!(calls[0].json()["params"], calls[1].json()["params"]);
        } else {
            assert!(matches!(&error, Some(ClientError::StreamCut { last_event: 0, .. })), "{error:?}");
            assert_eq!(calls.len(), 1);
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_is_told_by_both_bindings() {
    let failed = json!({"code": 500, "status": "INTERNAL", "message": "as told"});
    let peer = Peer::agent("HTTP+JSON", false, move |_, _| {
        let frames = sse(&[(1, task(WORKING, &json!([]))), (0, json!({"error": failed}))]);
        Reply::events(frames.replace("data: {\"error\"", "event: error\ndata: {\"error\""))
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert_eq!((all.len(), error.and_then(|error| error.code())), (1, Some(ErrorCode::Internal)));

    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        let error =
            json!({"jsonrpc": "2.0", "id": heard.json()["id"], "error": {"code": -32603, "message": "x"}});
        Reply::events(heard.stream(&[(1, task(WORKING, &json!([])))]) + &sse(&[(0, error)]))
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert_eq!((all.len(), error.and_then(|error| error.code())), (1, Some(ErrorCode::Internal)));
}

#[tokio::test]
async fn a_peer_that_says_come_back_is_come_back_to() {
    let busy = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "restarting"}});
    let peer = Peer::agent("HTTP+JSON", false, move |at, heard| match at {
        0 => Reply::events(sse(&[(1, task(WORKING, &json!([]))), (0, busy.clone())])),
        // It knows only the verb of the proto.
        _ if heard.line().starts_with("POST") => Reply::json(405, &json!({})),
        _ => Reply::events(sse(&[(2, status(COMPLETED))])),
    })
    .await;
    let (all, error) = drain(&mut hasty(&peer).await.stream("go").await.expect("a stream")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(numbers(&all), [1, 2]);
    let lines: Vec<_> = peer.calls().iter().map(|call| call.line().to_owned()).collect();
    assert_eq!(lines, ["POST /message:stream", "POST /tasks/t:subscribe", "GET /tasks/t:subscribe"]);
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_asked_again() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::silent(&heard.stream(&[(1, task(WORKING, &json!([])))])),
        _ => Reply::events(heard.stream(&[(2, status(COMPLETED))])),
    })
    .await;
    let client = sdk::Client::builder()
        .stream_idle_timeout(Duration::from_millis(50))
        .connect(&peer.url)
        .await
        .expect("a peer");
    let (all, error) = drain(&mut client.stream("go").await.expect("a stream")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(numbers(&all), [1, 2]);
}

#[tokio::test]
async fn a_peer_that_never_hangs_up_does_not_hold_up_the_end() {
    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        Reply::silent(&heard.stream(&[(1, task(WORKING, &json!([]))), (2, status(COMPLETED))]))
    })
    .await;
    let client = sdk::Client::builder()
        .stream_idle_timeout(Duration::from_millis(50))
        .connect(&peer.url)
        .await
        .expect("a peer");
    let (all, error) = drain(&mut client.stream("go").await.expect("a stream")).await;
    assert!(all.len() == 2 && error.is_none(), "{error:?}");
    assert_eq!(peer.calls().len(), 1);
}

#[tokio::test]
async fn what_is_no_stream_is_refused() {
    type Script = fn(&Heard) -> Reply;
    let scripts: [(Script, &str); 5] = [
        (|heard| heard.result(&json!({"task": {}})), "text/event-stream"),
        (|_| Reply::events(format!("data: {}\n\n", "x".repeat(5000))), "larger"),
        (|_| Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n".to_owned()), "`id`"),
        (|_| Reply::events("data: hello\n\n".to_owned()), "not a JSON-RPC response"),
        (|heard| Reply::events(heard.stream(&[(0, json!({"surprise": 1}))])), "expected one of task"),
    ];
    for (script, expected) in scripts {
        let peer = Peer::agent("JSONRPC", false, move |_, heard| script(heard)).await;
        let client = sdk::Client::builder().max_event_bytes(4096).connect(&peer.url).await.expect("a peer");
        let error = match client.stream("go").await {
            Ok(mut events) => drain(&mut events).await.1.expect("an error"),
            Err(error) => error,
        };
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn only_so_many_streams_are_open_at_a_time() {
    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        Reply::silent(&heard.stream(&[(1, task(WORKING, &json!([])))]))
    })
    .await;
    let client = sdk::Client::builder()
        .max_streams(1)
        .request_timeout(Duration::from_secs(1))
        .connect(&peer.url)
        .await
        .expect("a peer");
    let first = client.stream("go").await.expect("a stream");
    let second = client.stream("go").await.expect_err("no place");
    assert!(matches!(second, ClientError::TimedOut { what, .. } if what.contains("place")), "{second}");
    drop(first);
    client.stream("go").await.expect("a place again");
}
