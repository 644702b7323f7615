//! Names that clients give their tasks: each caller's own, the same after a restart, and never begun twice.

use std::sync::Arc;

use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{AgentSpec, Outcome, Server, Turn};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::agents::*;
use crate::support::{Counter, Site, agent, serve, serve_on, until, within};

/// Says its text once there is a permit; counts its turns.
fn gated() -> (AgentSpec, Counter, Arc<Semaphore>) {
    let (turns, permits) = (Counter::default(), Arc::new(Semaphore::new(0)));
    let (counted, gate) = (turns.clone(), permits.clone());
    let spec = agent(move |turn: Turn| {
        let (turns, permits) = (counted.clone(), gate.clone());
        async move {
            turns.add();
            permits.acquire().await?.forget();
            Ok(Outcome::text(turn.text()))
        }
    });
    (spec, turns, permits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_begun_twice_at_once_runs_once() {
    let (spec, turns, permits) = gated();
    let site = serve(spec).await;
    let sends: Vec<_> = (0..8)
        .map(|_| {
            let client = old(&site);
            tokio::spawn(async move { send(&client, "mine", "hello").await })
        })
        .collect();
    until("the agent to run", || async { turns.get() > 0 }).await;
    permits.add_permits(8);
    for sent in sends {
        let task = within("a send", sent).await.unwrap();
        assert_eq!((&task["id"], &task["status"]["state"]), (&json!("mine"), &json!("completed")));
    }
    assert_eq!(turns.get(), 1);
    // Whoever has not heard the answer may ask again.
    let again = send(&old(&site), "mine", "hello").await;
    assert_eq!((&again["status"]["state"], turns.get()), (&json!("completed"), 1));
    let mut stream = old(&site).open("tasks/sendSubscribe", say("mine", "hello")).await;
    assert_eq!(stream.rest().await.last().unwrap().payload()["final"], true);
    assert_eq!(turns.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_messages_to_one_new_name_are_one_task() {
    let (spec, turns, permits) = gated();
    let site = serve(spec).await;
    permits.add_permits(100);
    let sends: Vec<_> = (0..4)
        .map(|number| {
            let client = old(&site);
            tokio::spawn(async move { client.call("tasks/send", say("mine", &format!("hi {number}"))).await })
        })
        .collect();
    let (mut done, mut late) = (0, 0);
    for sent in sends {
        let answer = within("a send", sent).await.unwrap();
        match answer.json()["error"]["code"].as_i64() {
            None => done += 1,
            // It came when the task had ended, or while too many waited.
            Some(-32009) => late += 1,
            Some(other) => panic!("{other}: {answer:?}"),
        }
    }
    assert!(done >= 1 && done + late == 4 && turns.get() <= done, "{done} {late} {}", turns.get());
    let told = old(&site).call("tasks/get", json!({"id": "mine", "historyLength": 9})).await.result();
    assert!(told["history"].as_array().unwrap().len() >= turns.get());
}

#[tokio::test]
async fn everybody_has_names_of_their_own() {
    let site = serve(obedient()).await;
    let (alice, bob) = (old(&site).by("r", "alice"), old(&site).by("r", "bob"));
    let hers = send(&alice, "mine", "ask").await;
    assert_eq!(code(&bob.call("tasks/get", json!({"id": "mine"})).await), -32001);
    assert_eq!(code(&bob.call("tasks/cancel", json!({"id": "mine"})).await), -32001);
    assert_eq!(code(&old(&site).by("s", "alice").call("tasks/get", json!({"id": "mine"})).await), -32001);
    let his = send(&bob, "mine", "hello").await;
    assert_eq!(
        (&his["status"]["state"], &hers["status"]["state"]),
        (&json!("completed"), &json!("input-required"))
    );
    assert_ne!(his["sessionId"], hers["sessionId"]);
    assert_eq!(get(&alice, "mine").await["status"]["state"], "input-required");
    // Our own id for it is no name of hers.
    let listed = site.jsonrpc().by("r", "alice").call("ListTasks", json!({})).await.result();
    let ours = listed["tasks"][0]["id"].as_str().unwrap().to_owned();
    let task = alice.call("tasks/get", json!({"id": ours})).await.result();
    assert_eq!(task["kind"], "task", "a task of that id is there, for v0.3: {task}");
}

#[tokio::test]
async fn a_name_means_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("tasks.db").display());
    for round in 0..2 {
        let store = Arc::new(Store::open(&url, StoreLimits::default()).unwrap());
        let server =
            Server::builder().store(store.clone()).agent(obedient()).bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run_until(async { stopped.await.unwrap_or_default() }));
        let client = old(&Site { address, store: store.clone(), service: None });
        if round == 0 {
            send(&client, "mine", "ask").await;
        } else {
            assert_eq!(get(&client, "mine").await["status"]["state"], "input-required");
            let done = send(&client, "mine", "this one").await;
            assert_eq!((&done["id"], &done["status"]["state"]), (&json!("mine"), &json!("completed")));
        }
        drop(client);
        stop.send(()).unwrap();
        within("the server to stop", running).await.unwrap();
        // Connections may hold on to it for a moment longer.
        store.close();
    }
}

#[tokio::test]
async fn a_name_is_free_again_when_its_task_is_forgotten() {
    let mut limits = StoreLimits::default();
    limits.retention.max_tasks = 1;
    let site = serve_on(limits, |server| server.agent(obedient())).await;
    let client = old(&site);
    for _ in 0..3 {
        for name in ["one", "two", "three"] {
            let task = send(&client, name, "hello").await;
            assert_eq!((&task["id"], &task["status"]["state"]), (&json!(name), &json!("completed")));
        }
    }
}
