//! Many calls at once to agents that lie, break off, drop tokens and die, while the gateway is killed again and again: what the
//! export says is counted here once more, and no shared budget was ever passed.

use std::collections::BTreeMap;

use chancery_protocol::Timestamp;
use futures_util::future::join_all;
use serde_json::json;

use crate::agents::{Hostile, SPOKEN};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::records::{Recorded, exported, settled};
use crate::{judge, until};

/// In millionths of a US dollar.
const PRICE: u64 = 10_000;
const ROOT_CAP: u64 = 40_000;
const CALLER_CAP: u64 = 600_000;
const GROUP_CAP: u64 = 900_000;
const GLOBAL_CAP: u64 = 2_500_000;

const KILLS: usize = 5;
/// Calls at once in each round, to each agent, and how many of them all have come to an agent when the gateway is killed.
const CALLS: usize = 8;
const AT_WORK: usize = 16;
const WINDOW_MS: i64 = 60_000;

/// Agents call without a key, too.
const BUDGETS: &str = "[server]\nanonymous = true\n[budget.global]\nmax_usd_per_minute = 2.5\n[budget.caller]\nmax_usd_per_minute = 0.6\n\
    [budget.groups.team]\nmax_usd_per_minute = 0.9\n[budget.root]\nmax_usd = 0.04\n[policy.default]\nmax_concurrency = 10000\n";

/// What an agent is told to do.
fn text(gateway: &Gateway, name: &str, number: usize, is_last: bool) -> String {
    match number % 8 {
        0 => format!("error {name}"),
        1 => format!("cut {name}"),
        2 => format!("nonsense {name}"),
        3 => r#"usage task {"costMicroUsd": 30000}"#.to_owned(),
        // Once nobody is killed any more, it takes what is left.
        4 if is_last => r#"usage message {"costMicroUsd": 1e15}"#.to_owned(),
        4 => r#"usage message {"costMicroUsd": "15000"}"#.to_owned(),
        5 => format!("slow 500 {name}"),
        // On behalf of nobody, as it says.
        6 => {
            let url = format!("{}/", gateway.agent(name));
            let wanted =
                json!({"url": url, "times": 3, "text": format!("error {name}"), "with_token": false});
            format!("call {wanted}")
        }
        _ => format!("echo {name}"),
    }
}

fn at(row: &Recorded, column: &str) -> Option<i64> {
    Timestamp::parse(row.at(column)).ok().map(Timestamp::as_millis)
}

/// What was charged at most within 60 seconds, and what is held beside it.
fn most_in_a_window(rows: &[&Recorded]) -> u64 {
    let held: u64 =
        rows.iter().filter(|row| at(row, "settled").is_none()).map(|row| row.charged_or_held()).sum();
    let within = |start: i64| {
        let is_in = |row: &&&Recorded| {
            at(row, "settled").is_some_and(|end| (start..start + WINDOW_MS).contains(&end))
        };
        rows.iter().filter(is_in).map(|row| row.charged()).sum::<u64>()
    };
    held + rows.iter().filter_map(|row| at(row, "settled")).map(within).max().unwrap_or_default()
}

/// The accounts of one level, with what was charged and held there at most.
fn accounts<'a>(
    rows: &'a [Recorded],
    key: impl Fn(&'a Recorded) -> &'a str,
) -> BTreeMap<&'a str, Vec<&'a Recorded>> {
    let mut accounts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in rows {
        accounts.entry(key(row)).or_default().push(row);
    }
    accounts
}

/// The keys of three callers, two of which are in one group, once the gateway knows them.
async fn callers(gateway: &Gateway) -> Vec<String> {
    let mut keys = vec![gateway.key.clone().expect("it has one")];
    for caller in ["ann", "bob"] {
        let key = gateway.run(&["key", "create", "--caller", caller, "--group", "team"]).trim().to_owned();
        let known = Caller::new(gateway, SPOKEN[0].name("far")).with_key(&key);
        while known.get("none").await.status == 401 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        keys.push(key);
    }
    keys
}

/// How often the agents of both versions have worked.
fn executions(hostile: &Hostile) -> usize {
    [SPOKEN[0], SPOKEN[3]].map(|spoken| hostile.of(spoken).count("")).iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_shared_budget_is_passed_whatever_agents_do_and_however_often_the_gateway_is_killed() {
    let mut hostile = Hostile::start().await;
    let sections = hostile.sections("far", "-", "price = { per_call = 0.01 }");
    let mut gateway = Gateway::start_with_key(&format!("{BUDGETS}{sections}"), "other");
    let keys = callers(&gateway).await;
    for round in 0..=KILLS {
        let before = executions(&hostile);
        let mut calls = Vec::new();
        for spoken in SPOKEN {
            let name = spoken.name("far");
            calls.extend((0..CALLS).map(|call| {
                let caller = Caller::new(&gateway, &*name).with_key(&keys[call % keys.len()]);
                caller.send_beside(&text(&gateway, &name, round + call, round == KILLS))
            }));
        }
        let is_over = || calls.iter().all(tokio::task::JoinHandle::is_finished);
        until("the agents are at work, or refused it", || {
            executions(&hostile) >= before + AT_WORK || is_over()
        })
        .await;
        // In each round an agent dies with what it works on: that of one version, then that of the other.
        hostile.of_mut(SPOKEN[3 * (round % 2)]).kill_and_restart().await;
        if round < KILLS {
            gateway.kill_and_restart();
        }
        join_all(calls).await.into_iter().for_each(|call| drop(call.expect("it is over")));
    }
    let count = exported(&gateway, "far").len();
    let rows = settled(&gateway, "far", count).await;
    let mut wrong = Vec::new();
    let levels = [
        ("all", GLOBAL_CAP, accounts(&rows, |_| "")),
        ("a caller", CALLER_CAP, accounts(&rows, |row| row.at("payer"))),
        ("a group", GROUP_CAP, accounts(&rows, |row| row.at("groups"))),
    ];
    for (level, cap, accounts) in levels {
        // Those without a group are in none together.
        for (name, rows) in accounts.into_iter().filter(|(name, _)| level != "a group" || !name.is_empty()) {
            let most = most_in_a_window(&rows);
            if most > cap {
                wrong.push(format!("{level} {name}: {most} of {cap} within 60 s"));
            }
        }
    }
    for (root, rows) in accounts(&rows, |row| row.at("root")) {
        let charged: u64 = rows.iter().map(|row| row.charged_or_held()).sum();
        if charged > ROOT_CAP {
            wrong.push(format!("root {root}: {charged} of {ROOT_CAP}"));
        }
    }
    for spoken in SPOKEN {
        let name = spoken.name("far");
        let wire = format!("{}/{}", spoken.version, spoken.binding);
        let executed = hostile.of(spoken).executions("").iter().filter(|note| note["wire"] == *wire).count();
        let paid =
            rows.iter().filter(|row| row.at("agent") == name && row.charged_or_held() >= PRICE).count();
        if executed > paid {
            wrong.push(format!(
                "{name}: it worked {executed} times, {paid} calls were charged at least its price"
            ));
        }
    }
    let worked = executions(&hostile);
    assert!(worked >= KILLS * AT_WORK / 2, "{worked} executions are no storm");
    judge(&wrong);
}
