//! A call may say which id its new task gets: the versions of the protocol in which clients name their tasks need it.

mod support;

use std::sync::Arc;

use chancery_sdk::protocol::{Endpoint as _, GetTaskRequest, SendMessageRequest, SendMessageResponse};
use chancery_sdk::{AgentSpec, Call, ErrorCode, Outcome, Runtime, Turn};
use serde_json::json;
use support::*;
use tokio::sync::Semaphore;

/// Says its text once there is a permit; counts its runs.
fn counted(permits: usize) -> (Runtime, Counter, Arc<Semaphore>) {
    let (runs, permits) = (Counter::default(), Arc::new(Semaphore::new(permits)));
    let (counted, gate) = (runs.clone(), permits.clone());
    let spec: AgentSpec = agent(move |turn: Turn| {
        let (runs, permits) = (counted.clone(), gate.clone());
        async move {
            runs.add();
            permits.acquire().await?.forget();
            Ok(Outcome::text(turn.text()))
        }
    });
    (runtime(spec), runs, permits)
}

fn named(id: &str, text: &str, key: Option<&str>) -> Call<Box<SendMessageRequest>> {
    let message = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}});
    let mut call: Call<Box<SendMessageRequest>> = call("alice", &message);
    call.context.new_task = Some(id.into());
    call.context.idempotency_key = key.map(str::to_owned);
    call
}

fn id(sent: &SendMessageResponse<chancery_sdk::protocol::TaskView>) -> String {
    match sent {
        SendMessageResponse::Task(view) => view.task.id().to_string(),
        SendMessageResponse::Message(_) => panic!("a task was asked for"),
    }
}

#[tokio::test]
async fn a_new_task_gets_the_id_that_the_call_names() {
    let (runtime, runs, _permits) = counted(2);
    let sent = runtime.send_message(named("mine", "hi", None)).await.unwrap();
    assert_eq!(id(&sent), "mine");
    let get: Call<GetTaskRequest> = call("alice", &json!({"id": "mine"}));
    assert_eq!(runtime.get_task(get).await.unwrap().task.id().as_str(), "mine");
    let foreign: Call<GetTaskRequest> = call("bob", &json!({"id": "mine"}));
    assert_eq!(runtime.get_task(foreign).await.unwrap_err().code(), ErrorCode::TaskNotFound);
    let mut theirs = named("mine", "hi", None);
    theirs.context.principal.id = "bob".into();
    assert_eq!(id(&runtime.send_message(theirs).await.unwrap()), "mine");
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_before_anything_runs() {
    let (runtime, runs, _permits) = counted(2);
    runtime.send_message(named("mine", "hi", None)).await.unwrap();
    let refused = runtime.send_message(named("mine", "again", None)).await.unwrap_err();
    assert_eq!((refused.code(), refused.reason()), (ErrorCode::UnsupportedOperation, "TASK_EXISTS"));
    assert_eq!(runs.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_begin_one_task_at_once_one_runs() {
    let (runtime, runs, permits) = counted(0);
    let sends: Vec<_> = (0..16)
        .map(|_| {
            let runtime = runtime.clone();
            tokio::spawn(async move { runtime.send_message(named("mine", "hi", Some("k"))).await })
        })
        .collect();
    until("the agent to run", || async { runs.get() > 0 }).await;
    permits.add_permits(16);
    for send in sends {
        assert_eq!(id(&within("a send", send).await.unwrap().unwrap()), "mine");
    }
    assert_eq!(runs.get(), 1);
    assert_eq!(runtime.running_turns(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_twice_can_be_canceled() {
    let (runtime, runs, _permits) = counted(0);
    for round in 0..50 {
        let name = format!("mine-{round}");
        let sends: Vec<_> = (0..4)
            .map(|number| {
                let (runtime, name) = (runtime.clone(), name.clone());
                // Different messages with different keys: only the name says that it is the same task.
                let (text, key) = (format!("hi {number}"), format!("{round} {number}"));
                tokio::spawn(async move { runtime.send_message(named(&name, &text, Some(&key))).await })
            })
            .collect();
        until("the agent to run", || async { runs.get() == round + 1 }).await;
        let cancel = call("alice", &json!({"id": name}));
        runtime.cancel_task(cancel).await.unwrap();
        let mut taken = 0;
        for send in sends {
            taken += usize::from(within("a send", send).await.unwrap().is_ok());
        }
        assert_eq!(taken, 1);
        until("the turn to stop", || async { runtime.running_turns() == 0 }).await;
    }
}
