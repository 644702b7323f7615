//! Streams of agents on other SDKs, many at once, while the gateway is killed: what anybody saw is still there, nothing is done
//! twice, and no call is forgotten.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::agents::{RemoteAgent, section};
use crate::call::{Binding, Call, Frame};
use crate::caller::{Caller, message};
use crate::gateway::Gateway;
use crate::records::{Recorded, settled};
use crate::{judge, until};

/// Streams of each agent at once.
const STREAMS: usize = 6;
/// Of a call, in millionths of a US dollar.
const PRICE: u64 = 10_000;

/// A stream that is read until it breaks.
struct Stream {
    agent: String,
    text: String,
    seen: Arc<AtomicUsize>,
    frames: JoinHandle<Vec<Frame>>,
}

impl Stream {
    fn open(address: SocketAddr, agent: &str, number: usize) -> Self {
        let text = format!("tck-long-running {agent} {number}");
        let call = Call::stream(Binding::JsonRpc, agent, &message(&text));
        let seen = Arc::new(AtomicUsize::new(0));
        let progress = seen.clone();
        let frames = tokio::spawn(async move {
            let mut frames = Vec::new();
            let _ = call.frames(address, &mut frames, &progress).await;
            frames
        });
        Self { agent: agent.to_owned(), text, seen, frames }
    }
}

/// An event, apart from the call that it was shown for.
fn event(frame: &Frame) -> (u64, Value) {
    let told: Value = serde_json::from_slice(&frame.data).expect("JSON");
    (frame.number, told["result"].clone())
}

/// What is wrong with what became of a stream.
async fn judged(gateway: &Gateway, agents: &[(String, RemoteAgent)], stream: Stream) -> Vec<String> {
    let Stream { agent, text, frames, .. } = stream;
    let seen: Vec<_> = frames.await.expect("it is read").iter().map(event).collect();
    let Some(task) = seen.first().and_then(|(_, first)| first["task"]["id"].as_str()) else {
        return vec![format!("{text}: nothing was seen")];
    };
    let mut wrong = Vec::new();
    let ended = Caller::new(gateway, &*agent).ended(task).await;
    if ended.state() != "TASK_STATE_COMPLETED" {
        wrong.push(format!("{text}: {ended:?}"));
    }
    let address = gateway.place().parse().expect("an address");
    let kept = Call::resume(Binding::JsonRpc, &agent, task, 0).all(address).await;
    let kept: Vec<_> = kept.iter().map(event).collect();
    if !kept.starts_with(&seen) {
        wrong.push(format!("{text}: {} events were seen, of {} that are kept", seen.len(), kept.len()));
    }
    let there = &agents.iter().find(|(name, _)| *name == agent).expect("it is there").1;
    let worked = there.count(&text);
    if worked != 1 {
        wrong.push(format!("{text}: it worked {worked} times"));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_under_load_loses_no_event_and_no_call_of_agents_on_other_sdks() {
    let agents = RemoteAgent::official().await;
    let priced = "price = { per_call = 0.01 }\nexchange = \"stream\"";
    let sections: String = agents.iter().map(|(name, agent)| section(name, agent.url(), priced)).collect();
    let budgets = "[budget.caller]\nmax_usd_per_day = 100.0\n[policy.default]\nmax_concurrency = 1000\n";
    let mut gateway = Gateway::start(&format!("{budgets}{sections}"));
    let address = gateway.place().parse().expect("an address");
    let streams: Vec<_> = agents
        .iter()
        .flat_map(|(name, _)| (0..STREAMS).map(|number| Stream::open(address, name, number)))
        .collect();
    until("every stream has begun", || streams.iter().all(|one| one.seen.load(Ordering::Relaxed) > 0)).await;
    gateway.kill_and_restart();
    let judgements = streams.into_iter().map(|stream| judged(&gateway, &agents, stream));
    let mut wrong = join_all(judgements).await.concat();
    for (name, _) in &agents {
        let rows = settled(&gateway, name, STREAMS).await;
        let paid = rows.iter().map(Recorded::charged).filter(|charged| *charged == PRICE).count();
        if (rows.len(), paid) != (STREAMS, STREAMS) {
            wrong
                .push(format!("{name}: {} calls are recorded, {paid} are charged, of {STREAMS}", rows.len()));
        }
    }
    judge(&wrong);
}
