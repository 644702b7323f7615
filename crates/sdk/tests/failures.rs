//! However a turn goes wrong, its task ends FAILED at once, says nothing that it should not, and stays so.

mod support;

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::store::{StoreLimits, TaskLimits};
use chancery_sdk::{AgentSpec, Artifact, ErrorCode, Failure, Outcome, Part, Turn};
use serde_json::{Value, json};
use support::*;
use tokio::sync::Notify;

const SECRET: &str = "hunter2";

#[derive(Debug, thiserror::Error)]
#[error("cannot log in with password {SECRET}")]
struct BadPassword(#[source] std::io::Error);

/// Sends to the agent in every way there is. Each must end FAILED.
async fn ends_failed(spec: AgentSpec) -> Vec<Value> {
    ends_failed_within(StoreLimits::default(), spec).await
}

async fn ends_failed_within(limits: StoreLimits, spec: AgentSpec) -> Vec<Value> {
    let site = serve_on(limits, |server| server.agent(spec)).await;
    let mut tasks = Vec::new();
    for wire in WIRES {
        let client = site.client(wire);
        let waited = client.say("go").await;
        let started = client.start("go").await;
        let started = client.wait_for(&id(&started), FAILED).await;
        let last = client.stream(message("go")).await.rest().await.pop().expect("some events");
        assert!(last.is(FAILED), "{last:?}");
        let streamed = last.payload()["statusUpdate"]["taskId"].as_str().expect("a task").to_owned();
        for task in [waited, started, client.get(&streamed).await] {
            stays_failed(&client, &task).await;
            tasks.push(task);
        }
    }
    tasks
}

async fn stays_failed(client: &Client, task: &Value) {
    assert_eq!(state(task), FAILED, "{task}");
    assert!(!text(&task["status"]["message"]).is_empty());
    assert!(!task.to_string().contains(SECRET), "a secret got out: {task}");
    let id = id(task);
    client.send(follow_up(&id, "more")).await.refused(ErrorCode::UnsupportedOperation);
    client.cancel(&id).await.refused(ErrorCode::TaskNotCancelable);
    let events = client.resume(&id, 0).await.rest().await;
    assert!(events.iter().all(|event| !event.data.contains(SECRET)), "a secret got out: {events:?}");
    assert_eq!(client.get(&id).await, *task);
}

#[tokio::test]
async fn a_panic_before_the_first_await_fails_the_task() {
    ends_failed(agent(|_| async { panic!("at once") })).await;
}

#[tokio::test]
async fn a_panic_after_an_await_fails_the_task() {
    ends_failed(agent(|turn: Turn| async move {
        turn.working("so far so good").await?;
        tokio::task::yield_now().await;
        panic!("later")
    }))
    .await;
}

#[tokio::test]
async fn a_panic_in_the_closure_itself_fails_the_task() {
    fn never(_: Turn) -> std::future::Ready<Result<Outcome, Failure>> {
        panic!("not even a future")
    }
    ends_failed(agent(never)).await;
}

#[tokio::test]
async fn the_text_of_a_panic_is_not_told() {
    let tasks = ends_failed(agent(|_| async { panic!("the password is {SECRET}") })).await;
    assert!(!tasks.is_empty());
    let tasks = ends_failed(agent(|_| async { std::panic::panic_any(SECRET.to_owned()) })).await;
    assert!(!tasks.is_empty());
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in drop, with {SECRET}");
        }
    }
}

#[tokio::test]
async fn a_panic_while_the_agent_winds_up_fails_the_task() {
    ends_failed(agent(|_| async {
        let _guard = PanicsOnDrop;
        tokio::task::yield_now().await;
        Ok(Outcome::text("done"))
    }))
    .await;
}

#[tokio::test]
async fn a_panic_while_a_stopped_turn_is_dropped_is_contained() {
    let spec = agent(|turn: Turn| async move {
        let _guard = PanicsOnDrop;
        turn.working("on").await?;
        std::future::pending().await
    });
    ends_failed(spec.clone().turn_timeout(Duration::from_millis(50))).await;
    let client = serve(spec).await.jsonrpc();
    let task = client.start("go").await;
    client.wait_for(&id(&task), WORKING).await;
    assert_eq!(state(&client.cancel(&id(&task)).await.task()), CANCELED);
    client.get(&id(&task)).await;
}

#[tokio::test]
async fn an_error_fails_the_task_and_its_chain_is_not_told() {
    let tasks = ends_failed(agent(|_| async {
        Err(BadPassword(std::io::Error::other(format!("server said {SECRET} is wrong"))))?
    }))
    .await;
    assert_eq!(text(&tasks[0]["status"]["message"]), "The agent failed");
}

#[tokio::test]
async fn only_the_public_reason_of_a_failure_is_told() {
    let tasks = ends_failed(agent(|turn: Turn| async move {
        turn.working("on").await?;
        Err(Failure::public("The printer is out of paper").caused_by(format!("tray {SECRET}")))
    }))
    .await;
    for task in &tasks {
        assert_eq!(text(&task["status"]["message"]), "The printer is out of paper");
    }
}

#[tokio::test]
async fn a_turn_that_passes_its_deadline_fails() {
    let spec = agent(|turn: Turn| async move {
        turn.working("for ever").await?;
        std::future::pending().await
    });
    let tasks = ends_failed(spec.turn_timeout(Duration::from_millis(50))).await;
    assert!(text(&tasks[0]["status"]["message"]).contains("deadline"));
}

