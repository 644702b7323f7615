//! Cancelling stops the work, at once and for good.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_sdk::protocol::SendMessageResponse;
use chancery_sdk::{AgentSpec, Endpoint, ErrorCode, Outcome, Turn};
use futures_util::FutureExt as _;
use serde_json::json;
use support::*;
use tokio::sync::Notify;

/// Works for ever; says when its future and its spawned helper have stopped.
fn stoppable(dropped: &Counter, helper_stopped: &Arc<Notify>) -> AgentSpec {
    let (dropped, helper_stopped) = (dropped.clone(), helper_stopped.clone());
    agent(move |turn: Turn| {
        let (guard, helper_stopped) = (OnDrop(dropped.clone()), helper_stopped.clone());
        async move {
            let _guard = guard;
            let stop = turn.cancellation();
            tokio::spawn(async move {
                stop.cancelled().await;
                helper_stopped.notify_one();
            });
            turn.working("on").await?;
            std::future::pending().await
        }
    })
}

#[tokio::test]
async fn cancel_stops_the_agent_and_its_helpers() {
    for wire in WIRES {
        let (dropped, helper_stopped) = (Counter::default(), Arc::new(Notify::new()));
        let client = serve(stoppable(&dropped, &helper_stopped)).await.client(wire);
        let task = id(&client.start("go").await);
        client.wait_for(&task, WORKING).await;
        assert_eq!(dropped.get(), 0);
        assert_eq!(state(&client.cancel(&task).await.task()), CANCELED);
        until("the agent's future to be dropped", || async { dropped.get() == 1 }).await;
        within("the helper to stop", helper_stopped.notified()).await;
        assert_eq!(state(&client.get(&task).await), CANCELED);
    }
}

#[tokio::test]
async fn a_blocking_send_learns_of_the_cancel() {
    let (dropped, helper_stopped) = (Counter::default(), Arc::new(Notify::new()));
    let site = serve(stoppable(&dropped, &helper_stopped)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.say("go").await }
        });
        let task = only_task_in(&client, WORKING).await;
        client.cancel(&task).await.task();
        let answered = within("the blocking send", waiting).await.expect("an answer");
        assert_eq!((state(&answered), id(&answered)), (CANCELED, task));
    }
    assert_eq!(dropped.get(), 2);
}

/// The one task that is in a state, once there is one.
async fn only_task_in(client: &Client, state: &str) -> String {
    let list = || async { client.call("ListTasks", json!({"status": state})).await.result() };
    until("a task to appear", || async { list().await["totalSize"] == 1 }).await;
    id(&list().await["tasks"][0])
}

#[tokio::test]
async fn streams_and_subscriptions_end_with_the_cancel() {
    let site = serve(sleeper()).await;
    let client = site.jsonrpc();
    let mut sent = client.stream(message("go")).await;
    let first = sent.through(|event| event.is(WORKING)).await;
    let task = id(&first[0].payload()["task"]);
    let mut subscribed = site.rest().subscribe(&task).await;
    assert_eq!(subscribed.one().await.kind(), "task");
    let canceled = client.cancel(&task).await.task();
    for stream in [&mut sent, &mut subscribed] {
        let last = stream.rest().await.pop().expect("a last event");
        assert_eq!(last.payload()["statusUpdate"]["status"], canceled["status"]);
    }
}

#[tokio::test]
async fn cancelling_a_canceled_task_returns_it() {
    let site = serve(sleeper()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = id(&client.start("go").await);
        let canceled = client.cancel(&task).await.task();
        assert_eq!(client.cancel(&task).await.task(), canceled);
        client.send(follow_up(&task, "more")).await.refused(ErrorCode::UnsupportedOperation);
    }
}

#[tokio::test]
async fn other_ended_tasks_are_not_cancelable() {
    let site = serve(agent(|turn: Turn| async move {
        Ok(match &*turn.text() {
            "complete" => Outcome::completed(),
            "fail" => Outcome::failed("no"),
            _ => Outcome::rejected("no"),
        })
    }))
    .await;
    for wire in WIRES {
        let client = site.client(wire);
        for word in ["complete", "fail", "reject"] {
            let task = client.say(word).await;
            client.cancel(&id(&task)).await.refused(ErrorCode::TaskNotCancelable);
            assert_eq!(client.get(&id(&task)).await, task);
        }
        client.cancel("no-such-task").await.refused(ErrorCode::TaskNotFound);
    }
}

