//! What agents report that they consumed: whole numbers in any spelling count, and an absurd one is nobody's loss but the agent's.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, Spoken, section};
use crate::caller::{Caller, message};
use crate::gateway::Gateway;
use crate::judge;
use crate::records::{Recorded, exported, settled};

/// Three cents, as agents write it.
const SPELLINGS: [&str; 4] = ["30000", "30000.0", "3e4", "\"30000\""];
/// Where in an answer it may stand.
const PLACES: [&str; 4] = ["task", "event", "early", "message"];
const PRICED: &str = "price = { per_call = 0.001 }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_absurd_report_exhausts_nobody_elses_budget() {
    let hostile = Hostile::start().await;
    let liar = format!("{PRICED}\ntrust = \"untrusted\"");
    let gateway = Gateway::start_with_key(
        &format!(
            "[budget.global]\nmax_usd_per_day = 10.0\nmax_tokens_per_day = 1000000\n{}{}",
            hostile.sections("liar", "-", &liar),
            hostile.sections("good", "-", PRICED)
        ),
        "alice",
    );
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let alice = Caller::new(&gateway, spoken.name("liar")).with_key(gateway.key.as_deref().unwrap());
        let bob = Caller::new(&gateway, spoken.name("good")).with_key(&bobs);
        while bob.get("none").await.status == 401 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        for place in PLACES {
            let absurd = r#"{"costMicroUsd": 1000000000000000, "inputTokens": 1000000000000000}"#;
            let lied = alice.send(&format!("usage {place} {absurd}")).await;
            let told = bob.send("echo").await;
            if told.state() != "TASK_STATE_COMPLETED" {
                wrong.push(format!(
                    "{}, {place}: another caller of another agent is told {told:?}",
                    alice.agent
                ));
            }
            if lied.is_refused() {
                wrong.push(format!("{}, {place}: it is not called again: {lied:?}", alice.agent));
            }
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_number_counts_however_it_is_spelt() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!(
        "[budget.global]\nmax_usd_per_day = 1000.0\n{}",
        hostile.sections("far", "-", PRICED)
    ));
    let mut wrong = Vec::new();
    // By gRPC a number has no spelling, so what comes of `3e4` there is a double as well.
    for spoken in SPOKEN {
        for (place, spelling) in PLACES.iter().flat_map(|place| SPELLINGS.map(|spelling| (*place, spelling)))
        {
            let name = spoken.name("far");
            let before = hops(&gateway, &name);
            let text =
                format!("usage {place} {{\"costMicroUsd\": {spelling}, \"outputTokens\": {spelling}}}");
            let caller = Caller::new(&gateway, &*name);
            // Only a stream has events; the others are answered as a whole.
            if place == "event" || place == "early" {
                let _ = caller.stream(&text).end().await;
            } else {
                caller.send(&text).await;
            }
            wrong.extend(
                misread(&gateway, &name, &before).await.map(|what| format!("{name}, {text}: {what}")),
            );
        }
    }
    judge(&wrong);
}

/// What is wrong with the one call to an agent since these, which has reported three cents and 30,000 tokens.
async fn misread(gateway: &Gateway, name: &str, before: &BTreeSet<String>) -> Option<String> {
    let rows = settled(gateway, name, before.len() + 1).await;
    let since: Vec<_> = rows.iter().filter(|row| !before.contains(row.at("hop"))).collect();
    let is_good = |row: &Recorded| row.charged() == 30_000 && row.at("tokens") == "30000";
    let told = |row: &&Recorded| format!("{} USD, {} tokens", row.at("charged_usd"), row.at("tokens"));
    let told: Vec<_> = since.iter().map(told).collect();
    (since.len() != 1 || !is_good(since[0])).then(|| format!("{told:?}"))
}

