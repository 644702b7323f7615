//! Streams through a relay: the same events, numbered here, for as many as watch.

use std::sync::Arc;

use chancery_sdk::{AgentSpec, ErrorCode, Outcome, Part, Principal, Turn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::pair::*;
use crate::support::*;

/// Streams as many pieces as it is told to, each when it is let.
pub(crate) fn pieces(gate: &Arc<Semaphore>) -> AgentSpec {
    let gate = gate.clone();
    agent(move |turn: Turn| {
        let gate = gate.clone();
        async move {
            let count: usize = turn.text().parse().unwrap_or(3);
            let mut writer = turn.begin_artifact("pieces");
            for at in 0..count {
                gate.acquire().await.expect("an open gate").forget();
                writer.append(Part::text(at.to_string())).await?;
            }
            Ok(Outcome::completed())
        }
    })
}

/// A gate that lets everything through.
pub(crate) fn open() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(Semaphore::MAX_PERMITS >> 1))
}

/// Without what differs between two runs of the same thing.
fn shape(event: &SseEvent) -> Value {
    let payload = event.payload();
    let parts = payload["artifactUpdate"]["artifact"]["parts"].clone();
    json!([event.kind(), event.state(), parts, payload["artifactUpdate"]["append"]])
}

/// The texts of all pieces, in order.
pub(crate) fn texts(events: &[SseEvent]) -> Vec<String> {
    let parts = events.iter().flat_map(|event| {
        let payload = event.payload();
        let task = payload["task"]["artifacts"][0]["parts"].as_array().cloned().unwrap_or_default();
        let update = payload["artifactUpdate"]["artifact"]["parts"].as_array().cloned();
        task.into_iter().chain(update.unwrap_or_default()).collect::<Vec<_>>()
    });
    parts.map(|part| part["text"].as_str().expect("a text").to_owned()).collect()
}

/// What so many pieces say.
pub(crate) fn count_to(count: usize) -> Vec<String> {
    (0..count).map(|at| at.to_string()).collect()
}

#[tokio::test]
async fn a_stream_is_the_same_here_and_there() {
    for (caller, there) in WAYS {
        let pair = pair(pieces(&open()), there).await;
        let there = pair.agent.client(caller).stream(message("200")).await.rest().await;
        let here = pair.relay.client(caller).stream(message("200")).await.rest().await;
        assert_eq!(there.iter().map(shape).collect::<Vec<_>>(), here.iter().map(shape).collect::<Vec<_>>());
        let numbers: Vec<_> = here.iter().filter_map(|event| event.id).collect();
        assert_eq!(numbers, (1..=here.len() as u64).collect::<Vec<_>>());
        let id = id(&here[0].payload()["task"]);
        let there = pair.agent.client(caller).get(&newest(&pair.agent).await).await;
        assert_eq!(bare(&pair.relay.client(caller).get(&id).await), bare(&there));
    }
}

#[tokio::test]
async fn each_piece_is_shown_when_it_comes() {
    let gate = Arc::new(Semaphore::new(0));
    let pair = pair(pieces(&gate), Wire::JsonRpc).await;
    let mut events = pair.relay.rest().stream(message("3")).await;
    events.through(|event| event.is(WORKING)).await;
    for at in 0..3 {
        gate.add_permits(1);
        assert_eq!(texts(&[events.one().await]), [at.to_string()]);
    }
    assert!(events.rest().await.pop().expect("an end").is(COMPLETED));
}

#[tokio::test]
async fn whoever_comes_later_sees_the_same_events() {
    for (caller, there) in WAYS {
        let gate = Arc::new(Semaphore::new(3));
        let pair = pair(pieces(&gate), there).await;
        let client = pair.relay.client(caller);
        let mut first = client.stream(message("6")).await;
        let beginning = first.through(|event| texts(std::slice::from_ref(event)) == ["2"]).await;
        let task = id(&beginning[0].payload()["task"]);
        // A caller that goes away stops nothing.
        drop(first);
        let mut watching = client.subscribe(&task).await;
        let snapshot = watching.one().await;
        assert_eq!(
            (snapshot.id, texts(std::slice::from_ref(&snapshot))),
            (beginning.last().unwrap().id, count_to(3))
        );
        gate.add_permits(3);
        let rest = watching.rest().await;
        assert_eq!(texts(&rest), ["3", "4", "5"]);
        // By number, also when all is over.
        let resumed = client.resume(&task, beginning[1].id.expect("a number")).await.rest().await;
        assert_eq!(resumed, [&beginning[2..], &rest[..]].concat());
        let refused = client.try_open("SubscribeToTask", &json!({"id": task}).to_string()).await;
        refused.err().expect("it has ended").refused(ErrorCode::UnsupportedOperation);
    }
}

