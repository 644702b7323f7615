//! However fast an agent emits and however slowly a client reads: every event, in order, once.

mod support;

use std::sync::Arc;

use chancery_sdk::{AgentSpec, Artifact, Failure, Outcome, Part, Turn};
use support::*;
use tokio::sync::{Notify, Semaphore};

const BURST: usize = 10_000;

/// Emits its chunks of one artifact without a pause. Its events are `task`, WORKING, the chunks, COMPLETED.
async fn burst(turn: &Turn, chunks: usize) -> Result<Outcome, Failure> {
    let mut artifact = turn.begin_artifact("numbers");
    for number in 1..chunks {
        artifact.append(number.to_string()).await?;
    }
    artifact.finish(chunks.to_string()).await?;
    Ok(Outcome::completed())
}

fn burster() -> AgentSpec {
    agent(|turn: Turn| async move { burst(&turn, BURST).await })
}

/// The numbers of the chunks among these events.
fn chunks(events: &[SseEvent]) -> Vec<usize> {
    let artifacts = events.iter().filter(|event| event.kind() == "artifactUpdate");
    artifacts
        .map(|event| text(&event.payload()["artifactUpdate"]["artifact"]).parse().expect("a number"))
        .collect()
}

fn assert_whole(events: &[SseEvent], chunk_count: usize) {
    let ids: Vec<_> = events.iter().map(|event| event.id.expect("an id")).collect();
    assert_eq!(ids, (1..=chunk_count as u64 + 3).collect::<Vec<_>>());
    assert_eq!(chunks(events), (1..=chunk_count).collect::<Vec<_>>());
    assert_eq!((events[0].kind().as_str(), events[1].is(WORKING)), ("task", true));
    assert!(events[events.len() - 1].is(COMPLETED));
}

#[tokio::test]
async fn a_stream_shows_every_event_of_a_burst_in_order() {
    let site = serve(burster()).await;
    for wire in WIRES {
        let events = site.client(wire).stream(message("go")).await.rest().await;
        assert_whole(&events, BURST);
    }
}