#[tokio::test]
async fn a_task_that_waits_for_input_can_be_canceled() {
    let runs = Counter::default();
    let spec = agent({
        let runs = runs.clone();
        move |turn: Turn| {
            runs.add();
            async move { Ok(turn.ask("what?")) }
        }
    });
    let site = serve(spec).await;
    let client = site.rest();
    let task = id(&client.say("go").await);
    let mut subscribed = site.jsonrpc().subscribe(&task).await;
    assert!(subscribed.one().await.is(INPUT_REQUIRED));
    let canceled = client.cancel(&task).await.task();
    assert_eq!(state(&canceled), CANCELED);
    // What the agent had asked is history now.
    assert_eq!(text(canceled["history"].as_array().and_then(|said| said.last()).expect("history")), "what?");
    assert!(subscribed.one().await.is(CANCELED));
    assert_eq!(subscribed.next().await, None);
    client.send(follow_up(&task, "this")).await.refused(ErrorCode::UnsupportedOperation);
    assert_eq!(runs.get(), 1);
}

struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_turn_that_never_yields_cannot_hold_up_the_cancel() {
    let release = Arc::new(AtomicBool::new(false));
    let (started, finished) = (Counter::default(), Counter::default());
    let spec = agent({
        let (release, started, finished) = (release.clone(), started.clone(), finished.clone());
        move |_| {
            let (release, started, finished) = (release.clone(), started.clone(), finished.clone());
            async move {
                started.add();
                while !release.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                finished.add();
                Ok(Outcome::text("too late"))
            }
        }
    });
    // However this test ends, the turn does not spin for ever.
    let released = Release(release);
    let client = serve(spec).await.jsonrpc();
    let task = id(&client.start("spin").await);
    until("the turn to start", || async { started.get() == 1 }).await;
    assert_eq!(state(&client.cancel(&task).await.task()), CANCELED);
    assert_eq!(finished.get(), 0);
    drop(released);
    until("the turn to return", || async { finished.get() == 1 }).await;
    let after = client.get(&task).await;
    assert_eq!((state(&after), after.get("artifacts")), (CANCELED, None));
}

#[tokio::test]
async fn what_an_agent_says_after_the_cancel_is_not_kept() {
    let go = Arc::new(Notify::new());
    let refused = Counter::default();
    let spec = agent({
        let (go, refused) = (go.clone(), refused.clone());
        move |turn: Turn| {
            let (go, refused) = (go.clone(), refused.clone());
            async move {
                turn.working("on").await?;
                let turn = Arc::new(turn);
                tokio::spawn(async move {
                    go.notified().await;
                    while turn.working("still here").await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                    refused.add();
                });
                std::future::pending().await
            }
        }
    });
    let client = serve(spec).await.jsonrpc();
    let task = id(&client.start("go").await);
    client.wait_for(&task, WORKING).await;
    let canceled = client.cancel(&task).await.task();
    go.notify_one();
    until("the helper to be refused", || async { refused.get() == 1 }).await;
    assert_eq!(client.get(&task).await, canceled);
}

#[tokio::test]
async fn a_queued_message_is_refused_when_its_task_is_canceled() {
    let runs = Counter::default();
    let runtime = runtime(agent({
        let runs = runs.clone();
        move |_| {
            runs.add();
            std::future::pending()
        }
    }));
    let begun = json!({"message": message("go"), "configuration": {"returnImmediately": true}});
    let begun = runtime.send_message(call("ann", &begun)).await.expect("a task");
    let SendMessageResponse::Task(begun) = begun else { panic!("no task") };
    let begun = begun.into_task().expect("a whole task");
    until("the turn to begin", || async { runs.get() == 1 }).await;
    let next = json!({"message": follow_up(begun.id.as_str(), "next")});
    let mut queued = Box::pin(runtime.send_message(call("ann", &next)));
    assert!((&mut queued).now_or_never().is_none(), "it waits");
    runtime.cancel_task(call("ann", &json!({"id": begun.id}))).await.expect("canceled");
    let refused = within("the queued message", queued).await.expect_err("refused");
    assert_eq!(refused.code(), ErrorCode::UnsupportedOperation);
    assert!(refused.message().contains("has ended"), "{refused}");
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn a_stream_that_waits_in_the_queue_ends_with_the_cancel() {
    let site = serve(sleeper()).await;
    let client = site.rest();
    let task = id(&client.start("go").await);
    client.wait_for(&task, WORKING).await;
    let mut queued = client.stream(follow_up(&task, "next")).await;
    assert!(queued.one().await.is(WORKING));
    client.cancel(&task).await.task();
    let events = queued.rest().await;
    assert!(events.len() == 1 && events[0].is(CANCELED), "{events:?}");
}
