//! Agents elsewhere that lie, stall or break off, behind a gateway: the caller gets an answer of the protocol, whoever calls
//! another agent meanwhile notices nothing, and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_sdk::protocol::{ProtocolBinding, SendMessageResponse, StreamResponse};
use chancery_sdk::testing::{Exchange, HOSTILE, Hostile, Must, Peer, Reply};
use chancery_sdk::{Client, ClientError, TaskState};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::gateway::Gateway;

const CONFIG: &str = "[budget.global]\nmax_usd_per_day = 1000.0\n[policy.default]\nmax_duration_ms = 10000\n\
                      [[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = { per_call = 0 }\n";

/// How often to look whether all has been given back: for half a minute, where nothing else goes on.
const LOOKS: usize = 300;

/// An agent of the gateway that is such a peer.
struct Member {
    name: String,
    hostile: &'static Hostile,
    /// What the caller speaks, which is not what the peer does.
    binding: ProtocolBinding,
    peer: Peer,
}

fn members() -> Vec<Member> {
    let bindings = [
        (ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson),
        (ProtocolBinding::HttpJson, ProtocolBinding::Grpc),
    ];
    let mut members = Vec::new();
    for (place, (spoken, binding)) in bindings.into_iter().enumerate() {
        for hostile in HOSTILE.iter().filter(|hostile| hostile.speaks(&spoken)) {
            let peer = hostile.start(&spoken).expect("a port");
            let name = format!("{}-{place}", hostile.name);
            members.push(Member { name, hostile, binding: binding.clone(), peer });
        }
    }
    members
}

fn section(member: &Member) -> String {
    format!(
        "[[agent]]\nname = \"{}\"\nkind = \"a2a\"\nurl = \"{}\"\nprice = {{ per_call = 0.01 }}\n",
        member.name,
        member.peer.url()
    )
}

/// What came of a call: the state that its task has ended in, or what the gateway answered instead.
async fn called(url: &str, binding: ProtocolBinding, exchange: Exchange) -> Result<TaskState, ClientError> {
    let client = Client::builder().only([binding]).retries(0).stream_resumes(0).connect(url).await?;
    if exchange == Exchange::Get {
        return Ok(match client.send("hello").await? {
            SendMessageResponse::Task(task) => task.status.state,
            SendMessageResponse::Message(_) => TaskState::Completed,
        });
    }
    let mut events = client.stream("hello").await?;
    let mut state = None;
    while let Some(event) = events.next().await {
        state = match event?.payload().expect("it can be read") {
            StreamResponse::Task(task) => Some(task.status.state),
            StreamResponse::StatusUpdate(update) => Some(update.status.state),
            StreamResponse::Message(_) => Some(TaskState::Completed),
            StreamResponse::ArtifactUpdate(_) => state,
        };
    }
    Ok(state.expect("a stream says how its task is"))
}

/// What is wrong with how a hostile peer was taken.
fn judge(hostile: &Hostile, came: &Result<TaskState, ClientError>) -> Option<String> {
    let wrong = match (came, hostile.must) {
        (Err(error), _) if error.code().is_none() => "that is no answer of the protocol",
        (Ok(state), _) if !state.is_terminal() => "the task has not ended",
        (Ok(TaskState::Completed), Must::Fail) => "it was taken for a good answer",
        (Ok(TaskState::Completed), _) => return None,
        (_, Must::Succeed) => "it is unusual, and right",
        _ => return None,
    };
    Some(format!("{}: {} The caller got {came:?}: {wrong}", hostile.name, hostile.story))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_agent_is_answered_for_and_leaves_nothing_behind() {
    let members = members();
    let gateway = Gateway::start(&(CONFIG.to_owned() + &members.iter().map(section).collect::<String>()));
    let over = Arc::new(AtomicBool::new(false));
    let neighbour = tokio::spawn(undisturbed(gateway.agent("echo"), over.clone()));
    let mut calls = JoinSet::new();
    for member in &members {
        let (url, hostile) = (gateway.agent(&member.name), member.hostile);
        let binding = member.binding.clone();
        calls.spawn(async move { judge(hostile, &called(&url, binding, hostile.exchange).await) });
    }
    let wrong: Vec<_> = calls.join_all().await.into_iter().flatten().collect();
    over.store(true, Ordering::Relaxed);
    let answered = neighbour.await.expect("no call to another agent fails");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answered > 0, "nobody called another agent");
    left_behind_nothing(&gateway).await;
}