#[tokio::test]
async fn a_blocking_send_returns_every_chunk_of_a_burst() {
    let site = serve(burster()).await;
    for wire in WIRES {
        let task = site.client(wire).say("go").await;
        assert_eq!(state(&task), COMPLETED);
        let parts = task["artifacts"][0]["parts"].as_array().expect("parts");
        let said: Vec<_> = parts.iter().map(|part| part["text"].as_str().expect("a text")).collect();
        assert_eq!(said, (1..=BURST).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_survive_parallel_callers() {
    let site = serve(agent(|turn: Turn| async move { burst(&turn, 1_000).await })).await;
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let client = site.client(WIRES[number % 2]);
            tokio::spawn(async move {
                if number < 4 {
                    assert_whole(&client.stream(message("go")).await.rest().await, 1_000);
                } else {
                    let task = client.say("go").await;
                    assert_eq!(task["artifacts"][0]["parts"].as_array().map(Vec::len), Some(1_000));
                }
            })
        })
        .collect();
    for call in calls {
        call.await.expect("a whole burst");
    }
}

#[tokio::test]
async fn a_reader_that_starts_after_the_end_gets_everything() {
    let site = serve(burster()).await;
    let client = site.jsonrpc();
    let mut stream = client.stream(message("go")).await;
    let first = stream.one().await;
    let task = id(&first.payload()["task"]);
    client.wait_for(&task, COMPLETED).await;
    let mut events = vec![first];
    events.extend(stream.rest().await);
    assert_whole(&events, BURST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_subscriber_sees_the_same_events() {
    let go = Arc::new(Notify::new());
    let spec = agent({
        let go = go.clone();
        move |turn: Turn| {
            let go = go.clone();
            async move {
                turn.working("ready").await?;
                go.notified().await;
                burst(&turn, 2_000).await
            }
        }
    });
    let site = serve(spec).await;
    let task = id(&site.jsonrpc().start("go").await);
    site.jsonrpc().wait_for(&task, WORKING).await;
    let mut streams = Vec::new();
    for number in 0..6 {
        let mut stream = site.client(WIRES[number % 2]).subscribe(&task).await;
        assert_eq!(stream.one().await.kind(), "task");
        streams.push(stream);
    }
    // One of them reads only after all the others have finished.
    let mut last = streams.pop().expect("a stream");
    go.notify_one();
    let readers: Vec<_> =
        streams.into_iter().map(|mut stream| tokio::spawn(async move { stream.rest().await })).collect();
    let seen =
        |events: &[SseEvent]| -> Vec<_> { events.iter().map(|event| (event.id, event.payload())).collect() };
    let mut all = Vec::new();
    for reader in readers {
        all.push(seen(&reader.await.expect("a reader")));
    }
    all.push(seen(&last.rest().await));
    assert_eq!(all[0].len(), 2_001);
    assert!(all.iter().all(|events| *events == all[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helpers_on_other_threads_may_emit() {
    const HELPERS: usize = 8;
    const EACH: usize = 200;
    let spec = agent(|turn: Turn| async move {
        let turn = Arc::new(turn);
        let helpers: Vec<_> = (0..HELPERS)
            .map(|helper| {
                let turn = turn.clone();
                tokio::spawn(async move {
                    for number in 0..EACH {
                        let id = format!("{helper}-{number}");
                        turn.artifact(Artifact::new("a", vec![Part::text(id)])).await?;
                    }
                    Ok::<_, chancery_sdk::TurnOver>(())
                })
            })
            .collect();
        for helper in helpers {
            helper.await??;
        }
        Ok(Outcome::completed())
    });
    let site = serve(spec).await;
    for wire in WIRES {
        let events = site.client(wire).stream(message("go")).await.rest().await;
        let ids: Vec<_> = events.iter().map(|event| event.id.expect("an id")).collect();
        assert_eq!(ids, (1..=(HELPERS * EACH) as u64 + 3).collect::<Vec<_>>());
        let artifacts = events.iter().filter(|event| event.kind() == "artifactUpdate");
        let mut next = [0; HELPERS];
        for event in artifacts {
            let payload = event.payload();
            let said = text(&payload["artifactUpdate"]["artifact"]);
            let (helper, number) = said.split_once('-').expect("two numbers");
            let helper: usize = helper.parse().expect("a helper");
            assert_eq!(number, next[helper].to_string(), "the order of helper {helper}");
            next[helper] += 1;
        }
        assert_eq!(next, [EACH; HELPERS]);
    }
}

#[tokio::test]
async fn an_agent_that_runs_ahead_of_the_journal_waits_for_it() {
    // Two emitters in one future, neither of which yields by itself.
    let spec = agent(|turn: Turn| async move {
        let emit = async |name: &str| {
            for number in 0..500 {
                turn.artifact(Artifact::new(name, vec![Part::text(number.to_string())])).await?;
            }
            Ok::<_, chancery_sdk::TurnOver>(())
        };
        let (left, right) = tokio::join!(emit("left"), emit("right"));
        left.and(right)?;
        Ok(Outcome::completed())
    });
    let events = serve(spec).await.rest().stream(message("go")).await.rest().await;
    assert_eq!(events.len(), 1_003);
    for name in ["left", "right"] {
        let of_name: Vec<_> = events
            .iter()
            .filter(|event| event.kind() == "artifactUpdate")
            .map(|event| event.payload()["artifactUpdate"]["artifact"].clone())
            .filter(|artifact| artifact["artifactId"] == name)
            .map(|artifact| text(&artifact).to_owned())
            .collect();
        assert_eq!(of_name, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_helper_that_outlives_the_turn_learns_that_it_is_over() {
    let (permits, refused) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let spec = agent({
        let (permits, refused) = (permits.clone(), refused.clone());
        move |turn: Turn| {
            let (permits, refused) = (permits.clone(), refused.clone());
            async move {
                tokio::spawn(async move {
                    permits.acquire().await.expect("a permit").forget();
                    assert!(turn.working("too late").await.is_err());
                    refused.notify_one();
                });
                Ok(Outcome::text("done"))
            }
        }
    });
    let client = serve(spec).await.jsonrpc();
    let task = client.say("go").await;
    permits.add_permits(1);
    within("the helper's refusal", refused.notified()).await;
    assert_eq!(client.get(&id(&task)).await, task);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_ends_in_a_question_always_closes_its_stream() {
    let spec = agent(|turn: Turn| async move {
        burst(&turn, 300).await?;
        Ok(turn.ask("and now?"))
    });
    let site = serve(spec).await;
    for round in 0..60 {
        let events = site.client(WIRES[round % 2]).stream(message("go")).await.rest().await;
        assert!(events[events.len() - 1].is(INPUT_REQUIRED));
        assert_eq!(events.len(), 303);
    }
}
