//! Conversations: questions and answers, messages to running tasks, authentication out of band.

mod support;

use std::sync::Arc;

use chancery_sdk::protocol::SendMessageResponse;
use chancery_sdk::{
    AgentSpec, Endpoint, Error, ErrorCode, Outcome, Principal, Task, TaskState, TaskView, Turn, WhileRunning,
};
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::*;
use tokio::sync::Semaphore;

/// Asks until it is told `stop`, and counts its turns in the state of the task.
fn interviewer() -> AgentSpec {
    agent(|turn: Turn| async move {
        let turns = turn.state::<u32>()?.unwrap_or_default() + 1;
        turn.set_state(&turns)?;
        let heard: Vec<_> = turn.history().iter().map(|said| said.text().into_owned()).collect();
        if turn.text() == "stop" {
            return Ok(Outcome::text(format!("{turns} turns after {}", heard.join(","))));
        }
        Ok(turn.ask(format!("q{turns}")))
    })
}

fn said(task: &Value) -> Vec<&str> {
    task["history"].as_array().expect("history").iter().map(text).collect()
}

#[tokio::test]
async fn any_number_of_follow_ups_need_only_the_task_id() {
    let site = serve(interviewer()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let first = client.say("a").await;
        for (answer, question) in [("b", "q2"), ("c", "q3"), ("d", "q4")] {
            let task = client.send(follow_up(&id(&first), answer)).await.task();
            assert_eq!((state(&task), text(&task["status"]["message"])), (INPUT_REQUIRED, question));
            assert_eq!((&task["id"], &task["contextId"]), (&first["id"], &first["contextId"]));
        }
        let done = client.send(follow_up(&id(&first), "stop")).await.task();
        assert_eq!(state(&done), COMPLETED);
        assert_eq!(said(&done), ["a", "q1", "b", "q2", "c", "q3", "d", "q4", "stop"]);
        for message in done["history"].as_array().expect("history") {
            assert_eq!((&message["taskId"], &message["contextId"]), (&done["id"], &done["contextId"]));
        }
        // What each turn was shown is what stood there before its own message, the last question included.
        assert_eq!(text(&done["artifacts"][0]), "5 turns after a,q1,b,q2,c,q3,d");
    }
}

#[tokio::test]
async fn follow_ups_stream_too() {
    let site = serve(interviewer()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let events = client.stream(message("a")).await.rest().await;
        let task = id(&events[0].payload()["task"]);
        for _ in 0..3 {
            let events = client.stream(follow_up(&task, "more")).await.rest().await;
            // The task as it was before the message, then every event since.
            assert_eq!((&*events[0].kind(), state(&events[0].payload()["task"])), ("task", INPUT_REQUIRED));
            assert!(events[1].is(WORKING) && events[events.len() - 1].is(INPUT_REQUIRED));
        }
        let events = client.stream(follow_up(&task, "stop")).await.rest().await;
        assert!(events[events.len() - 1].is(COMPLETED));
    }
}

#[tokio::test]
async fn state_and_history_belong_to_one_task() {
    let client = serve(interviewer()).await.jsonrpc();
    let (one, two) = (client.say("a").await, client.say("b").await);
    client.send(follow_up(&id(&one), "again")).await.task();
    let done = client.send(follow_up(&id(&two), "stop")).await.task();
    assert_eq!(text(&done["artifacts"][0]), "2 turns after b");
    let done = client.send(follow_up(&id(&one), "stop")).await.task();
    assert_eq!(text(&done["artifacts"][0]), "3 turns after a,q1,again");
}

#[tokio::test]
async fn the_context_must_be_that_of_the_task() {
    let site = serve(interviewer()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("a").await;
        let mut other = follow_up(&id(&task), "b");
        other["contextId"] = json!("another");
        let refused = client.send(other.clone()).await.refused(ErrorCode::InvalidParams);
        assert_eq!(refused.field, "message.contextId");
        assert_eq!(client.get(&id(&task)).await, task);
        other["contextId"] = task["contextId"].clone();
        assert_eq!(state(&client.send(other).await.task()), INPUT_REQUIRED);
    }
}