fn hops(gateway: &Gateway, name: &str) -> BTreeSet<String> {
    exported(gateway, name).iter().map(|row| row.at("hop").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_python_sdk_reports_counts() {
    let mut wrong = Vec::new();
    for (name, agent) in RemoteAgent::official().await {
        if !name.starts_with("python") {
            continue;
        }
        let gateway = Gateway::start(&format!(
            "[budget.global]\nmax_usd_per_day = 10.0\n{}",
            section(&name, agent.url(), PRICED)
        ));
        Caller::new(&gateway, &*name)
            .send(r#"tck-usage {"costMicroUsd": 30000, "outputTokens": 30000}"#)
            .await;
        wrong.extend(misread(&gateway, &name, &BTreeSet::new()).await.map(|what| format!("{name}: {what}")));
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_cannot_be_read_spoils_only_itself() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!(
        "[budget.global]\nmax_usd_per_day = 1000.0\n{}",
        hostile.sections("far", "-", PRICED)
    ));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let name = spoken.name("far");
        let text = r#"usage task {"costMicroUsd": 30000, "outputTokens": 30000, "inputTokens": "many"}"#;
        Caller::new(&gateway, &*name).send(text).await;
        wrong.extend(misread(&gateway, &name, &BTreeSet::new()).await.map(|what| format!("{name}: {what}")));
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_above_the_hold_takes_what_room_there_is_and_no_more() {
    const CAP: u64 = 50_000;
    let hostile = Hostile::start().await;
    let spoken: Spoken = SPOKEN[0];
    let gateway = Gateway::start(&format!(
        "[budget.global]\nmax_usd_per_day = 0.05\n{}",
        section("far", &hostile.url(spoken, "-"), PRICED)
    ));
    let caller = Caller::new(&gateway, "far");
    for _ in 0..10 {
        caller.send(r#"usage task {"costMicroUsd": 20000}"#).await;
    }
    let budgets: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "budgets"])).unwrap();
    let account =
        budgets["accounts"].as_array().unwrap().iter().find(|one| one["account"] == "all calls").cloned();
    let limit = account.unwrap_or_else(|| panic!("{budgets}"))["limits"][0].clone();
    let spent = limit["charged"].as_u64().unwrap_or_default() + limit["held"].as_u64().unwrap_or_default();
    assert!((40_000..=CAP).contains(&spent), "{spent} of {CAP}: {limit}");
    assert_eq!(
        hostile.of(spoken).count("}"),
        3,
        "the third takes what is left, and no fourth is let through"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overrun_is_counted_once_however_often_its_task_is_talked_about() {
    let hostile = Hostile::start().await;
    let spoken: Spoken = SPOKEN[0];
    let sections: String = [("trusted", ""), ("untrusted", "trust = \"untrusted\"")]
        .map(|(name, more)| section(name, &hostile.url(spoken, "-"), &format!("{PRICED}\n{more}")))
        .concat();
    let gateway = Gateway::start(&format!("[budget.root]\nmax_usd = 0.05\n{sections}"));
    let mut wrong = Vec::new();
    for (name, charged) in [("trusted", [50_000, 1000, 1000]), ("untrusted", [1000; 3])] {
        let caller = Caller::new(&gateway, name);
        let text = r#"usage ask {"costMicroUsd": 100000}"#;
        let task = caller.send(text).await.id().to_owned();
        for _ in 0..2 {
            let mut params = message(text);
            params["message"]["taskId"] = task.as_str().into();
            let told = caller.ask("SendMessage", &params).await;
            if told.state() != "TASK_STATE_INPUT_REQUIRED" {
                wrong.push(format!("{name}: {told:?}"));
            }
        }
        let rows = settled(&gateway, name, 3).await;
        let mut told: Vec<_> =
            rows.iter().map(|row| (row.charged(), row.at("overrun_usd").to_owned())).collect();
        told.sort_by(|one, other| other.cmp(one));
        let overruns = told.iter().filter(|(_, overrun)| overrun.parse().is_ok_and(|usd: f64| usd > 0.0));
        if !told.iter().map(|(charged, _)| *charged).eq(charged) || overruns.count() != 1 {
            wrong.push(format!("{name}: {told:?}"));
        }
    }
    judge(&wrong);
}
