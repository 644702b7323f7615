//! Streams and subscriptions: how they begin and end, and how a client that was cut off goes on.

mod support;

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::{StreamResponse, Timestamp};
use chancery_sdk::{AgentSpec, Endpoint as _, ErrorCode, Outcome, ServerLimits, TaskState, Turn};
use futures_util::StreamExt as _;
use serde_json::json;
use support::*;
use tokio::sync::Semaphore;

/// Emits one chunk for each permit, then ends.
fn stepper(chunks: usize) -> (AgentSpec, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let spec = agent({
        let permits = permits.clone();
        move |turn: Turn| {
            let permits = permits.clone();
            async move {
                turn.working("ready").await?;
                let mut artifact = turn.begin_artifact("steps");
                for number in 0..chunks {
                    permits.acquire().await?.forget();
                    artifact.append(number.to_string()).await?;
                }
                permits.acquire().await?.forget();
                Ok(Outcome::completed())
            }
        }
    });
    (spec, permits)
}

fn asker() -> AgentSpec {
    agent(|turn: Turn| async move {
        Ok(match &*turn.text() {
            "stop" => Outcome::completed(),
            "auth" => turn.ask_for_auth("sign in"),
            _ => turn.ask("what?"),
        })
    })
}

fn ids(events: &[SseEvent]) -> Vec<u64> {
    events.iter().map(|event| event.id.expect("an id")).collect()
}

#[tokio::test]
async fn a_subscription_during_input_required_stays_open_until_the_end() {
    let site = serve(asker()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("go").await;
        let mut stream = client.subscribe(&id(&task)).await;
        let first = stream.one().await;
        assert_eq!(first.payload()["task"], task);
        client.send(follow_up(&id(&task), "hm")).await.task();
        let turn = stream.through(|event| event.is(INPUT_REQUIRED)).await;
        assert!(turn[0].is(WORKING));
        client.send(follow_up(&id(&task), "stop")).await.task();
        let rest = stream.rest().await;
        assert!(rest[rest.len() - 1].is(COMPLETED));
        let all = [vec![first], turn, rest].concat();
        let first_id = all[0].id.expect("an id");
        assert_eq!(ids(&all), (first_id..first_id + all.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_sent_stream_closes_when_the_agent_asks_back() {
    let site = serve(asker()).await;
    for wire in WIRES {
        let events = site.client(wire).stream(message("go")).await.rest().await;
        assert_eq!(events[0].kind(), "task");
        assert!(events[events.len() - 1].is(INPUT_REQUIRED));
    }
}

#[tokio::test]
async fn a_sent_stream_stays_open_while_the_client_authenticates() {
    let site = serve(asker()).await;
    for (wire, answer, end) in [(Wire::JsonRpc, "stop", COMPLETED), (Wire::Rest, "go", INPUT_REQUIRED)] {
        let client = site.client(wire);
        let mut stream = client.stream(message("auth")).await;
        let events = stream.through(|event| event.is(AUTH_REQUIRED)).await;
        let task = id(&events[0].payload()["task"]);
        client.send(follow_up(&task, answer)).await.task();
        let rest = stream.rest().await;
        assert!(rest[rest.len() - 1].is(end), "{rest:?}");
    }
}

#[tokio::test]
async fn a_cut_stream_resumes_without_gap_or_duplicate() {
    let (spec, permits) = stepper(20);
    let site = serve(spec).await;
    for wire in WIRES {
        let client = site.client(wire);
        let mut stream = client.stream(message("go")).await;
        let mut seen = stream.through(|event| event.is(WORKING)).await;
        let task = id(&seen[0].payload()["task"]);
        for _ in 0..4 {
            permits.add_permits(5);
            for _ in 0..3 {
                seen.push(stream.one().await);
            }
            drop(stream);
            stream = client.resume(&task, seen[seen.len() - 1].id.expect("an id")).await;
        }
        permits.add_permits(1);
        seen.extend(stream.rest().await);
        assert_eq!(ids(&seen), (1..=23).collect::<Vec<_>>());
        assert!(seen[22].is(COMPLETED));
    }
}

#[tokio::test]
async fn a_cut_stream_resumes_on_a_task_that_has_ended_since() {
    let (spec, permits) = stepper(300);
    let site = serve(spec).await;
    for wire in WIRES {
        let client = site.client(wire);
        let mut stream = client.stream(message("go")).await;
        let seen = stream.through(|event| event.is(WORKING)).await;
        let task = id(&seen[0].payload()["task"]);
        drop(stream);
        permits.add_permits(301);
        client.wait_for(&task, COMPLETED).await;
        // Also from an event that the ring of newest events no longer has, from the first, and from the last.
        for from in [0, 2, 150, 290, 302, 303] {
            let rest = client.resume(&task, from).await.rest().await;
            assert_eq!(ids(&rest), (from + 1..=303).collect::<Vec<_>>());
        }
        let all = client.resume(&task, 0).await.rest().await;
        assert_eq!(seen[..], all[..2]);
    }
}

#[tokio::test]
async fn a_client_that_returns_after_compaction_gets_the_task() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let events = client.stream(message("hi")).await.rest().await;
        let task = client.get(&id(&events[0].payload()["task"])).await;
        assert_eq!(client.resume(&id(&task), 0).await.rest().await, events);
        let day = Timestamp::from_millis(Timestamp::now().as_millis() + 60 * 60 * 1000);
        site.store.sweep(day).await;
        for seen in 0..events.len() as u64 {
            let events = client.resume(&id(&task), seen).await.rest().await;
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].payload()["task"], task);
        }
        assert_eq!(client.resume(&id(&task), events.len() as u64).await.rest().await, []);
    }
}

