//! The gateway is killed while callers wait: what they hold is not forgotten.

use futures_util::future::join_all;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, Spoken, section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::records::{Recorded, exported, settled};
use crate::{judge, until};

const CAP: usize = 5;
/// How many wait when it is killed, and how many call in vain or not afterwards.
const WAITING: usize = 3;
const LATER: usize = 5;

/// Calls that wait at agents while the gateway is killed, and calls after that. Gives what is wrong with how often they worked.
async fn kill_twice(
    gateway: &mut Gateway,
    agents: &[(String, String, String)],
    worked: impl Fn(&str) -> usize,
) -> Vec<String> {
    let mut waiting = Vec::new();
    for (name, held, _) in agents {
        let caller = Caller::new(gateway, &**name);
        waiting.extend((0..WAITING).map(|_| caller.send_beside(held)));
    }
    until("all of them work", || agents.iter().all(|(name, ..)| worked(name) == WAITING)).await;
    for _ in 0..2 {
        gateway.kill_and_restart();
        for (name, _, prompt) in agents {
            let caller = Caller::new(gateway, &**name);
            for _ in 0..LATER {
                caller.send(prompt).await;
            }
        }
    }
    for call in waiting {
        let _ = call.await.expect("it is over");
    }
    let mut wrong = Vec::new();
    for (name, ..) in agents {
        let worked = worked(name);
        if worked > CAP {
            wrong.push(format!("{name}: it worked {worked} times under a cap of {CAP}"));
        }
        let counted: u64 = exported(gateway, name).iter().map(Recorded::charged_or_held).sum();
        if counted < worked as u64 * 10_000 {
            wrong.push(format!("{name}: {counted} millionths are charged or held for {worked} times"));
        }
    }
    wrong
}

