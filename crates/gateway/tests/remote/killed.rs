//! The gateway is killed while callers wait: what they hold is not forgotten.

use crate::agents::{Hostile, RemoteAgent, SPOKEN, section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::records::{Recorded, exported};
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