#[tokio::test]
async fn a_turn_that_was_dropped_by_its_agent_ends_with_the_deadline() {
    let spec = agent(|turn: Turn| async move {
        drop(turn);
        std::future::pending().await
    });
    ends_failed(spec.turn_timeout(Duration::from_millis(50))).await;
}

#[tokio::test]
async fn the_work_of_a_turn_that_passed_its_deadline_is_stopped() {
    let dropped = Counter::default();
    let told = Arc::new(Notify::new());
    let spec = agent({
        let (dropped, told) = (dropped.clone(), told.clone());
        move |turn: Turn| {
            let (guard, told) = (OnDrop(dropped.clone()), told.clone());
            async move {
                let _guard = guard;
                let stop = turn.cancellation();
                tokio::spawn(async move {
                    stop.cancelled().await;
                    told.notify_one();
                });
                std::future::pending().await
            }
        }
    });
    let client = serve(spec.turn_timeout(Duration::from_millis(50))).await.jsonrpc();
    assert_eq!(state(&client.say("go").await), FAILED);
    assert_eq!(dropped.get(), 1);
    within("the helper's news of the end", told.notified()).await;
}

#[tokio::test]
async fn a_turn_timeout_without_end_is_allowed() {
    let client = serve(echo().turn_timeout(Duration::MAX).blocking_timeout(Duration::MAX)).await.jsonrpc();
    assert_eq!(state(&client.say("hi").await), COMPLETED);
}

fn limits(task: TaskLimits) -> StoreLimits {
    StoreLimits { task, ..StoreLimits::default() }
}

/// Emits artifacts until it is told that the turn is over.
fn flood() -> AgentSpec {
    agent(|turn: Turn| async move {
        turn.working("flooding").await?;
        tokio::task::yield_now().await;
        loop {
            turn.artifact(Artifact::new(fresh(), vec![Part::text("x".repeat(100))])).await?;
            tokio::task::yield_now().await;
        }
    })
}

fn fresh() -> String {
    chancery_sdk::TaskId::generate().to_string()
}

#[tokio::test]
async fn a_task_with_too_many_events_fails() {
    ends_failed_within(limits(TaskLimits { events: 40, ..TaskLimits::default() }), flood()).await;
}

#[tokio::test]
async fn a_task_with_too_many_artifacts_fails() {
    ends_failed_within(limits(TaskLimits { artifacts: 10, ..TaskLimits::default() }), flood()).await;
}

#[tokio::test]
async fn a_task_with_too_many_bytes_fails() {
    ends_failed_within(limits(TaskLimits { bytes: 10_000, ..TaskLimits::default() }), flood()).await;
}

#[tokio::test]
async fn an_outcome_that_does_not_fit_fails_the_task() {
    let spec = agent(|turn: Turn| async move {
        turn.working("on").await?;
        tokio::task::yield_now().await;
        Ok(Outcome::text("x".repeat(100_000)))
    });
    ends_failed_within(limits(TaskLimits { bytes: 10_000, ..TaskLimits::default() }), spec).await;
}

#[tokio::test]
async fn a_turn_whose_first_commit_does_not_fit_fails_the_task() {
    let at_once = agent(|_| async { Ok(Outcome::text("x".repeat(100_000))) });
    ends_failed_within(limits(TaskLimits { bytes: 10_000, ..TaskLimits::default() }), at_once).await;
    let burst = agent(|turn: Turn| async move {
        for _ in 0..1_000 {
            turn.artifact(Artifact::new(fresh(), vec![Part::text("x")])).await?;
        }
        Ok(Outcome::completed())
    });
    ends_failed_within(limits(TaskLimits { artifacts: 10, ..TaskLimits::default() }), burst).await;
}

#[tokio::test]
async fn an_agent_may_fail_or_reject_on_purpose() {
    let client = serve(agent(|turn: Turn| async move {
        Ok(if turn.text() == "fail" { Outcome::failed("no luck") } else { Outcome::rejected("not mine") })
    }))
    .await
    .rest();
    let task = client.say("fail").await;
    assert_eq!((state(&task), text(&task["status"]["message"])), (FAILED, "no luck"));
    let task = client.say("else").await;
    assert_eq!((state(&task), text(&task["status"]["message"])), ("TASK_STATE_REJECTED", "not mine"));
    client.send(follow_up(&id(&task), "please")).await.refused(ErrorCode::UnsupportedOperation);
}

#[tokio::test]
async fn a_panic_while_the_agent_is_asked_about_itself_is_an_internal_error() {
    struct Fragile;
    impl chancery_sdk::Agent for Fragile {
        async fn run(&self, _: Turn) -> Result<Outcome, Failure> {
            Ok(Outcome::completed())
        }
        fn opens_task(&self, _: &chancery_sdk::Message) -> bool {
            panic!("about to look at {SECRET}")
        }
    }
    let site = serve(AgentSpec::new("fragile", Fragile)).await;
    for wire in WIRES {
        let answer = site.client(wire).call("SendMessage", json!({"message": message("go")})).await;
        answer.refused(ErrorCode::Internal);
        assert!(!answer.body.contains(SECRET));
    }
}
