//! The configuration flips under traffic between two that have next to nothing in common. Each of them lets every call through
//! that is made here; what is half of the one and half of the other refuses it, or answers what neither would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use chancery_sdk::testing::{Spawned, spawn};
use chancery_sdk::{AgentSkill, AgentSpec, Message, agent_fn};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{Answer, get, post};

/// How often it flips.
const FLIPS: usize = 60;
/// The skill that one agent has in the one, and another in the other.
const WORK: &str = "work";

/// One of the two: what it is called, which stands in every answer by it.
#[derive(Clone, Copy)]
struct Side {
    name: &'static str,
    /// What a call costs; half as much again is what one may cost.
    price: &'static str,
    cap: &'static str,
    micro_usd: u64,
}

const SIDES: [Side; 2] = [
    Side { name: "low", price: "0.02", cap: "0.03", micro_usd: 20_000 },
    Side { name: "high", price: "2.00", cap: "3.00", micro_usd: 2_000_000 },
];

/// An agent elsewhere that says on which side it is, and has a skill.
async fn saying(text: &'static str, skill: &str) -> Spawned {
    let agent = agent_fn(move |_: Message| async move { text.to_owned() });
    spawn(AgentSpec::new("far", agent).skill(AgentSkill::new(skill, "Skill", "What it can do"))).await
}

/// The echo is the same agent on both sides, and costs what is taken for unknown. Who does the work is called like the side.
fn config(side: Side, far: &str, worker: &str) -> String {
    let Side { name, price, cap, .. } = side;
    let agent = |agent: &str, url: &str| {
        format!(
            "[[agent]]\nname = \"{agent}\"\nkind = \"a2a\"\nurl = \"{url}\"\nprice = {{ per_call = {price} }}\n"
        )
    };
    let policy = format!("[policy.far]\nagents = [\"far\"]\nallowed_skills = [\"{name}\"]\n");
    let budget = format!("[budget]\nunknown_cost = \"hold:{price}\"\n[budget.task]\nmax_usd = {cap}\n");
    let echo = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";
    format!("[fleet]\nname = \"{name}\"\n{budget}{policy}{echo}{}{}", agent("far", far), agent(name, worker))
}

/// Has a text answered, and what that has cost, of something that says on which side it is.
async fn invoke(url: &str, skill: Option<&str>) -> (String, u64) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let params = json!({"text": "hello", "skill": skill});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": params});
    let answer = post(&format!("{url}/invoke"), &[("x-request-id", &id)], &body).await;
    let result = &answer.json()["result"];
    let text = result["text"].as_str().unwrap_or_else(|| panic!("{url}: {answer:?}")).to_owned();
    (text, result["usage"]["costMicroUsd"].as_u64().unwrap_or_else(|| panic!("{url}: {answer:?}")))
}

/// The side that a call was charged by.
fn charged(micro_usd: u64) -> &'static str {
    let side = SIDES.iter().find(|side| side.micro_usd == micro_usd);
    side.unwrap_or_else(|| panic!("{micro_usd} is the price of neither")).name
}

/// An agent that neither side has made anew.
async fn untouched(gateway: &Gateway) -> &'static str {
    let (text, cost) = invoke(&gateway.agent("echo"), None).await;
    assert_eq!(text, "hello");
    charged(cost)
}

/// An agent that is another one on the other side, with another skill, which is the only one that is allowed there.
async fn changed(gateway: &Gateway) -> &'static str {
    let (text, cost) = invoke(&gateway.agent("far"), None).await;
    assert_eq!(text, charged(cost), "it is answered by the one and charged by the other");
    charged(cost)
}

/// Whoever has a skill, which is another member on the other side.
async fn chosen(gateway: &Gateway) -> &'static str {
    let (text, cost) = invoke(gateway.url(), Some(WORK)).await;
    assert_eq!(text, charged(cost), "it is answered by the one and charged by the other");
    charged(cost)
}

fn names(listed: &Value) -> Vec<&str> {
    listed.as_array().expect("a list").iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

/// The card of the fleet and the catalogue, each of which shows who is in it.
async fn shown(gateway: &Gateway) -> &'static str {
    let ok = |answer: Answer| if answer.status == 200 { answer.json() } else { panic!("{answer:?}") };
    let url = format!("{}/.well-known/agent-card.json", gateway.url());
    let card = ok(get(&url, &[("a2a-version", "1.0")]).await);
    let side = SIDES.iter().find(|side| card["name"] == side.name).expect("it is called like a side");
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let fleet = extensions.iter().find(|one| one["uri"] == "urn:chancery:ext:fleet:v1").expect("the fleet's");
    let mut members = vec!["echo", "far", side.name];
    members.sort_unstable();
    assert_eq!(names(&fleet["params"]["members"]), members, "{card}");
    let catalogue = ok(get(&format!("{}/agents/", gateway.url()), &[]).await);
    let far = catalogue["agents"].as_array().expect("agents").iter().find(|one| one["name"] == "far");
    let skill = far.expect("it is there")["skills"][0]["id"].as_str().expect("a skill").to_owned();
    assert!(
        names(&catalogue["agents"]).contains(&skill.as_str()),
        "of the one and of the other: {catalogue}"
    );
    side.name
}

/// What somebody does again and again. Gives the side on which each time was.
#[derive(Clone, Copy)]
enum What {
    Untouched,
    Changed,
    Chosen,
    Shown,
}

async fn again_and_again(gateway: Arc<Gateway>, what: What, over: Arc<AtomicBool>) -> Vec<&'static str> {
    let mut seen = Vec::new();
    while !over.load(Ordering::Relaxed) {
        seen.push(match what {
            What::Untouched => untouched(&gateway).await,
            What::Changed => changed(&gateway).await,
            What::Chosen => chosen(&gateway).await,
            What::Shown => shown(&gateway).await,
        });
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_sees_all_of_one_configuration_while_they_flip() {
    let (low, high) = (saying("low", "low").await, saying("high", "high").await);
    let (low_work, high_work) = (saying("low", WORK).await, saying("high", WORK).await);
    let configs =
        [config(SIDES[0], low.url(), low_work.url()), config(SIDES[1], high.url(), high_work.url())];
    let gateway = Arc::new(Gateway::start(&configs[0]));
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = tokio::task::JoinSet::new();
    for what in [What::Untouched, What::Changed, What::Chosen, What::Shown] {
        callers.spawn(again_and_again(gateway.clone(), what, over.clone()));
    }
    for flip in 1..=FLIPS {
        gateway.configure(&configs[flip % 2]);
        let gateway = gateway.clone();
        let reloading = tokio::task::spawn_blocking(move || gateway.run(&["admin", "reload"]));
        reloading.await.expect("it is put in force");
    }
    over.store(true, Ordering::Relaxed);
    while let Some(seen) = callers.join_next().await {
        let seen = seen.expect("no call is refused or mixed");
        assert!(SIDES.iter().all(|side| seen.contains(&side.name)), "it has seen both: {seen:?}");
    }
}
