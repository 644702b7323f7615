//! Connections to the agent that break in the middle of a task: what comes afterwards is what was missing, once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::testing::{Heard, Peer, Reply};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::pair::*;
use crate::streams::{count_to, open, pieces, texts};
use crate::support::{self, COMPLETED, Site, Wire, id, message, proxy, serve_with, state};

#[tokio::test]
async fn a_connection_that_is_cut_again_and_again_loses_and_doubles_nothing() {
    for wire in support::WIRES {
        // The card is asked for whole; every further connection is good for a few events.
        let (url, server) = proxy(|connection| if connection == 0 { 1 << 20 } else { 6_000 }).await;
        let spec = pieces(&open());
        let behind = url.clone();
        let agent = serve_with(|server| server.agent(spec).public_url(behind)).await;
        *server.lock() = Some(agent.address);
        let relay = serve_relay(&url, wire).await;
        let events = relay.rest().stream(message("100")).await.rest().await;
        assert_eq!(texts(&events), count_to(100));
        assert!(events.last().expect("an end").is(COMPLETED));
        let numbers: Vec<_> = events.iter().filter_map(|event| event.id).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    }
}

/// An agent as old ones are: no numbers, and the task as a whole for whoever comes back.
fn whole(parts: usize, state: &str) -> Value {
    let parts: Vec<_> = (0..parts).map(|at| json!({"text": at.to_string()})).collect();
    let artifacts = if parts.is_empty() { json!([]) } else { json!([{"artifactId": "a", "parts": parts}]) };
    json!({"id": "t", "contextId": "c", "status": {"state": state}, "artifacts": artifacts})
}

fn piece(at: usize) -> Value {
    let artifact = json!({"artifactId": "a", "parts": [{"text": at.to_string()}]});
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": at > 0}})
}

fn asks_for(heard: &Heard, method: &str, verb: &str) -> bool {
    heard.json()["method"] == method || heard.path.contains(verb)
}

fn cut(frames: String) -> Reply {
    let kept = frames.len();
    Reply::events(frames).cut_after(kept)
}

#[tokio::test]
async fn of_a_task_that_is_shown_whole_again_only_what_is_new_is_shown() {
    for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson] {
        let peer = Peer::script()
            .card(binding)
            .answer_with(|heard| {
                let task = json!({"task": whole(0, "TASK_STATE_WORKING")});
                cut(heard.frames(&[(0, task), (0, piece(0)), (0, piece(1))]))
            })
            .answer_with(|heard| {
                assert!(asks_for(heard, "SubscribeToTask", ":subscribe"), "{heard:?}");
                cut(heard.frames(&[(0, json!({"task": whole(3, "TASK_STATE_WORKING")})), (0, piece(3))]))
            })
            .answer(Reply::close())
            .answer_with(|heard| {
                if !asks_for(heard, "SubscribeToTask", ":subscribe") {
                    return heard.result(&whole(4, "TASK_STATE_WORKING"));
                }
                let done = json!({"statusUpdate": {"taskId": "t", "contextId": "c",
                    "status": {"state": "TASK_STATE_COMPLETED"}}});
                heard.stream(&[
                    (0, json!({"task": whole(4, "TASK_STATE_WORKING")})),
                    (0, piece(4)),
                    (0, done),
                ])
            })
            .start()
            .expect("a port");
        let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
        let events = relay.rest().stream(message("go")).await.rest().await;
        assert_eq!(texts(&events), count_to(5), "{events:?}");
        assert!(events.last().expect("an end").is(COMPLETED));
        assert_eq!(events[1..].iter().filter(|event| event.kind() == "task").count(), 0);
    }
}

#[tokio::test]
async fn a_task_that_has_ended_meanwhile_is_looked_at() {
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| {
            let task = json!({"task": whole(0, "TASK_STATE_WORKING")});
            cut(heard.frames(&[(0, task), (0, piece(0))]))
        })
        .answer_with(|heard| match asks_for(heard, "GetTask", "/tasks/t") {
            true => heard.result(&whole(2, "TASK_STATE_COMPLETED")),
            false => heard.error(ErrorCode::UnsupportedOperation),
        })
        .start()
        .expect("a port");
    let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
    let events = relay.jsonrpc().stream(message("go")).await.rest().await;
    assert_eq!(texts(&events), count_to(2), "{events:?}");
    assert!(events.last().expect("an end").is(COMPLETED));
}

#[tokio::test]
async fn a_stream_that_may_have_left_something_out_is_not_trusted() {
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| {
            let task = json!({"task": whole(0, "TASK_STATE_WORKING")});
            cut(heard.frames(&[(0, task), (0, piece(0))]))
        })
        .answer_with(|heard| {
            // It goes on with whatever happens next, as agents of older versions do.
            assert!(asks_for(heard, "SubscribeToTask", ":subscribe"), "{heard:?}");
            heard.stream(&[(0, piece(3))])
        })
        .answer_with(|heard| {
            assert!(asks_for(heard, "GetTask", "/tasks/t"), "{heard:?}");
            heard.result(&whole(4, "TASK_STATE_WORKING"))
        })
        .answer_with(|heard| heard.result(&whole(5, "TASK_STATE_COMPLETED")))
        .start()
        .expect("a port");
    let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
    let events = relay.jsonrpc().stream(message("go")).await.rest().await;
    assert_eq!(texts(&events), count_to(5), "{events:?}");
    assert!(events.last().expect("an end").is(COMPLETED));
}

