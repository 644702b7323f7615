//! What a caller may ask for with a send, a look or a list.

mod support;

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::{AgentSpec, Outcome, Turn, USAGE_EXTENSION, Usage};
use serde_json::{Value, json};
use support::*;
use tokio::sync::Semaphore;

/// Speaks, waits for a permit, and ends.
fn gated(permits: &Arc<Semaphore>) -> AgentSpec {
    let permits = permits.clone();
    agent(move |turn: Turn| {
        let permits = permits.clone();
        async move {
            turn.working("one").await?;
            turn.working("two").await?;
            permits.acquire().await?.forget();
            Ok(Outcome::text("done").saying("three"))
        }
    })
}

fn with(configuration: &Value) -> Value {
    json!({"message": message("hi"), "configuration": configuration})
}

fn said(task: &Value) -> Vec<&str> {
    task["history"].as_array().map(|said| said.iter().map(text).collect()).unwrap_or_default()
}

#[tokio::test]
async fn return_immediately_answers_while_the_turn_goes_on() {
    let permits = Arc::new(Semaphore::new(0));
    let site = serve(gated(&permits)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let started = client.call("SendMessage", with(&json!({"returnImmediately": true}))).await.task();
        assert!(["TASK_STATE_SUBMITTED", WORKING].contains(&state(&started)), "{started}");
        client.wait_for(&id(&started), WORKING).await;
        permits.add_permits(1);
        let done = client.wait_for(&id(&started), COMPLETED).await;
        assert_eq!(text(&done["artifacts"][0]), "done");
    }
}

#[tokio::test]
async fn a_blocking_send_waits_for_the_end() {
    let permits = Arc::new(Semaphore::new(0));
    let client = serve(gated(&permits)).await.rest();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call("SendMessage", with(&json!({"returnImmediately": false}))).await.task() }
    });
    until("the task to be worked on", || async {
        client.call("ListTasks", json!({"status": WORKING})).await.result()["totalSize"] == 1
    })
    .await;
    assert!(!waiting.is_finished());
    permits.add_permits(1);
    let task = within("the send", waiting).await.expect("an answer");
    assert_eq!((state(&task), text(&task["artifacts"][0])), (COMPLETED, "done"));
}

#[tokio::test]
async fn a_blocking_send_that_waits_too_long_gets_the_task_as_it_stands() {
    let permits = Arc::new(Semaphore::new(0));
    let site = serve(gated(&permits).blocking_timeout(Duration::from_millis(50))).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("hi").await;
        assert_eq!((state(&task), text(&task["status"]["message"])), (WORKING, "two"));
        permits.add_permits(1);
        let done = client.wait_for(&id(&task), COMPLETED).await;
        assert_eq!(text(&done["artifacts"][0]), "done");
    }
}

#[tokio::test]
async fn a_direct_answer_that_takes_too_long_becomes_a_task() {
    let permits = Arc::new(Semaphore::new(0));
    let spec = script({
        let permits = permits.clone();
        move |_| {
            let permits = permits.clone();
            async move {
                permits.acquire().await?.forget();
                Ok(Outcome::reply("late"))
            }
        }
    });
    let spec = AgentSpec::new("slow", spec.direct()).blocking_timeout(Duration::from_millis(50));
    let client = serve(spec).await.jsonrpc();
    let task = client.say("hi").await;
    permits.add_permits(1);
    let done = client.wait_for(&id(&task), COMPLETED).await;
    assert_eq!(text(&done["status"]["message"]), "late");
}

#[tokio::test]
async fn history_is_as_long_as_the_caller_wants() {
    let permits = Arc::new(Semaphore::new(1000));
    let site = serve(gated(&permits)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let whole = vec!["hi", "one", "two"];
        let mut last = Value::Null;
        for (length, expected) in [
            (Value::Null, whole.clone()),
            (json!(0), vec![]),
            (json!(1), vec!["two"]),
            (json!(2), vec!["one", "two"]),
            (json!(100), whole.clone()),
        ] {
            let mut configuration = json!({});
            if !length.is_null() {
                configuration["historyLength"] = length.clone();
            }
            last = client.call("SendMessage", with(&configuration)).await.task();
            assert_eq!(said(&last), expected, "send {length}");
            // Nothing is not an empty list: the key is absent.
            assert_eq!(last.get("history").is_none(), expected.is_empty());
            let mut look = configuration;
            look["id"] = last["id"].clone();
            assert_eq!(said(&client.call("GetTask", look.clone()).await.task()), expected, "get {length}");
            look.as_object_mut().expect("an object").remove("id");
            let listed = client.call("ListTasks", look).await.result();
            assert_eq!(said(&listed["tasks"][0]), expected, "list {length}");
        }
        // What is shown is not what is kept.
        assert_eq!(said(&client.get(&id(&last)).await), whole);
    }
}

#[tokio::test]
async fn the_agent_sees_which_media_types_the_client_takes() {
    let site = serve(agent(|turn: Turn| async move {
        let types = ["text/plain", "image/png", "application/json"];
        let accepted: Vec<_> = types.into_iter().filter(|kind| turn.accepts(kind)).collect();
        Ok(Outcome::text(accepted.join(" ")))
    }))
    .await;
    for wire in WIRES {
        for (modes, expected) in [
            (json!(["text/plain"]), "text/plain"),
            (json!(["image/*", "Application/JSON"]), "image/png application/json"),
            (json!([]), "text/plain image/png application/json"),
            (json!(["audio/wav"]), ""),
        ] {
            let params = with(&json!({"acceptedOutputModes": modes}));
            let task = site.client(wire).call("SendMessage", params).await.task();
            assert_eq!(text(&task["artifacts"][0]), expected);
        }
    }
}

