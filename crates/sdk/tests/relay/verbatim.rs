//! What the user of an agent writes (metadata, data, extension params) is passed on token for token. Ids and times are ours, and
//! fields that the protocol does not know are dropped.

use chancery_sdk::testing::{Peer, Reply};

use crate::pair::*;
use crate::support::*;

/// What agents write for their callers, with spellings that a parser would change.
const WRITTEN: &str = r#"{"n":1.0,"b":1e3,"a":12345678901234567890,"text":"\u0041"}"#;

fn task() -> String {
    format!(
        r#"{{"task":{{"status":{{"state":"TASK_STATE_COMPLETED"}},"contextId":"c","id":"t","ofTomorrow":[1.0],"metadata":{WRITTEN},"artifacts":[{{"metadata":{WRITTEN},"parts":[{{"data":{WRITTEN},"metadata":{WRITTEN}}}],"artifactId":"a"}}]}}}}"#
    )
}

fn piece(text: &str) -> String {
    format!(
        r#"{{"artifactUpdate":{{"append":true,"taskId":"t","contextId":"c","ofTomorrow":1.00,"metadata":{WRITTEN},"artifact":{{"parts":[{{"text":"{text}"}}],"artifactId":"a"}}}}}}"#
    )
}

fn events() -> Vec<String> {
    let begun =
        r#"{"task":{"ofTomorrow":0.10,"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
    let ended = format!(
        r#"{{"statusUpdate":{{"status":{{"state":"TASK_STATE_COMPLETED"}},"contextId":"c","taskId":"t","metadata":{WRITTEN}}}}}"#
    );
    let pieces = ["one", "two", "three", r"a \u0041", r#"x"},{"text":"y"#].map(piece);
    std::iter::once(begun.to_owned()).chain(pieces).chain([ended]).collect()
}

/// What stands around a result, as the call came by.
fn envelope(there: Wire, id: &serde_json::Value, result: &str) -> String {
    match there {
        Wire::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Wire::Rest => result.to_owned(),
    }
}

fn agent(there: Wire) -> Peer {
    let peer = Peer::script().card(binding(there)).answer_with(move |heard| {
        let body = envelope(there, &heard.json()["id"], &task());
        Reply::status(200).header("Content-Type", "application/json").body(body)
    });
    let peer = peer.answer_with(move |heard| {
        let frames = events().into_iter().map(|event| {
            let data = envelope(there, &heard.json()["id"], &event);
            format!("data: {data}\n\n")
        });
        Reply::events(frames.collect::<String>())
    });
    peer.start().expect("a port")
}

#[tokio::test]
async fn what_the_agent_wrote_is_passed_on_token_for_token() {
    for (caller, there) in [
        (Wire::JsonRpc, Wire::JsonRpc),
        (Wire::JsonRpc, Wire::Rest),
        (Wire::Rest, Wire::JsonRpc),
        (Wire::Rest, Wire::Rest),
    ] {
        let peer = agent(there);
        let relay = serve_relay(peer.url(), there).await;
        let client = relay.client(caller);
        let answer = client.send(message("go")).await;
        let entries = WRITTEN.trim_end_matches('}');
        assert_eq!(answer.body.matches(entries).count(), 4, "{}", answer.body);
        assert!(!answer.body.contains("ofTomorrow"), "{}", answer.body);
        // Another store than that of the first call, where the task is known already.
        let relay = serve_relay(peer.url(), there).await;
        let shown = relay.client(caller).stream(message("go")).await.rest().await;
        let told: Vec<_> = shown.iter().map(|event| event.data.clone()).collect();
        assert_eq!(told.len(), events().len());
        assert!(told[1..].iter().all(|told| told.contains(WRITTEN)), "{told:?}");
        // What it means is known all the same.
        let task = relay.client(caller).get(&id(&shown[0].payload()["task"])).await;
        let texts: Vec<_> = task["artifacts"][0]["parts"].as_array().unwrap().iter().map(text_of).collect();
        assert_eq!(texts, ["one", "two", "three", "a A", "x", "y"]);
    }
}

fn text_of(part: &serde_json::Value) -> &str {
    part["text"].as_str().expect("a text")
}

#[tokio::test]
async fn what_has_no_date_gets_one() {
    let peer = Peer::script()
        .card(binding(Wire::JsonRpc))
        .answer_with(|heard| {
            let task = serde_json::json!({"id": "t", "contextId": "c", "status": {"state": COMPLETED}});
            heard.result(&serde_json::json!({"task": task}))
        })
        .start()
        .expect("a port");
    let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
    let task = relay.jsonrpc().send(message("go")).await.task();
    assert!(task["status"]["timestamp"].is_string(), "{task}");
}

/// The agent writes more than any buffer between here and the client takes, and the client that began it reads
/// nothing more than its first event.
#[tokio::test]
async fn a_client_that_does_not_read_holds_nobody_up() {
    const PIECES: usize = 400;
    let peer = Peer::script()
        .card(binding(Wire::JsonRpc))
        .answer_with(|heard| {
            let long = "x".repeat(16 << 10);
            let mut events = events();
            let (last, first) = (events.pop().expect("an end"), events.remove(0));
            let pieces = std::iter::repeat_n(piece(&long), PIECES);
            let frames = std::iter::once(first)
                .chain(pieces)
                .chain([last])
                .map(|event| format!("data: {}\n\n", envelope(Wire::JsonRpc, &heard.json()["id"], &event)));
            Reply::events(frames.collect::<String>())
        })
        .start()
        .expect("a port");
    let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
    let mut unread = relay.jsonrpc().stream(message("go")).await;
    let begun = id(&unread.one().await.payload()["task"]);
    let task = relay.rest().wait_for(&begun, COMPLETED).await;
    assert_eq!(task["artifacts"][0]["parts"].as_array().map(Vec::len), Some(PIECES));
    // Nothing was lost for it either.
    assert_eq!(unread.rest().await.len(), PIECES + 1);
}