#[tokio::test]
async fn an_agent_that_is_gone_for_a_while_is_waited_for() {
    let gate = Arc::new(Semaphore::new(2));
    let (door, agent) = behind_a_door(&gate).await;
    let patient = relay(&door.url, Wire::JsonRpc).await.patience(std::time::Duration::from_secs(60));
    let relay = serve_with(|server| server.relay_at("", patient)).await;
    let client = relay.rest();
    let mut events = client.stream(message("4")).await;
    let mut seen = events.through(|event| texts(std::slice::from_ref(event)) == ["1"]).await;
    let task = id(&seen[0].payload()["task"]);
    door.shut();
    gate.add_permits(2);
    let there = newest(&agent).await;
    support::until("the task to end there", || async { state(&agent.rest().get(&there).await) == COMPLETED })
        .await;
    // Here it goes on, as far as can be told.
    assert_eq!(state(&client.get(&task).await), support::WORKING);
    door.open();
    seen.extend(events.rest().await);
    assert_eq!(texts(&seen), count_to(4));
    assert!(seen.last().expect("an end").is(COMPLETED));
    assert_eq!(client.get(&task).await["artifacts"], agent.rest().get(&there).await["artifacts"]);
}

#[tokio::test]
async fn an_agent_that_stays_away_fails_its_tasks() {
    let gate = Arc::new(Semaphore::new(1));
    let (door, _agent) = behind_a_door(&gate).await;
    let relay = relay(&door.url, Wire::Rest).await.patience(std::time::Duration::from_millis(200));
    let relay = serve_with(|server| server.relay_at("", relay)).await;
    let mut events = relay.rest().stream(message("4")).await;
    events.through(|event| texts(std::slice::from_ref(event)) == ["0"]).await;
    door.shut();
    let last = events.rest().await.pop().expect("an end");
    assert!(last.is(support::FAILED), "{last:?}");
    let why = &last.payload()["statusUpdate"]["status"]["message"];
    assert!(support::text(why).contains("cannot be reached"), "{why}");
}

/// An agent that can be put out of reach.
async fn behind_a_door(gate: &Arc<Semaphore>) -> (Door, Site) {
    let door = Door::new().await;
    let (spec, url) = (pieces(gate), door.url.clone());
    let agent = serve_with(|server| server.agent(spec).public_url(url)).await;
    *door.behind.lock() = Some(agent.address);
    (door, agent)
}

/// Lets connections through to somebody, unless it is shut. Shutting it cuts those that there are.
struct Door {
    url: String,
    behind: Arc<Mutex<Option<SocketAddr>>>,
    shut: Arc<AtomicBool>,
    shutting: Arc<tokio::sync::Notify>,
}

impl Door {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (shut, shutting) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
        let behind = Arc::new(Mutex::new(None));
        let (is_shut, cut, led_to) = (shut.clone(), shutting.clone(), behind.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if is_shut.load(Ordering::SeqCst) {
                    continue;
                }
                let cut = cut.clone();
                let address: SocketAddr = led_to.lock().expect("somebody behind the door");
                tokio::spawn(async move {
                    let Ok(mut server) = tokio::net::TcpStream::connect(address).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        Self { url, behind, shut, shutting }
    }

    fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        self.shutting.notify_waiters();
    }

    fn open(&self) {
        self.shut.store(false, Ordering::SeqCst);
    }
}

/// A relay that asks soon for what a stream does not bring, and whose patience is soon at its end.
async fn serve_alert(url: &str) -> Site {
    let soon = std::time::Duration::from_millis(50);
    let relay = relay(url, Wire::JsonRpc).await.silence(soon).patience(soon * 4);
    serve_with(|server| server.relay_at("", relay)).await
}

#[tokio::test]
async fn a_silent_stream_is_asked_about_and_fails_nothing_while_the_agent_answers() {
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| {
            let begun = heard.frames(&[(0, json!({"task": whole(0, "TASK_STATE_WORKING")}))]);
            // A comment keeps the connection, and says nothing of the task.
            Reply::events(begun).until_close().then_endlessly(": still here\n\n")
        })
        .answer_with(|heard| heard.result(&whole(0, "TASK_STATE_WORKING")))
        .answer_with(|heard| heard.error(ErrorCode::Internal))
        .answer_with(|heard| heard.result(&whole(2, "TASK_STATE_COMPLETED")))
        .start()
        .expect("a port");
    let relay = serve_alert(peer.url()).await;
    let events = relay.rest().stream(message("go")).await.rest().await;
    assert!(events.last().expect("an end").is(COMPLETED), "{events:?}");
    let asked = peer.calls().iter().filter(|heard| asks_for(heard, "GetTask", "/tasks/t")).count();
    assert_eq!(asked, 3);
}

#[tokio::test]
async fn the_task_of_a_silent_stream_fails_while_nobody_answers_for_it() {
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| {
            let begun = heard.frames(&[(0, json!({"task": whole(0, "TASK_STATE_WORKING")}))]);
            Reply::events(begun).until_close().then_endlessly(": still here\n\n")
        })
        .answer_with(|_| Reply::reset())
        .start()
        .expect("a port");
    let relay = serve_alert(peer.url()).await;
    let events = relay.rest().stream(message("go")).await.rest().await;
    assert!(events.last().expect("an end").is(support::FAILED), "{events:?}");
}