#[tokio::test]
async fn a_context_without_a_task_begins_a_new_task_in_it() {
    let client = serve(echo()).await.rest();
    let first = client.say("a").await;
    let mut next = message("b");
    next["contextId"] = first["contextId"].clone();
    let second = client.send(next).await.task();
    assert_eq!(second["contextId"], first["contextId"]);
    assert_ne!(second["id"], first["id"]);
    client.say("elsewhere").await;
    let listed = client.call("ListTasks", json!({"contextId": first["contextId"]})).await.result();
    assert_eq!(listed["totalSize"], 2);
}

#[tokio::test]
async fn ended_and_unknown_tasks_take_no_messages() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("a").await;
        let refused = client.send(follow_up(&id(&task), "b")).await.refused(ErrorCode::UnsupportedOperation);
        assert_eq!(refused.metadata["taskId"], task["id"]);
        let unknown = client.send(follow_up("no-such-task", "b")).await.refused(ErrorCode::TaskNotFound);
        assert_eq!(unknown.metadata["taskId"], "no-such-task");
        for params in [follow_up(&id(&task), "b"), follow_up("no-such-task", "b")] {
            let params = json!({"message": params}).to_string();
            assert!(client.try_open("SendStreamingMessage", &params).await.is_err());
        }
        assert_eq!(client.get(&id(&task)).await, task);
    }
}

#[tokio::test]
async fn the_same_message_id_twice_is_two_messages() {
    let client = serve(interviewer()).await.jsonrpc();
    let message = message("a");
    let (one, two) = (client.send(message.clone()).await.task(), client.send(message.clone()).await.task());
    assert_ne!(one["id"], two["id"]);
    let mut again = message;
    again["taskId"] = one["id"].clone();
    client.send(again.clone()).await.task();
    let task = client.send(again).await.task();
    assert_eq!(said(&task), ["a", "q1", "a", "q2", "a"]);
}

/// Every turn waits for a permit; the order of what happened is kept.
struct Gated {
    spec: AgentSpec,
    permits: Arc<Semaphore>,
    log: Arc<Mutex<Vec<String>>>,
}

fn gated(policy: WhileRunning) -> Gated {
    let (permits, log) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let run = script({
        let (permits, log) = (permits.clone(), log.clone());
        move |turn: Turn| {
            let (permits, log) = (permits.clone(), log.clone());
            async move {
                log.lock().push(format!("begin {}", turn.text()));
                permits.acquire().await?.forget();
                log.lock().push(format!("end {}", turn.text()));
                Ok(if turn.text() == "stop" { Outcome::completed() } else { turn.ask("more?") })
            }
        }
    });
    Gated { spec: AgentSpec::new("gated", run.while_running(policy)), permits, log }
}

#[tokio::test]
async fn one_message_waits_for_the_turn_and_a_second_is_refused() {
    for wire in WIRES {
        let Gated { spec, permits, log } = gated(WhileRunning::Queue(1));
        let client = serve(spec).await.client(wire);
        let task = id(&client.start("a").await);
        client.wait_for(&task, WORKING).await;
        let mut queued = client.stream(follow_up(&task, "b")).await;
        assert!(queued.one().await.is(WORKING));
        for _ in 0..2 {
            client.send(follow_up(&task, "c")).await.refused(ErrorCode::UnsupportedOperation);
        }
        assert_eq!(*log.lock(), ["begin a"]);
        permits.add_permits(2);
        let events = queued.rest().await;
        // The answer to the first message comes by, and the stream goes on to that of its own.
        assert_eq!(events.iter().filter(|event| event.is(INPUT_REQUIRED)).count(), 2);
        assert_eq!(*log.lock(), ["begin a", "end a", "begin b", "end b"]);
        assert_eq!(said(&client.get(&task).await), ["a", "more?", "b"]);
    }
}