#[tokio::test]
async fn a_task_that_nobody_watched_is_replayed_as_it_stands() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let task = client.say("hi").await;
        let events = client.resume(&id(&task), 0).await.rest().await;
        assert_eq!(events[0].kind(), "task");
        let last = events[events.len() - 1].id.expect("an id");
        assert_eq!(client.resume(&id(&task), last).await.rest().await, []);
        assert!(events[events.len() - 1].is(COMPLETED));
    }
}

#[tokio::test]
async fn a_number_from_the_future_gets_the_task() {
    let site = serve(asker()).await;
    let client = site.jsonrpc();
    let task = client.say("go").await;
    let mut stream = client.resume(&id(&task), 1_000).await;
    assert_eq!(stream.one().await.payload()["task"], task);
    client.send(follow_up(&id(&task), "stop")).await.task();
    assert!(stream.rest().await.pop().expect("a last event").is(COMPLETED));
    let ended = client.resume(&id(&task), u64::MAX).await.rest().await;
    assert!(ended.len() == 1 && ended[0].is(COMPLETED));
}

#[tokio::test]
async fn an_ended_task_cannot_be_subscribed_to() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let params = json!({"id": client.say("hi").await["id"]}).to_string();
        let refused = client.try_open("SubscribeToTask", &params).await.err().expect("no stream");
        refused.refused(ErrorCode::UnsupportedOperation);
        let refused = client.try_open("SubscribeToTask", r#"{"id":"none"}"#).await.err().expect("no stream");
        refused.refused(ErrorCode::TaskNotFound);
    }
}

#[tokio::test]
async fn a_last_event_id_that_is_no_number_is_refused() {
    let site = serve(asker()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let params = json!({"id": client.say("go").await["id"]}).to_string();
        for bad in ["x", "-1", "1.5", "99999999999999999999999"] {
            let client = client.clone().with("last-event-id", bad);
            let answer = client.try_open("SubscribeToTask", &params).await.err().expect("no stream");
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, "Last-Event-ID");
        }
    }
}

#[tokio::test]
async fn a_direct_answer_is_a_stream_of_one_event() {
    let direct = script(|turn: Turn| async move { Ok(Outcome::reply(turn.text())) }).direct();
    let site = serve(AgentSpec::new("direct", direct)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let events = client.stream(message("hi")).await.rest().await;
        assert_eq!(events.len(), 1);
        let said = events[0].payload()["message"].clone();
        assert_eq!((text(&said), &said["role"]), ("hi", &json!("ROLE_AGENT")));
        assert!(said["contextId"].is_string() && said.get("taskId").is_none(), "{said}");
        assert_eq!(text(&client.send(message("hi")).await.result()["message"]), "hi");
        assert_eq!(text(&client.start_with(message("hi")).await.result()["message"]), "hi");
        assert_eq!(client.call("ListTasks", json!({})).await.result()["totalSize"], 0);
    }
}

