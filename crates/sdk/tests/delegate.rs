//! A turn that asks another agent: in the caller's name, within its own time, and no longer than it lives.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_sdk::protocol::{CancelTaskRequest, SendMessageRequest, SendMessageResponse, TaskPage};
use chancery_sdk::{
    AgentSpec, Call, Endpoint, Error, Failure, Message, Outcome, Principal, Runtime, Task, TaskState,
    TaskView, Turn,
};
use parking_lot::Mutex;
use serde_json::json;
use support::*;

/// Passes what it is told on and tells what comes of it.
fn parent(child: &Runtime) -> AgentSpec {
    let child = child.clone();
    agent(move |turn: Turn| {
        let child = child.clone();
        async move {
            match turn.call(&child, Message::user(turn.text())).await? {
                SendMessageResponse::Message(message) => {
                    Ok(Outcome::text(format!("said {}", message.text())))
                }
                SendMessageResponse::Task(task) => Ok(Outcome::text(told(&task))),
            }
        }
    })
}

fn told(task: &Task) -> String {
    let said = task.artifacts.first().and_then(|artifact| artifact.parts[0].as_text());
    format!("{} {}", task.status.state.as_str(), said.unwrap_or("-"))
}

/// What the child has of Ann, who calls the parent.
async fn tasks(child: &Runtime) -> TaskPage {
    child.list_tasks(call("ann", &json!({}))).await.expect("a page")
}

async fn answer(child: &Runtime, text: &str) -> String {
    let site = serve(parent(child)).await;
    let task = site.rest().by("r", "ann").say(text).await;
    assert_eq!(state(&task), COMPLETED);
    support::text(&task["artifacts"][0]).to_owned()
}

#[tokio::test]
async fn the_outcome_of_the_other_task_comes_back() {
    let child = runtime(agent(|turn: Turn| async move {
        match &*turn.text() {
            "slowly" => tokio::time::sleep(Duration::from_millis(30)).await,
            "ask" => return Ok(turn.ask("what?")),
            "sign in" => return Ok(turn.ask_for_auth("where?")),
            "fail" => return Err(Failure::public("no")),
            _ => {}
        }
        let Principal { realm, id } = turn.principal();
        Ok(Outcome::text(format!("{} for {realm}/{id}", turn.text())))
    }));
    assert_eq!(answer(&child, "at once").await, "TASK_STATE_COMPLETED at once for r/ann");
    assert_eq!(answer(&child, "slowly").await, "TASK_STATE_COMPLETED slowly for r/ann");
    assert_eq!(answer(&child, "ask").await, "TASK_STATE_INPUT_REQUIRED -");
    assert_eq!(answer(&child, "sign in").await, "TASK_STATE_AUTH_REQUIRED -");
    assert_eq!(answer(&child, "fail").await, "TASK_STATE_FAILED -");
    // A task that has come to its end, or waits for somebody, is left as it is.
    let states: Vec<_> = tasks(&child).await.tasks.iter().map(|view| view.task.state()).collect();
    assert!(states.len() == 5 && !states.contains(&TaskState::Canceled), "{states:?}");
}

#[tokio::test]
async fn a_direct_answer_comes_back() {
    let spec = script(|turn: Turn| async move { Ok(Outcome::reply(turn.text())) }).direct();
    let child = runtime(AgentSpec::new("direct", spec));
    assert_eq!(answer(&child, "hello").await, "said hello");
    assert_eq!(tasks(&child).await.total_size, 0);
}

#[tokio::test]
async fn an_agent_that_does_not_stream_is_asked_now_and_then() {
    let spec = agent(|turn: Turn| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(Outcome::text(turn.text()))
    });
    let child = runtime(spec.streaming(false));
    assert_eq!(answer(&child, "quiet").await, "TASK_STATE_COMPLETED quiet");
}

/// Never ends by itself, and counts its ends.
fn endless(stopped: &Counter) -> AgentSpec {
    let stopped = stopped.clone();
    agent(move |turn: Turn| {
        let held = OnDrop(stopped.clone());
        async move {
            let _held = held;
            turn.working("going on").await?;
            std::future::pending().await
        }
    })
}

