//! Notifications are posted from here. The agent is not told who wants them.

use chancery_sdk::egress::Egress;
use chancery_sdk::testing::{Heard, Peer, Reply};
use chancery_sdk::{Outcome, Turn};
use serde_json::{Value, json};

use crate::pair::*;
use crate::support::COMPLETED;
use crate::support::{Site, Wire, agent, follow_up, id, message, serve, serve_with, until};

async fn serve_pushing(url: &str, there: impl Into<There>) -> Site {
    let relay = relay(url, there).await;
    let egress = Egress::default().allow("127.0.0.0/8".parse().expect("a range"));
    serve_with(|server| server.relay_at("", relay).egress(egress)).await
}

/// Somebody who takes notifications.
fn receiver() -> Peer {
    Peer::script().answer(Reply::status(204)).start().expect("a port")
}

/// What a receiver was sent, once it was sent the end.
async fn posted(receiver: &Peer, task: &str) -> Vec<Value> {
    let ended = || async { receiver.heard().last().is_some_and(|heard| heard.body.contains(COMPLETED)) };
    until("the last notification", ended).await;
    let events: Vec<_> = receiver.heard().iter().map(Heard::json).collect();
    for event in &events {
        let payload = event.as_object().and_then(|event| event.values().next()).expect("a payload");
        assert_eq!(payload.get("taskId").or(payload.get("id")).expect("a task"), task, "{event}");
    }
    events
}

#[tokio::test]
async fn whoever_registers_with_a_message_is_posted_every_event() {
    for (caller, there) in WAYS {
        let spec = agent(|turn: Turn| async move {
            turn.working("on it").await?;
            tokio::task::yield_now().await;
            Ok(Outcome::text("done"))
        });
        // The agent itself notifies nobody.
        let agent = serve(spec.push_notifications(false)).await;
        let relay = serve_pushing(&format!("http://{}", agent.address), there).await;
        let client = relay.client(caller);
        for method in ["SendMessage", "SendStreamingMessage"] {
            let receiver = receiver();
            let config = json!({"url": receiver.url(), "token": "tok"});
            let configuration = json!({"taskPushNotificationConfig": config});
            let params = json!({"message": message("go"), "configuration": configuration});
            let task = if method == "SendMessage" {
                id(&client.call(method, params).await.task())
            } else {
                let events = client.open(method, params).await.rest().await;
                id(&events[0].payload()["task"])
            };
            let events = posted(&receiver, &task).await;
            assert!(events[0].get("task").is_some(), "{events:?}");
            let configs = client.call("ListTaskPushNotificationConfigs", json!({"taskId": task}));
            if caller == Wire::JsonRpc {
                assert_eq!(configs.await.result()["configs"][0]["taskId"], json!(task));
            }
        }
    }
}

#[tokio::test]
async fn whoever_registers_for_a_task_that_waits_hears_how_it_goes_on() {
    let spec = agent(|turn: Turn| async move {
        Ok(match turn.task() {
            None => turn.ask("Which one?"),
            Some(_) => Outcome::text(turn.text()),
        })
    });
    let agent = serve(spec).await;
    let relay = serve_pushing(&format!("http://{}", agent.address), Wire::Rest).await;
    let client = relay.jsonrpc();
    let task = id(&client.say("one of them").await);
    let receiver = receiver();
    let config = json!({"taskId": task, "url": receiver.url()});
    client.call("CreateTaskPushNotificationConfig", config).await.result();
    client.send(follow_up(&task, "this one")).await.task();
    let events = posted(&receiver, &task).await;
    assert!(events[0].get("statusUpdate").is_some(), "{events:?}");
    assert!(events.iter().any(|event| event.get("artifactUpdate").is_some()), "{events:?}");
    // Nobody is registered there.
    let there = newest(&agent).await;
    let there = agent.jsonrpc().call("ListTaskPushNotificationConfigs", json!({"taskId": there})).await;
    assert_eq!(there.result().get("configs"), None);
}