async fn hostile(budget: &str) -> Vec<String> {
    let hostile = Hostile::start().await;
    let sections = hostile.sections("far", "-", "price = { per_call = 0.01 }");
    let mut gateway = Gateway::start(&format!("[budget.agent]\n{budget}\n{sections}"));
    let agents: Vec<_> = SPOKEN
        .iter()
        .map(|spoken| spoken.name("far"))
        .map(|name| (name.clone(), format!("late never working {name}"), format!("echo {name}")))
        .collect();
    let worked = |name: &str| {
        let spoken = SPOKEN.into_iter().find(|spoken| spoken.name("far") == name).unwrap();
        hostile.of(spoken).count(name)
    };
    kill_twice(&mut gateway, &agents, worked).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_forgets_no_call_that_was_counted() {
    judge(&hostile(&format!("max_tasks_per_minute = {CAP}")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_forgets_no_money_that_was_held() {
    judge(&hostile("max_usd_per_day = 0.05").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_forgets_no_call_to_agents_on_other_sdks() {
    let official = RemoteAgent::official().await;
    let priced = "price = { per_call = 0.01 }";
    let sections: String = official.iter().map(|(name, agent)| section(name, agent.url(), priced)).collect();
    let mut gateway = Gateway::start(&format!("[budget.agent]\nmax_tasks_per_minute = {CAP}\n{sections}"));
    let texts = |name: &String| (name.clone(), "tck-cancel".to_owned(), "tck-echo".to_owned());
    let agents: Vec<_> = official.iter().map(|(name, _)| texts(name)).collect();
    let worked = |name: &str| official.iter().find(|(known, _)| known == name).unwrap().1.count("");
    judge(&kill_twice(&mut gateway, &agents, worked).await);
}

/// What the agents are told that is under way when the gateway is killed, and where the caller finds what became of it.
struct UnderWay {
    caller: Caller,
    text: String,
}

/// Has agents that honour keys, and so can be asked again, work until the gateway is killed. Gives what is wrong afterwards.
async fn goes_on(how: &str) -> Vec<String> {
    let hostile = Hostile::start().await;
    let mut gateway = Gateway::start(&hostile.sections("far", "keyed", "price = { per_call = 0.01 }"));
    // By gRPC the agent does not know what its card says.
    let spoken: Vec<Spoken> = SPOKEN.into_iter().filter(|spoken| spoken.binding != "grpc").collect();
    let under_way = |gateway: &Gateway, spoken: &Spoken| {
        let name = spoken.name("far");
        let text = format!("{how} gate completed {name}");
        UnderWay { caller: Caller::new(gateway, name), text }
    };
    let all: Vec<_> = spoken.iter().map(|spoken| under_way(&gateway, spoken)).collect();
    let is_shown = how == "hold";
    let streams: Vec<_> = all.iter().filter(|_| is_shown).map(|one| one.caller.stream(&one.text)).collect();
    let sends: Vec<_> =
        all.iter().filter(|_| !is_shown).map(|one| one.caller.send_beside(&one.text)).collect();
    let works = |one: &UnderWay| spoken.iter().any(|spoken| hostile.of(*spoken).count(&one.text) == 1);
    until("all of them work", || all.iter().all(works)).await;
    until("the streams have begun", || streams.iter().all(|stream| stream.seen() > 0)).await;
    gateway.kill_and_restart();
    for call in sends {
        let _ = call.await.expect("it is over");
    }
    hostile.open("gate").await;
    let all = spoken.iter().map(|spoken| async {
        let UnderWay { caller, text } = under_way(&gateway, spoken);
        let found = tokio::time::timeout(crate::PATIENCE, found(&caller)).await;
        let worked = hostile.of(*spoken).count(&text);
        let rows = settled(&gateway, &caller.agent, 1).await;
        let charged: u64 = rows.iter().map(Recorded::charged).sum();
        let is_good = worked == 1 && found.is_ok() && charged == 10_000;
        let wrong = format!(
            "{}: it worked {worked} times, {charged} millionths were charged, completed: {}",
            caller.agent,
            found.is_ok()
        );
        if is_good { Vec::new() } else { vec![wrong] }
    });
    join_all(all).await.concat()
}

/// Waits until there is a task that is completed, and no other.
async fn found(caller: &Caller) {
    loop {
        let listed = caller.ask("ListTasks", &serde_json::json!({})).await.body;
        let tasks = listed["result"]["tasks"].as_array().cloned().unwrap_or_default();
        if tasks.len() == 1 && tasks[0]["status"]["state"] == "TASK_STATE_COMPLETED" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_honours_keys_is_asked_again_for_what_it_had_not_answered() {
    judge(&goes_on("late").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_an_agent_has_shown_is_followed_after_a_kill() {
    judge(&goes_on("hold").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_has_reported_before_a_kill_is_charged_although_it_does_not_say_it_again() {
    let hostile = Hostile::start().await;
    let sections = hostile.sections("far", "-", "price = { per_call = 0.01 }\nexchange = \"stream\"");
    let budget = "[budget.caller]\nmax_usd_per_day = 10.0\n";
    let mut gateway = Gateway::start(&format!("{budget}{sections}"));
    let streams: Vec<_> = SPOKEN
        .iter()
        .map(|spoken| {
            let caller = Caller::new(&gateway, spoken.name("far"));
            (caller.clone(), caller.stream(r#"spent now {"costMicroUsd": 50000}"#))
        })
        .collect();
    let has_reported = |gateway: &Gateway| {
        let rows = exported(gateway, "far");
        rows.len() == SPOKEN.len() && rows.iter().all(|row| row.charged_or_held() == 50_000)
    };
    until("all reports are held", || has_reported(&gateway)).await;
    gateway.kill_and_restart();
    drop(streams);
    hostile.open("now").await;
    let rows = settled(&gateway, "far", SPOKEN.len()).await;
    let wrong: Vec<_> = rows
        .iter()
        .filter(|row| row.at("settled").is_empty() || row.charged() != 50_000)
        .map(|row| format!("{}: {} is charged, {}", row.at("agent"), row.charged(), row.at("state")))
        .collect();
    judge(&wrong);
}
