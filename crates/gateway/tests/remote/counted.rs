//! An agent that does the work and then answers an error, breaks off or sends nonsense has worked: it is counted, and charged.

use serde_json::json;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::judge;
use crate::records::{Recorded, settled};

/// What an agent may do instead of answering.
const ANSWERS: [&str; 4] = ["error", "busy", "cut", "nonsense"];
const CALLS: usize = 12;
const CAP: usize = 5;
/// Of a call, in millionths of a US dollar.
const PRICE: u64 = 10_000;

const PRICED: &str = "price = { per_call = 0.01 }";

/// Calls an agent again and again. Gives what is wrong with how often it worked and what was charged.
async fn call(gateway: &Gateway, name: &str, text: &str, worked: impl Fn() -> usize) -> Vec<String> {
    let caller = Caller::new(gateway, name);
    let mut refused = 0;
    for _ in 0..CALLS {
        refused += usize::from(caller.send(text).await.is_refused());
    }
    let worked = worked();
    let rows = settled(gateway, name, worked).await;
    let charged: u64 = rows.iter().map(Recorded::charged).sum();
    let mut wrong = Vec::new();
    let mut complain = |what: String| wrong.push(format!("{name}, {text}: {what}"));
    if worked == 0 || worked > CAP {
        complain(format!("it worked {worked} times under a cap of {CAP}"));
    }
    if refused != CALLS - CAP {
        complain(format!("{refused} of {CALLS} calls were refused for the budget"));
    }
    if charged < PRICE * worked as u64 {
        complain(format!("{charged} millionths were charged for {worked} times, in {} rows", rows.len()));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_answered_badly_counts_and_costs_the_declared_price() {
    let hostile = Hostile::start().await;
    let sections: String = ANSWERS.iter().map(|answer| hostile.sections(answer, "-", PRICED)).collect();
    let gateway = Gateway::start(&format!("[budget.agent]\nmax_tasks_per_minute = {CAP}\n{sections}"));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for answer in ANSWERS {
            let name = spoken.name(answer);
            let text = format!("{answer} {name}");
            wrong.extend(call(&gateway, &name, &text, || hostile.of(spoken).count(&text)).await);
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_answered_badly_count_as_well() {
    let hostile = Hostile::start().await;
    let sections: String = ANSWERS.iter().map(|answer| hostile.sections(answer, "-", PRICED)).collect();
    let gateway = Gateway::start(&format!("[budget.agent]\nmax_tasks_per_minute = {CAP}\n{sections}"));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for answer in ANSWERS {
            let name = spoken.name(answer);
            let text = format!("{answer} {name}");
            for _ in 0..CALLS {
                // How it ends is the agent's affair; that it ends is not.
                let _ = Caller::new(&gateway, &*name).stream(&text).end().await;
            }
            let worked = hostile.of(spoken).count(&text);
            if worked == 0 || worked > CAP {
                wrong.push(format!("{name}: it worked {worked} times under a cap of {CAP}"));
            }
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_agents_on_other_sdks_that_is_answered_with_an_error_counts() {
    let agents = RemoteAgent::official().await;
    let sections: String = agents.iter().map(|(name, agent)| section(name, agent.url(), PRICED)).collect();
    let gateway = Gateway::start(&format!("[budget.agent]\nmax_tasks_per_minute = {CAP}\n{sections}"));
    let mut wrong = Vec::new();
    for (name, agent) in &agents {
        wrong.extend(call(&gateway, name, "tck-error", || agent.count("tck-error")).await);
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_with_five_cents_makes_no_three_hundred_calls_at_a_cent() {
    let hostile = Hostile::start().await;
    let sections: String = ANSWERS.iter().map(|answer| hostile.sections(answer, "-", PRICED)).collect();
    let first = section("first", &hostile.url(SPOKEN[0], "-"), "price = { per_call = 0 }");
    let gateway = Gateway::start(&format!(
        "[budget.root]\nmax_usd = 0.05\n[policy.default]\nmax_concurrency = 1000\n{first}{sections}"
    ));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for answer in ANSWERS {
            let name = spoken.name(answer);
            let text = format!("{answer} below {name}");
            let wanted = json!({"url": format!("{}/", gateway.agent(&name)), "times": 300, "text": text});
            let told = Caller::new(&gateway, "first").send(&format!("call {wanted}")).await;
            let worked = hostile.of(spoken).count(&text);
            if worked == 0 || worked > CAP {
                wrong.push(format!("{name}: five cents paid for {worked} calls at a cent: {}", told.body));
            }
        }
    }
    judge(&wrong);
}