#[tokio::test]
async fn a_question_ends_the_stream_and_the_answer_opens_another() {
    for (caller, there) in WAYS {
        let spec = agent(|turn: Turn| async move {
            turn.working("thinking").await?;
            Ok(match turn.task() {
                None => turn.ask("Which one?"),
                Some(_) => Outcome::text(turn.text()),
            })
        });
        let pair = pair(spec, there).await;
        let client = pair.relay.client(caller);
        let asked = client.stream(message("one of them")).await.rest().await;
        assert!(asked.last().expect("an event").is(INPUT_REQUIRED), "{asked:?}");
        let task = id(&asked[0].payload()["task"]);
        let mut watching = client.subscribe(&task).await;
        assert!(watching.one().await.is(INPUT_REQUIRED));
        let mut events = client.stream(follow_up(&task, "this one")).await;
        let answered = events.rest().await;
        assert_eq!(answered[0].kind(), "task");
        assert!(answered.last().expect("an event").is(COMPLETED), "{answered:?}");
        assert_eq!(watching.rest().await.last().expect("an event").id, answered.last().expect("an event").id);
        let done = client.get(&task).await;
        let said: Vec<_> = done["history"].as_array().expect("a history").iter().map(text).collect();
        assert_eq!(said, ["one of them", "thinking", "Which one?", "this one", "thinking"]);
    }
}

#[tokio::test]
async fn a_stream_stays_open_while_somebody_authenticates() {
    let spec = agent(|turn: Turn| async move {
        Ok(match turn.task() {
            None => turn.ask_for_auth("Who are you?"),
            Some(_) => Outcome::text("Welcome"),
        })
    });
    for wire in WIRES {
        let there = chancery_sdk::testing::spawn(spec.clone()).await;
        let relay = serve_relay(there.url(), wire).await;
        let mut events = relay.rest().stream(message("open up")).await;
        let asked = events.through(|event| event.is(AUTH_REQUIRED)).await;
        let task = id(&asked[0].payload()["task"]);
        let client = chancery_sdk::Client::connect(there.url()).await.expect("it is there");
        let listed = client.list(Default::default()).await.expect("a page").tasks;
        there.runtime().resume(&Principal::anonymous(), &listed[0].id).await.expect("it waits");
        assert!(events.rest().await.last().expect("an end").is(COMPLETED));
        assert_eq!(state(&relay.jsonrpc().get(&task).await), COMPLETED);
    }
}

#[tokio::test]
async fn an_agent_that_cannot_stream_is_looked_at_instead() {
    for (caller, there) in WAYS {
        let gate = Arc::new(Semaphore::new(1));
        let pair = pair(pieces(&gate).streaming(false), there).await;
        let client = pair.relay.client(caller);
        let mut events = client.stream(message("3")).await;
        let mut seen =
            events.through(|event| texts(std::slice::from_ref(event)).contains(&"0".to_owned())).await;
        gate.add_permits(2);
        seen.extend(events.rest().await);
        assert_eq!(texts(&seen), count_to(3));
        assert!(seen.last().expect("an end").is(COMPLETED));
    }
}

#[tokio::test]
async fn a_task_that_works_takes_messages_as_the_agent_does() {
    // The agent takes one more message while it works, and answers it when it is done.
    let gate = Arc::new(Semaphore::new(1));
    let pair = pair(pieces(&gate), Wire::JsonRpc).await;
    let client = pair.relay.jsonrpc();
    let mut events = client.stream(message("2")).await;
    let seen = events.through(|event| texts(std::slice::from_ref(event)) == ["0"]).await;
    let task = id(&seen[0].payload()["task"]);
    let sent = follow_up(&task, "1");
    let (told, ()) = tokio::join!(client.send(sent), async { gate.add_permits(2) });
    // Whether it was in time or not, nothing is shown twice, and the stream comes to an end.
    let rest = events.rest().await;
    assert!(rest.last().expect("an end").is(COMPLETED), "{rest:?}");
    assert_eq!(texts(&rest).first().map(String::as_str), Some("1"), "{told:?} {rest:?}");
    let here = client.get(&task).await;
    let there = pair.agent.rest().get(&newest(&pair.agent).await).await;
    assert_eq!(here["artifacts"], there["artifacts"]);
}