#[tokio::test]
async fn a_queued_blocking_send_answers_with_the_end_of_its_own_turn() {
    let Gated { spec, permits, log } = gated(WhileRunning::Queue(1));
    let runtime = runtime(spec);
    let begun = json!({"message": message("a"), "configuration": {"returnImmediately": true}});
    let begun = task_of(runtime.send_message(call("ann", &begun)).await);
    let next = json!({"message": follow_up(begun.id.as_str(), "stop")});
    let mut queued = Box::pin(runtime.send_message(call("ann", &next)));
    assert!((&mut queued).now_or_never().is_none(), "it waits");
    permits.add_permits(1);
    until("the first turn to end", || async { log.lock().len() > 2 }).await;
    assert!((&mut queued).now_or_never().is_none(), "the first turn's question is not its answer");
    permits.add_permits(1);
    let answered = task_of(within("the queued send", queued).await);
    assert_eq!((answered.status.state, &answered.id), (TaskState::Completed, &begun.id));
    assert_eq!(*log.lock(), ["begin a", "end a", "begin stop", "end stop"]);
}

#[tokio::test]
async fn a_queued_message_is_refused_when_the_turn_ends_its_task() {
    let Gated { spec, permits, log } = gated(WhileRunning::Queue(1));
    let client = serve(spec).await.rest();
    let task = id(&client.start("stop").await);
    client.wait_for(&task, WORKING).await;
    assert_eq!(state(&client.start_with(follow_up(&task, "b")).await.task()), WORKING);
    permits.add_permits(5);
    let done = client.wait_for(&task, COMPLETED).await;
    assert_eq!(said(&done), ["stop"]);
    assert_eq!(*log.lock(), ["begin stop", "end stop"]);
}

#[tokio::test]
async fn agents_choose_how_many_messages_wait() {
    for (policy, room) in [(WhileRunning::Refuse, 0), (WhileRunning::Queue(3), 3)] {
        let Gated { spec, permits, log } = gated(policy);
        let client = serve(spec).await.jsonrpc();
        let task = id(&client.start("a").await);
        client.wait_for(&task, WORKING).await;
        for number in 0..room {
            client.start_with(follow_up(&task, &number.to_string())).await.task();
        }
        let refused = client.start_with(follow_up(&task, "more")).await;
        refused.refused(ErrorCode::UnsupportedOperation);
        permits.add_permits(room + 1);
        until("all turns to end", || async { log.lock().len() == 2 * (room + 1) }).await;
        let expected: Vec<_> = std::iter::once("a".to_owned())
            .chain((0..room).map(|number| number.to_string()))
            .flat_map(|name| [format!("begin {name}"), format!("end {name}")])
            .collect();
        assert_eq!(*log.lock(), expected);
    }
}

/// Wants authentication once, then is done.
fn guarded(runs: &Counter) -> AgentSpec {
    let runs = runs.clone();
    agent(move |turn: Turn| {
        let run = runs.add();
        async move {
            let asked: Option<bool> = turn.state()?;
            if asked.is_some() {
                return Ok(Outcome::text(format!("run {run}: {}", turn.text())));
            }
            turn.set_state(&true)?;
            Ok(turn.ask_for_auth("sign in at https://login.example"))
        }
    })
}

#[tokio::test]
async fn authentication_parks_the_task_until_the_next_message() {
    let runs = Counter::default();
    let site = serve(guarded(&runs)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("secret").await;
        assert_eq!(state(&task), AUTH_REQUIRED);
        assert!(text(&task["status"]["message"]).starts_with("sign in"));
        let done = client.send(follow_up(&id(&task), "signed in")).await.task();
        assert!(text(&done["artifacts"][0]).ends_with(": signed in"));
        assert_eq!(said(&done), ["secret", "sign in at https://login.example", "signed in"]);
    }
}

