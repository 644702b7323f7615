//! To the agent all callers are the relay. Here each sees only what is theirs.

use chancery_sdk::{ErrorCode, TaskId};
use serde_json::{Value, json};

use crate::pair::*;
use crate::support::*;

fn questions(id: &str) -> Vec<(&'static str, Value)> {
    let config = json!({"taskId": id, "url": "https://receiver.example/"});
    vec![
        ("GetTask", json!({"id": id})),
        ("CancelTask", json!({"id": id})),
        ("SubscribeToTask", json!({"id": id})),
        ("SendMessage", json!({"message": follow_up(id, "mine now")})),
        ("SendStreamingMessage", json!({"message": follow_up(id, "mine now")})),
        ("CreateTaskPushNotificationConfig", config),
    ]
}

/// An agent that keeps everything open, and the relay to it.
async fn open_tasks() -> (Peer, Site) {
    let peer = Peer::agent("JSONRPC", false, |at, heard| {
        let status = json!({"state": "TASK_STATE_INPUT_REQUIRED"});
        heard.result(&json!({"task": {"id": format!("task-{at}"), "contextId": "c", "status": status}}))
    })
    .await;
    let relay = serve_relay(&peer.url, Wire::JsonRpc).await;
    (peer, relay)
}

#[tokio::test]
async fn foreign_and_unknown_tasks_are_answered_alike_and_nobody_is_asked() {
    let (peer, relay) = open_tasks().await;
    let task = id(&relay.jsonrpc().by("r", "ann").say("hello").await);
    assert_eq!(peer.calls().len(), 1);
    for (realm, owner) in [("r", "bob"), ("s", "ann")] {
        let stranger = relay.jsonrpc().by(realm, owner);
        let unknown = TaskId::generate().to_string();
        for ((method, real), (_, none)) in questions(&task).iter().zip(questions(&unknown)) {
            let mut answers = Vec::new();
            for (params, id) in [(real, &task), (&none, &unknown)] {
                let answer = stranger.try_open(method, &params.to_string()).await.err().expect("no stream");
                answer.refused(ErrorCode::TaskNotFound);
                answers.push((answer.status, answer.body.replace(id.as_str(), "ID")));
            }
            assert_eq!(answers[0], answers[1], "{method}");
        }
        let listed = stranger.call("ListTasks", json!({})).await.result();
        assert_eq!(listed["totalSize"], 0);
    }
    assert_eq!(peer.calls().len(), 1);
}

#[tokio::test]
async fn the_agent_is_not_asked_about_what_the_caller_may_not_see() {
    let (peer, relay) = open_tasks().await;
    let foreign = id(&relay.jsonrpc().by("r", "ann").say("hello").await);
    let bob = relay.jsonrpc().by("r", "bob");
    let own = id(&bob.say("hello").await);
    let own_there = "task-1";
    let mut said = message("refine them");
    said["referenceTaskIds"] = json!([foreign, own, "unknown"]);
    bob.send(said).await.task();
    let last = peer.calls().pop().expect("a call").json();
    assert_eq!(last["params"]["message"]["referenceTaskIds"], json!([own_there]));
}

#[tokio::test]
async fn an_agent_that_nobody_trusts_is_not_told_what_callers_say_of_themselves() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| {
        let status = json!({"state": "TASK_STATE_COMPLETED"});
        heard.result(&json!({"task": {"id": format!("task-{at}"), "contextId": "c", "status": status}}))
    })
    .await;
    for (trusted, is_told) in [(true, true), (false, false)] {
        let relay = chancery_sdk::Relay::connect(&peer.url).await.expect("it is there");
        let relay = if trusted { relay } else { relay.untrusted() };
        let site = serve_with(|server| server.relay_at("", relay)).await;
        let about = json!({"urn:chancery:ext:lineage:v1": {"token": "hush"}, "ruvector": {"identity": "hush"}, "mine": 1});
        let mut said = message("hello");
        said["metadata"] = about.clone();
        site.jsonrpc().call("SendMessage", json!({"message": said, "metadata": about})).await.result();
        let heard = peer.calls().last().expect("it was called").body.clone();
        assert_eq!(heard.contains("hush"), is_told, "{heard}");
        assert_eq!(heard.matches("\"mine\":1").count(), 2, "{heard}");
    }
}
