//! `max_duration_ms` holds at agents that answer only when they are done: the caller is told, the call is charged, and what such
//! an agent has begun is canceled there when it becomes known.

use futures_util::future::join_all;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::judge;
use crate::records::{Recorded, settled};

const POLICY: &str = "[policy.default]\nmax_duration_ms = 400\nmax_concurrency = 1000\n";
const PRICED: &str = "price = { per_call = 0.01 }";
/// Of a call, in millionths of a US dollar.
const PRICE: u64 = 10_000;
const WHY: &str = "PolicyTimeout";

/// Calls in each way there is. Gives what is wrong with what the callers were told.
async fn call(gateway: &Gateway, name: &str, text: &str) -> Vec<String> {
    let caller = Caller::new(gateway, name);
    let mut wrong = Vec::new();
    let sent = caller.send(&format!("{text} {name}-waiting")).await;
    if !sent.says(WHY) {
        wrong.push(format!("{name}, a send that waits: {sent:?}"));
    }
    let started = caller.start(&format!("{text} {name}-at-once")).await;
    if started.task()["id"].is_null() {
        wrong.push(format!("{name}, a send that returns immediately: {started:?}"));
    } else {
        let ended = caller.ended(started.id()).await;
        if ended.state() != "TASK_STATE_FAILED" || !ended.says(WHY) {
            wrong.push(format!("{name}, a send that returns immediately, then: {ended:?}"));
        }
    }
    let streamed = caller.stream(&format!("{text} {name}-streamed")).end().await;
    if !streamed.as_ref().is_ok_and(|told| told.contains(WHY)) {
        wrong.push(format!("{name}, a stream: {streamed:?}"));
    }
    let rows = settled(gateway, name, 3).await;
    let is_good = |row: &&Recorded| row.charged() == PRICE && row.at("state") == "TASK_STATE_FAILED";
    if rows.len() != 3 || rows.iter().filter(is_good).count() != 3 {
        let told: Vec<_> =
            rows.iter().map(|row| format!("{} {}", row.at("state"), row.at("charged_usd"))).collect();
        wrong.push(format!("{name}, charged for three calls: {told:?}"));
    }
    wrong
}

/// What was begun at the agent and nobody canceled there.
fn uncanceled(agent: &RemoteAgent) -> Vec<String> {
    let notes = agent.notes();
    let is_canceled = |task: &str| notes.iter().any(|note| note["event"] == "cancel" && note["task"] == task);
    let begun = notes.iter().filter(|note| note["event"] == "execute");
    let left = begun.filter(|note| !is_canceled(note["task"].as_str().unwrap()));
    left.map(|note| format!("{}: {}", note["wire"], note["text"])).collect()
}

async fn of_hostile(flags: &str) -> Vec<String> {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!("{POLICY}{}", hostile.sections("far", flags, PRICED)));
    let names = SPOKEN.map(|spoken| spoken.name("far"));
    let called = join_all(names.iter().map(|name| call(&gateway, name, "late gate working"))).await;
    let mut wrong = called.concat();
    hostile.open("gate").await;
    let left = || {
        [SPOKEN[0], SPOKEN[3]].iter().flat_map(|spoken| uncanceled(hostile.of(*spoken))).collect::<Vec<_>>()
    };
    let settled = async {
        while !left().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(crate::PATIENCE, settled).await.is_err() {
        wrong.extend(left().into_iter().map(|what| format!("never canceled there: {what}")));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_answers_only_when_done_is_out_of_time_when_its_time_is_up() {
    judge(&of_hostile("-").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_that_cannot_stream() {
    judge(&of_hostile("silent").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_are_agents_on_other_sdks() {
    let agents = RemoteAgent::official().await;
    let sections: String = agents.iter().map(|(name, agent)| section(name, agent.url(), PRICED)).collect();
    let gateway = Gateway::start(&format!("{POLICY}{sections}"));
    let called = join_all(agents.iter().map(|(name, _)| call(&gateway, name, "tck-cancel"))).await;
    judge(&called.concat());
}

/// What a caller may be told of a cancel, and how the task stands then, by how the agent takes being canceled. By gRPC a refusal
/// may come as either of the two errors that refuse.
const CANCELS: [(&str, [&str; 2], &str); 4] = [
    ("refuse", ["-32002", "-32004"], "TASK_STATE_WORKING"),
    ("obey", ["TASK_STATE_CANCELED"; 2], "TASK_STATE_CANCELED"),
    ("forget", ["TASK_STATE_CANCELED"; 2], "TASK_STATE_CANCELED"),
    ("hang", ["TASK_STATE_CANCELED"; 2], "TASK_STATE_CANCELED"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_is_passed_on_and_its_refusal_too_and_silence_is_no_obstacle() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "silent", PRICED));
    let cases = SPOKEN.into_iter().flat_map(|spoken| CANCELS.map(|case| (spoken.name("far"), case)));
    let canceled = cases.map(|(name, case)| cancel(Caller::new(&gateway, name), case));
    judge(&join_all(canceled).await.concat());
}

/// Begins a task and cancels it. Gives what is wrong with what comes of it.
async fn cancel(caller: Caller, (manner, told, state): (&str, [&str; 2], &str)) -> Vec<String> {
    let started = caller.start(&format!("work {manner}")).await;
    let works = async {
        while caller.get(started.id()).await.state() != "TASK_STATE_WORKING" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(crate::PATIENCE, works).await.is_err() {
        return vec![format!("{}, {manner}: it does not begin: {started:?}", caller.agent)];
    }
    let canceled = caller.ask("CancelTask", &serde_json::json!({"id": started.id()})).await;
    let after = caller.get(started.id()).await;
    if told.iter().any(|told| canceled.says(told)) && after.state() == state {
        return Vec::new();
    }
    vec![format!("{}, {manner}: {canceled:?}, then {}", caller.agent, after.state())]
}