/// Calls an agent again and again. Gives how often it answered.
pub(crate) async fn undisturbed(url: String, over: Arc<AtomicBool>) -> usize {
    let client = Client::builder().retries(0).connect(&url).await.expect("it is there");
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) {
        assert_eq!(client.send("hello").await.expect("it answers").text(), "hello");
        answered += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    answered
}

/// No call is open, nothing is held, no stream is served.
pub(crate) async fn left_behind_nothing(gateway: &Gateway) {
    let mut last = String::new();
    for _ in 0..LOOKS {
        let asked = |what: &str| -> Value {
            let text = gateway.run(&["admin", "-o", "json", what]);
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        let calls = asked("calls")["calls"].clone();
        let accounts = asked("budgets")["accounts"].clone();
        let limits = accounts.as_array().expect("accounts").iter().flat_map(|account| {
            account["limits"].as_array().into_iter().flatten().map(|limit| limit["held"].as_u64())
        });
        let held: Vec<_> = limits.collect();
        let metrics = gateway.run(&["admin", "metrics"]);
        let is_open = |line: &&str| line.starts_with("chancery_open_") && !line.ends_with(" 0");
        let open: Vec<_> = metrics.lines().filter(is_open).collect();
        assert!(!held.is_empty(), "there is no account: {accounts}");
        if calls == Value::Array(Vec::new()) && held.iter().all(|held| *held == Some(0)) && open.is_empty() {
            return;
        }
        last = format!("{calls}, held {held:?}, {open:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("something is left: {last}");
}

/// Every event of it is a good one; there is only too much of it.
fn too_much(text: &str, is_endless: bool) -> Peer {
    let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
    let piece =
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true}});
    let begun = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}});
    let script = Peer::script().card(ProtocolBinding::HttpJson).answer_with(move |heard| {
        if heard.path.ends_with(":cancel") {
            let canceled = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}});
            return heard.result(&canceled);
        }
        let frames = heard.frames(&[(0, begun.clone()), (0, piece.clone())]);
        match is_endless {
            true => {
                let again = heard.frames(&[(0, piece.clone())]).repeat(16);
                Reply::events(frames).until_close().then_endlessly(again)
            }
            false => Reply::events(frames).until_close().then_silence(),
        }
    });
    script.start().expect("a port")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_end_and_a_piece_without_measure_end_in_a_failed_task() {
    let peers =
        [("endless", too_much(&"x".repeat(4096), true)), ("huge", too_much(&"x".repeat(20 << 20), false))];
    let section = |(name, peer): &(&str, Peer)| {
        format!(
            "[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{}\"\nprice = {{ per_call = 0.01 }}\n",
            peer.url()
        )
    };
    let gateway = Gateway::start(&(CONFIG.to_owned() + &peers.iter().map(section).collect::<String>()));
    let over = Arc::new(AtomicBool::new(false));
    let neighbour = tokio::spawn(undisturbed(gateway.agent("echo"), over.clone()));
    for (name, peer) in &peers {
        let came = called(&gateway.agent(name), ProtocolBinding::JsonRpc, Exchange::Stream).await;
        assert!(matches!(came, Ok(TaskState::Failed)), "{name}: {came:?}");
        let is_told = || peer.calls().iter().any(|heard| heard.path == "/tasks/t:cancel");
        for _ in 0..LOOKS {
            if is_told() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(is_told(), "{name} is not told to stop");
    }
    over.store(true, Ordering::Relaxed);
    assert!(neighbour.await.expect("no call to another agent fails") > 0);
    left_behind_nothing(&gateway).await;
}
