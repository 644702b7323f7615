//! An agent that has others do its work: what it leads to is one tree, on one budget, without loops.

use chancery_sdk::{Client, Task};
use serde_json::Value;

use crate::gateway::Gateway;

const CONFIG: &str = r#"
[budget.root]
max_usd = 0.05

[recursion]
max_call_depth = 4
deny_revisit = true

[[agent]]
name = "echo"
kind = "builtin"
price = { per_call = 0.02 }

[[agent]]
name = "ask"
kind = "builtin"
exposed = false
price = { per_call = 0.0 }

[[agent]]
name = "planner"
kind = "builtin"
price = { per_call = 0.0 }
"#;

async fn carry_out(gateway: &Gateway, plan: &str) -> Task {
    let client = Client::connect(gateway.agent("planner")).await.expect("it is there");
    let answer = client.send(plan).await.expect("it is taken");
    answer.task().expect("a task").clone()
}

fn steps(task: &Task) -> Vec<String> {
    let text = |artifact: &chancery_sdk::Artifact| {
        artifact.parts.iter().filter_map(|part| part.as_text()).collect::<String>()
    };
    task.artifacts.iter().map(text).collect()
}

#[tokio::test]
async fn what_a_planner_leads_to_is_one_tree_and_a_loop_is_refused() {
    let gateway = Gateway::start(CONFIG);
    let task = carry_out(&gateway, "echo hello; ask hello; planner echo again; nobody hello").await;
    let steps = steps(&task);
    assert_eq!(steps[..2], ["echo: hello", "ask: waits: Who are you?"]);
    assert!(steps[2].contains("gate `lineage`: REVISIT_DENIED"), "{steps:?}");
    assert_eq!(steps[3], "nobody: there is no agent `nobody`");

    let roots = gateway.run(&["spend", "roots", "-o", "json"]);
    let roots: Value = serde_json::from_str(&roots).unwrap_or_else(|error| panic!("{error}: {roots}"));
    let root = roots["root"].as_str().unwrap_or_else(|| panic!("{roots}"));
    let tree = gateway.run(&["admin", "-o", "json", "tree", root]);
    let tree: Value = serde_json::from_str(&tree).expect("it is JSON");
    let top = &tree["calls"][0];
    assert_eq!((&top["agent"], &top["depth"]), (&"planner".into(), &0.into()), "{tree}");
    let below: Vec<_> = top["calls"].as_array().expect("calls").iter().map(|call| &call["agent"]).collect();
    assert_eq!(below, ["echo", "ask"], "{tree}");
    assert_eq!(tree["chargedMicroUsd"], 20_000, "{tree}");
}

#[tokio::test]
async fn the_steps_of_a_plan_share_the_budget_of_the_call_that_it_came_with() {
    let gateway = Gateway::start(CONFIG);
    let steps = steps(&carry_out(&gateway, "echo one; echo two; echo three").await);
    assert_eq!(steps[..2], ["echo: one", "echo: two"]);
    assert!(steps[2].contains("gate `budget`: BUDGET_EXCEEDED"), "{steps:?}");
    assert_eq!(self::steps(&carry_out(&gateway, "echo four").await), ["echo: four"], "another has its own");
}