#[tokio::test]
async fn lists_have_artifacts_only_if_asked() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        client.say("hi").await;
        for params in [json!({}), json!({"includeArtifacts": false})] {
            let listed = client.call("ListTasks", params).await;
            assert!(!listed.body.contains("artifacts"), "{}", listed.body);
        }
        let listed = client.call("ListTasks", json!({"includeArtifacts": true})).await.result();
        assert_eq!(text(&listed["tasks"][0]["artifacts"][0]), "hi");
    }
}

#[tokio::test]
async fn lists_are_paged_newest_first_without_gap_or_repeat() {
    let site = serve(echo()).await;
    let mut made = Vec::new();
    for number in 0..230 {
        made.push(id(&site.jsonrpc().say(&number.to_string()).await));
    }
    made.reverse();
    for wire in WIRES {
        let client = site.client(wire);
        for size in [100, 7, 50] {
            let (mut seen, mut token) = (Vec::new(), String::new());
            loop {
                let params = json!({"pageSize": size, "pageToken": token});
                let page = client.call("ListTasks", params).await.result();
                assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(size), &json!(230)));
                let tasks = page["tasks"].as_array().expect("tasks");
                assert!(tasks.len() == size || page["nextPageToken"] == "", "a short page is the last");
                seen.extend(tasks.iter().map(|task| (task["status"]["timestamp"].to_string(), id(task))));
                token = page["nextPageToken"].as_str().expect("a token").to_owned();
                if token.is_empty() {
                    break;
                }
            }
            assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "newest first, then by id");
            let mut ids: Vec<_> = seen.into_iter().map(|(_, id)| id).collect();
            let mut expected = made.clone();
            ids.sort();
            expected.sort();
            assert_eq!(ids, expected);
        }
        let page = client.call("ListTasks", json!({})).await.result();
        assert_eq!((page["tasks"].as_array().map(Vec::len), &page["pageSize"]), (Some(50), &json!(50)));
    }
}

#[tokio::test]
async fn the_task_whose_status_changed_last_comes_first() {
    let permits = Arc::new(Semaphore::new(0));
    let client = serve(gated(&permits)).await.jsonrpc();
    let first = client.start("a").await;
    client.wait_for(&id(&first), WORKING).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let second = client.start("b").await;
    client.wait_for(&id(&second), WORKING).await;
    let order = || async {
        let listed = client.call("ListTasks", json!({})).await.result();
        listed["tasks"].as_array().expect("tasks").iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(order().await, [id(&second), id(&first)]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    permits.add_permits(1);
    client.wait_for(&id(&first), COMPLETED).await;
    assert_eq!(order().await, [id(&first), id(&second)]);
}

#[tokio::test]
async fn lists_are_filtered_by_state_context_and_time() {
    let site = serve(agent(|turn: Turn| async move {
        Ok(if turn.text() == "ask" { turn.ask("what?") } else { Outcome::completed() })
    }))
    .await;
    for wire in WIRES {
        let client = site.client(wire).by("r", &format!("{wire:?}"));
        let count = |filter: Value| {
            let client = client.clone();
            async move { client.call("ListTasks", filter).await.result()["totalSize"].as_u64() }
        };
        let old = client.say("stop").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let new = client.say("ask").await;
        assert_eq!(count(json!({"status": INPUT_REQUIRED})).await, Some(1));
        assert_eq!(count(json!({"status": COMPLETED})).await, Some(1));
        assert_eq!(count(json!({"status": FAILED})).await, Some(0));
        assert_eq!(count(json!({"contextId": new["contextId"]})).await, Some(1));
        let both = json!({"contextId": new["contextId"], "status": COMPLETED});
        assert_eq!(count(both).await, Some(0));
        // The time itself is included, and may be written with an offset.
        let since = |task: &Value| json!({"statusTimestampAfter": task["status"]["timestamp"]});
        assert_eq!(count(since(&old)).await, Some(2));
        assert_eq!(count(since(&new)).await, Some(1));
        let stamp = new["status"]["timestamp"].as_str().expect("a time").replace('Z', "+00:00");
        assert_eq!(count(json!({"statusTimestampAfter": stamp})).await, Some(1));
        assert_eq!(count(json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"})).await, Some(0));
    }
}

#[tokio::test]
async fn usage_adds_up_and_stands_in_the_metadata() {
    let site = serve(agent(|turn: Turn| async move {
        turn.usage(Usage { input_tokens: 10, output_tokens: 1, cost_micro_usd: 100 });
        turn.working("on").await?;
        turn.usage(Usage { input_tokens: 5, output_tokens: 2, ..Usage::default() });
        Ok(Outcome::completed())
    }))
    .await;
    for wire in WIRES {
        let client = site.client(wire);
        let expected = json!({"inputTokens": 15, "outputTokens": 3, "costMicroUsd": 100});
        let task = client.say("hi").await;
        assert_eq!(task["metadata"][USAGE_EXTENSION], expected);
        let last = client.stream(message("hi")).await.rest().await.pop().expect("a last event");
        assert_eq!(last.payload()["statusUpdate"]["metadata"][USAGE_EXTENSION], expected);
    }
}