fn task_of(answer: Result<SendMessageResponse<TaskView>, Error>) -> Arc<Task> {
    match answer.expect("an answer") {
        SendMessageResponse::Task(view) => view.task.value().expect("a whole task"),
        SendMessageResponse::Message(message) => panic!("a message: {message:?}"),
    }
}

#[tokio::test]
async fn authentication_out_of_band_resumes_the_task() {
    let runs = Counter::default();
    let runtime = runtime(guarded(&runs));
    let mut stream = runtime
        .send_streaming_message(call("ann", &json!({"message": message("secret")})))
        .await
        .expect("a stream");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|json: &String| !json.contains(AUTH_REQUIRED)) {
        let event = within("an event", stream.next()).await.expect("an event").expect("no error");
        seen.push(String::from_utf8(event.json.to_vec()).expect("a text"));
    }
    let task: Value = serde_json::from_str(&seen[0]).expect("json");
    let task = id(&task["task"]).as_str().into();
    let ann = Principal { realm: "r".into(), id: "ann".into() };
    for stranger in [("r", "bob"), ("s", "ann")] {
        let stranger = Principal { realm: stranger.0.into(), id: stranger.1.into() };
        let refused = runtime.resume(&stranger, &task).await.expect_err("not theirs");
        assert_eq!(refused.code(), ErrorCode::TaskNotFound);
    }
    runtime.resume(&ann, &task).await.expect("resumed");
    // The stream that began the task has stayed open and shows its end.
    let mut last = String::new();
    while let Some(event) = within("an event", stream.next()).await {
        last = String::from_utf8(event.expect("no error").json.to_vec()).expect("a text");
    }
    assert!(last.contains(COMPLETED), "{last}");
    let done = runtime
        .get_task(call("ann", &json!({"id": task})))
        .await
        .expect("a task")
        .into_task()
        .expect("a whole task");
    assert_eq!((done.status.state, runs.get()), (TaskState::Completed, 2));
    // The turn was given the message that waits, which is in the history once.
    assert_eq!(done.artifacts[0].parts[0].as_text(), Some("run 2: secret"));
    assert_eq!(done.history.iter().filter(|said| said.text() == "secret").count(), 1);
    let refused = runtime.resume(&ann, &task).await.expect_err("it has ended");
    assert_eq!(refused.code(), ErrorCode::UnsupportedOperation);
}

#[tokio::test]
async fn resuming_twice_runs_once() {
    let runs = Counter::default();
    let runtime = runtime(guarded(&runs));
    let waiting = task_of(runtime.send_message(call("ann", &json!({"message": message("x")}))).await);
    let ann = Principal { realm: "r".into(), id: "ann".into() };
    let (one, two) = tokio::join!(runtime.resume(&ann, &waiting.id), runtime.resume(&ann, &waiting.id));
    one.expect("resumed");
    assert!(two.map_or_else(|error| error.code() == ErrorCode::UnsupportedOperation, |()| true));
    let get = || async { runtime.get_task(call("ann", &json!({"id": waiting.id}))).await.expect("a task") };
    until("the end", || async { get().await.task.state() == TaskState::Completed }).await;
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn the_agent_sees_those_referenced_tasks_that_the_caller_may_see() {
    let spec = agent(|turn: Turn| async move {
        let texts: Vec<_> =
            turn.referenced_tasks().iter().map(|task| task.history[0].text().into_owned()).collect();
        Ok(Outcome::text(texts.join(",")))
    });
    let site = serve(spec).await;
    let (ann, bob) = (site.jsonrpc().by("r", "ann"), site.jsonrpc().by("r", "bob"));
    let (one, two, foreign) = (ann.say("one").await, ann.say("two").await, bob.say("bob's").await);
    let mut next = message("go on");
    next["referenceTaskIds"] = json!([one["id"], foreign["id"], "no-such-task", two["id"]]);
    let task = ann.send(next).await.task();
    assert_eq!(text(&task["artifacts"][0]), "one,two");
}