#[tokio::test]
async fn an_agent_that_may_answer_directly_opens_a_task_when_it_emits() {
    let spec = script(|turn: Turn| async move {
        turn.working("on it").await?;
        Ok(Outcome::reply("done"))
    });
    let site = serve(AgentSpec::new("both", spec.direct())).await;
    for wire in WIRES {
        let client = site.client(wire);
        let events = client.stream(message("hi")).await.rest().await;
        let kinds: Vec<_> = events.iter().map(SseEvent::kind).collect();
        assert_eq!(kinds, ["task", "statusUpdate", "statusUpdate"]);
        let task = client.say("hi").await;
        assert_eq!((state(&task), text(&task["status"]["message"])), (COMPLETED, "done"));
    }
}

#[tokio::test]
async fn quiet_streams_are_kept_alive_by_comments() {
    let limits = ServerLimits { keep_alive: Duration::from_millis(20), ..ServerLimits::default() };
    let (spec, permits) = stepper(1);
    let site = serve_with(|server| server.agent(spec).limits(limits)).await;
    for wire in WIRES {
        let mut stream = site.client(wire).stream(message("go")).await;
        stream.through(|event| event.is(WORKING)).await;
        stream.comment().await;
        permits.add_permits(2);
        let rest = stream.rest().await;
        assert!(stream.comments > 0);
        assert_eq!(ids(&rest), [3, 4]);
    }
}

#[tokio::test]
async fn closing_one_stream_leaves_the_others_and_the_task_alone() {
    let (spec, permits) = stepper(10);
    let site = serve(spec).await;
    let client = site.jsonrpc();
    let mut sent = client.stream(message("go")).await;
    let task = id(&sent.one().await.payload()["task"]);
    client.wait_for(&task, WORKING).await;
    let mut others = vec![client.subscribe(&task).await, site.rest().subscribe(&task).await];
    for stream in &mut others {
        stream.one().await;
    }
    permits.add_permits(3);
    sent.one().await;
    drop(sent);
    others[1].one().await;
    drop(others.pop());
    permits.add_permits(8);
    let rest = others[0].rest().await;
    assert_eq!(ids(&rest), (3..=13).collect::<Vec<_>>());
    assert_eq!(state(&client.get(&task).await), COMPLETED);
}

#[tokio::test]
async fn a_turn_goes_on_although_nobody_reads_its_stream() {
    let (spec, permits) = stepper(5);
    let runtime = runtime(spec);
    let request = json!({"message": message("go")});
    let mut stream = runtime.send_streaming_message(call("ann", &request)).await.expect("a stream");
    let first = stream.next().await.expect("the task").expect("no failure");
    let StreamResponse::Task(task) = first.payload().expect("an event") else { panic!("no task") };
    permits.add_permits(6);
    let look = || async {
        let task = runtime.get_task(call("ann", &json!({"id": task.id}))).await.expect("the task");
        task.into_task().expect("a whole task").status.state
    };
    until("the turn to end", || async { look().await == TaskState::Completed }).await;
    // All of it is there for whoever reads after all.
    let rest: Vec<_> = stream.map(|event| event.expect("no failure").number).collect().await;
    assert_eq!(rest, (2..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_blocking_send_that_goes_away_does_not_cancel_the_turn() {
    let (spec, permits) = stepper(5);
    let dropped = Counter::default();
    let site = serve(spec).await;
    for wire in WIRES {
        let client = site.client(wire);
        let waiting = tokio::spawn({
            let (client, guard) = (client.clone(), OnDrop(dropped.clone()));
            async move {
                let _guard = guard;
                client.say("go").await
            }
        });
        let list = || async { client.call("ListTasks", json!({"status": WORKING})).await.result() };
        until("the task to appear", || async { list().await["totalSize"] == 1 }).await;
        let task = id(&list().await["tasks"][0]);
        let before = dropped.get();
        waiting.abort();
        until("the connection to be cut", || async { dropped.get() > before }).await;
        // Each step is taken by whoever drives the turn by now.
        for _ in 0..6 {
            permits.add_permits(1);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let done = client.wait_for(&task, COMPLETED).await;
        assert_eq!(done["artifacts"][0]["parts"].as_array().map(Vec::len), Some(5));
    }
}

#[tokio::test]
async fn agents_without_streams_refuse_them() {
    let site = serve(echo().streaming(false)).await;
    for wire in WIRES {
        let client = site.client(wire);
        let send = json!({"message": message("hi")}).to_string();
        for (method, params) in [("SendStreamingMessage", &*send), ("SubscribeToTask", r#"{"id":"x"}"#)] {
            let refused = client.try_open(method, params).await.err().expect("no stream");
            refused.refused(ErrorCode::UnsupportedOperation);
        }
        assert_eq!(client.call("ListTasks", json!({})).await.result()["totalSize"], 0);
    }
}