#[tokio::test]
async fn canceling_the_one_task_cancels_the_other() {
    for streaming in [true, false] {
        for wire in WIRES {
            let stopped = Counter::default();
            let child = runtime(endless(&stopped).streaming(streaming));
            let client = serve(parent(&child)).await.client(wire).by("r", "ann");
            let task = id(&client.start("go").await);
            until("the other task", || async { child.running_turns() == 1 }).await;
            assert_eq!(state(&client.cancel(&task).await.task()), CANCELED);
            until("the other turn to be stopped", || async { stopped.get() == 1 }).await;
            let page = tasks(&child).await;
            assert_eq!((page.total_size, page.tasks[0].task.state()), (1, TaskState::Canceled));
        }
    }
}

#[tokio::test]
async fn a_turn_that_gives_up_waiting_cancels_the_other_task() {
    let stopped = Counter::default();
    let child = runtime(endless(&stopped));
    let asked = child.clone();
    let spec = agent(move |turn: Turn| {
        let child = asked.clone();
        async move {
            let call = turn.call(&child, Message::user("go"));
            let waited = tokio::time::timeout(Duration::from_millis(50), call).await;
            Ok(Outcome::text(if waited.is_err() { "gave up" } else { "got it" }))
        }
    });
    let task = serve(spec).await.rest().by("r", "ann").say("go").await;
    assert_eq!(text(&task["artifacts"][0]), "gave up");
    until("the other turn to be stopped", || async { stopped.get() == 1 }).await;
    assert_eq!(tasks(&child).await.tasks[0].task.state(), TaskState::Canceled);
}

/// An agent whose answers are on the way for as long as the test likes.
#[derive(Clone)]
struct Slow {
    agent: Runtime,
    arrived: Counter,
    answers: Arc<tokio::sync::Semaphore>,
}

impl Endpoint for Slow {
    async fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let sent = self.agent.send_message(call).await;
        self.arrived.add();
        let _passed = self.answers.acquire().await;
        sent
    }

    async fn cancel_task(&self, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        self.agent.cancel_task(call).await
    }
}

#[tokio::test]
async fn a_task_whose_answer_is_still_on_the_way_is_canceled_too() {
    let stopped = Counter::default();
    let child = runtime(endless(&stopped));
    let slow = Slow {
        agent: child.clone(),
        arrived: Counter::default(),
        answers: Arc::new(tokio::sync::Semaphore::new(0)),
    };
    let asked = slow.clone();
    let site = serve(agent(move |turn: Turn| {
        let slow = asked.clone();
        async move {
            turn.call(&slow, Message::user("go")).await?;
            Ok(Outcome::completed())
        }
    }))
    .await;
    let client = site.rest().by("r", "ann");
    let task = id(&client.start("go").await);
    until("the message to arrive", || async { slow.arrived.get() == 1 }).await;
    assert_eq!(state(&client.cancel(&task).await.task()), CANCELED);
    assert_eq!(stopped.get(), 0);
    slow.answers.add_permits(1);
    until("the other turn to be stopped", || async { stopped.get() == 1 }).await;
    assert_eq!(tasks(&child).await.tasks[0].task.state(), TaskState::Canceled);
}

#[tokio::test]
async fn the_deadline_of_the_turn_is_passed_on() {
    let deadlines: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = deadlines.clone();
    let child = runtime(agent(move |turn: Turn| {
        noted.lock().push(turn.deadline());
        async { Ok(Outcome::completed()) }
    }));
    let (noted, asked) = (deadlines.clone(), child.clone());
    let spec = agent(move |turn: Turn| {
        noted.lock().push(turn.deadline());
        let child = asked.clone();
        async move {
            turn.call(&child, Message::user("go")).await?;
            Ok(Outcome::completed())
        }
    });
    let site = serve(spec.turn_timeout(Duration::from_secs(300))).await;
    assert_eq!(state(&site.rest().say("go").await), COMPLETED);
    let noted = deadlines.lock().clone();
    assert_eq!(noted[0], noted[1]);
}

#[tokio::test]
async fn a_turn_past_its_deadline_takes_the_other_along() {
    let stopped = Counter::default();
    let child = runtime(endless(&stopped));
    let site = serve(parent(&child).turn_timeout(Duration::from_millis(100))).await;
    let task = site.rest().by("r", "ann").say("go").await;
    assert_eq!(state(&task), FAILED);
    until("the other turn to be stopped", || async { stopped.get() == 1 }).await;
    until("the other task to end", || async { tasks(&child).await.tasks[0].task.state().is_terminal() })
        .await;
}
