//! A send with an Idempotency-Key is run once, however often it is sent.

mod support;

use std::sync::Arc;

use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{AgentSpec, ErrorCode, Outcome, Turn};
use serde_json::{Value, json};
use support::*;
use tokio::sync::Semaphore;

const KEY: &str = "idempotency-key";

/// Says its text once there is a permit; counts its runs. Asks back if it is told to.
fn counted(runs: &Counter, permits: &Arc<Semaphore>) -> AgentSpec {
    let (runs, permits) = (runs.clone(), permits.clone());
    agent(move |turn: Turn| {
        let (runs, permits) = (runs.clone(), permits.clone());
        async move {
            runs.add();
            turn.working("on").await?;
            permits.acquire().await?.forget();
            Ok(if turn.text() == "ask" { turn.ask("what?") } else { Outcome::text(turn.text()) })
        }
    })
}

async fn site(permits: usize) -> (Site, Counter, Arc<Semaphore>) {
    let (runs, permits) = (Counter::default(), Arc::new(Semaphore::new(permits)));
    (serve(counted(&runs, &permits)).await, runs, permits)
}

fn params(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

#[tokio::test]
async fn a_repeat_returns_the_same_task_on_either_binding() {
    let (site, runs, _permits) = site(1).await;
    let mut answers = Vec::new();
    for wire in [Wire::JsonRpc, Wire::Rest, Wire::JsonRpc, Wire::Rest] {
        let client = site.client(wire).with(KEY, "k");
        answers.push(client.call("SendMessage", params("hi")).await.task());
    }
    assert_eq!((state(&answers[0]), text(&answers[0]["artifacts"][0])), (COMPLETED, "hi"));
    assert!(answers.iter().all(|task| *task == answers[0]));
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_repeat_may_be_addressed_and_vouched_for_otherwise() {
    let (site, runs, _permits) = site(1).await;
    let client = site.jsonrpc().with(KEY, "k");
    let first = client.call("SendMessage", params("hi")).await.task();
    let mut again = params("hi");
    again["tenant"] = json!("tester");
    let lineage = json!({"urn:chancery:ext:lineage:v1": {"token": "another"}});
    (again["metadata"], again["message"]["metadata"]) = (lineage.clone(), lineage);
    assert_eq!(client.call("SendMessage", again).await.task(), first);
    assert_eq!(runs.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeats_in_flight_join_the_first() {
    let (site, runs, permits) = site(0).await;
    let sends: Vec<_> = (0..8)
        .map(|number| {
            let client = site.client(WIRES[number % 2]).with(KEY, "k");
            tokio::spawn(async move { client.call("SendMessage", params("hi")).await.task() })
        })
        .collect();
    let started = site.rest().with(KEY, "k");
    let mut at_once = params("hi");
    until("the task to be worked on", || async {
        site.rest().call("ListTasks", json!({"status": WORKING})).await.result()["totalSize"] == 1
    })
    .await;
    // How the answer is wanted is part of the request: with another configuration it is another one.
    at_once["configuration"] = json!({"returnImmediately": true});
    let refused = started.call("SendMessage", at_once).await;
    refused.refused_with(ErrorCode::InvalidParams, "IDEMPOTENCY_KEY_REUSED");
    permits.add_permits(8);
    let mut tasks = Vec::new();
    for send in sends {
        tasks.push(within("a joined send", send).await.expect("a task"));
    }
    assert_eq!(state(&tasks[0]), COMPLETED);
    assert!(tasks.iter().all(|task| *task == tasks[0]));
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn another_body_under_the_same_key_is_refused() {
    let (site, runs, _permits) = site(2).await;
    for wire in WIRES {
        let client = site.client(wire).with(KEY, &format!("k-{wire:?}"));
        client.call("SendMessage", params("one")).await.task();
        let answer = client.call("SendMessage", params("two")).await;
        let refused = answer.refused_with(ErrorCode::InvalidParams, "IDEMPOTENCY_KEY_REUSED");
        assert_eq!(refused.field, "Idempotency-Key");
        let stream = client.try_open("SendStreamingMessage", &params("two").to_string()).await;
        let answer = stream.err().expect("no stream");
        answer.refused_with(ErrorCode::InvalidParams, "IDEMPOTENCY_KEY_REUSED");
        assert_eq!(state(&client.call("SendMessage", params("one")).await.task()), COMPLETED);
    }
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn a_refused_send_does_not_use_up_its_key() {
    let (site, runs, _permits) = site(1).await;
    let client = site.jsonrpc().with(KEY, "k");
    let mut bad = params("hi");
    bad["message"]["role"] = json!("ROLE_AGENT");
    client.call("SendMessage", bad).await.refused(ErrorCode::InvalidParams);
    let unknown = json!({"message": follow_up("no-such-task", "hi")});
    client.call("SendMessage", unknown).await.refused(ErrorCode::TaskNotFound);
    let old = client.clone().with("a2a-version", "99.0").call("SendMessage", params("no")).await;
    old.refused(ErrorCode::VersionNotSupported);
    assert_eq!(state(&client.call("SendMessage", params("hi")).await.task()), COMPLETED);
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn keys_are_of_one_caller_and_one_agent() {
    let (runs, permits) = (Counter::default(), Arc::new(Semaphore::new(4)));
    let spec = |name| {
        let (runs, permits) = (runs.clone(), permits.clone());
        AgentSpec::new(
            name,
            script(move |turn: Turn| {
                let (runs, permits) = (runs.clone(), permits.clone());
                async move {
                    runs.add();
                    permits.acquire().await?.forget();
                    Ok(Outcome::text(turn.text()))
                }
            }),
        )
    };
    let site = serve_with(|server| server.fleet_agent(spec("one")).fleet_agent(spec("two"))).await;
    let mut ids = Vec::new();
    for (agent, owner) in [("one", "ann"), ("one", "bob"), ("two", "ann"), ("two", "bob")] {
        let client = site.rest().at(&format!("/agents/{agent}")).by("r", owner).with(KEY, "k");
        // What each sends is another body, which under a shared key would be refused.
        ids.push(id(&client.call("SendMessage", params(&format!("{agent} {owner}"))).await.task()));
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), runs.get()), (4, 4));
}

#[tokio::test]
async fn a_repeated_stream_replays_the_first() {
    let (site, runs, permits) = site(0).await;
    for wire in WIRES {
        let client = site.client(wire).with(KEY, &format!("k-{wire:?}"));
        let mut first = client.open("SendStreamingMessage", params("hi")).await;
        let mut seen = first.through(|event| event.is(WORKING)).await;
        let mut second = client.open("SendStreamingMessage", params("hi")).await;
        permits.add_permits(1);
        seen.extend(first.rest().await);
        assert!(seen[seen.len() - 1].is(COMPLETED));
        assert_eq!(second.rest().await, seen);
        // Also when all is over, and as a plain send.
        assert_eq!(client.open("SendStreamingMessage", params("hi")).await.rest().await, seen);
        let task = client.call("SendMessage", params("hi")).await.task();
        assert_eq!(task["id"], seen[0].payload()["task"]["id"]);
    }
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn a_repeated_stream_closes_where_the_agent_asked_back() {
    let (site, runs, permits) = site(0).await;
    let client = site.rest().with(KEY, "k");
    let mut first = client.open("SendStreamingMessage", params("ask")).await;
    let mut seen = first.through(|event| event.is(WORKING)).await;
    let mut joined = client.open("SendStreamingMessage", params("ask")).await;
    permits.add_permits(1);
    seen.extend(first.rest().await);
    assert!(seen[seen.len() - 1].is(INPUT_REQUIRED));
    assert_eq!(joined.rest().await, seen);
    assert_eq!(client.open("SendStreamingMessage", params("ask")).await.rest().await, seen);
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_repeated_follow_up_runs_once() {
    let (site, runs, permits) = site(1).await;
    let client = site.jsonrpc();
    let task = id(&client.call("SendMessage", params("ask")).await.task());
    let keyed = client.clone().with(KEY, "k");
    let mut next = params("ask");
    next["message"]["taskId"] = json!(task);
    permits.add_permits(1);
    let first = keyed.call("SendMessage", next.clone()).await.task();
    assert_eq!(keyed.call("SendMessage", next.clone()).await.task(), first);
    assert_eq!(runs.get(), 2);
    // Without the key it is another message.
    permits.add_permits(1);
    client.call("SendMessage", next).await.task();
    assert_eq!(runs.get(), 3);
}

/// The first may be looked up, taken or done when another comes: none is refused for what the first has done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_follow_ups_in_flight_join_the_first() {
    const ROUNDS: usize = 30;
    let (runs, permits) = (Counter::default(), Arc::new(Semaphore::new(10 * ROUNDS)));
    // In a file, where a look takes its time.
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("tasks.db").display());
    let store = Arc::new(Store::open(&url, StoreLimits::default()).expect("a store"));
    let site = serve_with(|server| server.agent(counted(&runs, &permits)).store(store)).await;
    for round in 0..ROUNDS {
        let task = id(&site.rest().call("SendMessage", params("ask")).await.task());
        let mut next = params("hi");
        next["message"]["taskId"] = json!(task);
        let sends: Vec<_> = (0..6)
            .map(|number| {
                let (client, next) = (site.client(WIRES[number % 2]).with(KEY, &task), next.clone());
                tokio::spawn(async move { client.call("SendMessage", next).await.task() })
            })
            .collect();
        for send in sends {
            let answer = within("a joined send", send).await.expect("a task");
            assert_eq!((state(&answer), &answer["id"]), (COMPLETED, &json!(task)));
        }
        assert_eq!(runs.get(), 2 * (round + 1));
    }
}

#[tokio::test]
async fn a_repeated_message_in_the_queue_waits_once() {
    let (site, runs, permits) = site(0).await;
    let client = site.jsonrpc();
    let task = id(&client.start_with(params("ask")["message"].clone()).await.task());
    client.wait_for(&task, WORKING).await;
    let keyed = client.clone().with(KEY, "k");
    let mut next = params("hi");
    next["message"]["taskId"] = json!(task);
    next["configuration"] = json!({"returnImmediately": true});
    for _ in 0..3 {
        assert_eq!(id(&keyed.call("SendMessage", next.clone()).await.task()), task);
    }
    permits.add_permits(5);
    client.wait_for(&task, COMPLETED).await;
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn a_direct_answer_is_repeated_with_its_key() {
    let runs = Counter::default();
    let spec = script({
        let runs = runs.clone();
        move |_| {
            runs.add();
            async { Ok(Outcome::reply("done")) }
        }
    });
    let client = serve(AgentSpec::new("direct", spec.direct())).await.rest().with(KEY, "k");
    let answer = client.call("SendMessage", params("hi")).await.result();
    assert_eq!(text(&answer["message"]), "done");
    assert_eq!(client.call("SendMessage", params("hi")).await.result(), answer);
    assert_eq!(runs.get(), 1);
    assert_eq!(client.call("ListTasks", json!({})).await.result()["totalSize"], 0);
}

#[tokio::test]
async fn a_key_must_be_of_sensible_length() {
    let (site, runs, _permits) = site(9).await;
    for wire in WIRES {
        for key in [String::new(), "k".repeat(256)] {
            let answer = site.client(wire).with(KEY, &key).call("SendMessage", params("hi")).await;
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, "Idempotency-Key");
        }
    }
    assert_eq!(runs.get(), 0);
}

#[tokio::test]
async fn what_may_be_said_once_is_refused_when_it_comes_twice() {
    let (site, runs, _permits) = site(9).await;
    for (name, values) in [
        ("idempotency-key", ["one", "other"]),
        ("x-budget-usd", ["0.05", "5"]),
        ("chancery-lineage", ["one", "other"]),
    ] {
        for wire in WIRES {
            let client = site.client(wire).with(name, values[0]).with_another(name, values[1]);
            let answer = client.call("SendMessage", params("hi")).await;
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, name);
        }
    }
    assert_eq!(runs.get(), 0);
}
