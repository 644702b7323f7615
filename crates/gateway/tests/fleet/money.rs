//! What agents elsewhere report of money, and agents that are found without a price.

use chancery_sdk::Client;
use chancery_sdk::protocol::{ProtocolBinding, SendMessageResponse};
use chancery_sdk::testing::{Peer, Reply};
use serde_json::{Value, json};

use crate::gateway::Gateway;

const USAGE: &str = "urn:chancery:ext:usage:v1";

/// An agent that completes each task at once and reports this.
fn reports(usage: Value) -> Peer {
    let answer = move |heard: &chancery_sdk::testing::Heard| -> Reply {
        let status = json!({"state": "TASK_STATE_COMPLETED"});
        let task = json!({"id": "t", "contextId": "c", "status": status, "metadata": {USAGE: usage}});
        let task = json!({"task": task});
        match heard.json()["method"] == "SendStreamingMessage" {
            true => heard.stream(&[(0, task)]),
            false => heard.result(&task),
        }
    };
    Peer::script().card(ProtocolBinding::JsonRpc).answer_with(answer).start().expect("a port")
}

fn far(url: &str) -> String {
    format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}\"\nprice = {{ per_call = 0.01 }}\n")
}

/// Calls an agent: what the statement says, or the reason of the refusal.
async fn call(gateway: &Gateway, agent: &str) -> Result<Value, String> {
    let client = Client::builder().retries(0).connect(gateway.agent(agent)).await.expect("it is there");
    match client.send("hello").await {
        Ok(SendMessageResponse::Message(said)) => panic!("{said:?} is no task"),
        Ok(SendMessageResponse::Task(task)) => {
            let metadata = task.metadata.expect("a statement");
            Ok(metadata.entry(USAGE).expect("it is JSON").expect("a statement"))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn what_is_reported_above_every_budget_is_an_overrun_that_is_shown_and_can_keep_the_agent_out() {
    let absurd = reports(json!({"costMicroUsd": "1e9", "inputTokens": 30000.0, "outputTokens": 1.5}));
    let budget = "[budget.caller]\nmax_usd_per_day = 0.5\n[budget.overrun]\nmax_usd_per_day = 900.0\n";
    let honest = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = { per_call = 0 }\n";
    let mut gateway = Gateway::start(&format!("{budget}{}{honest}", far(absurd.url())));
    let told = call(&gateway, "far").await.expect("it is let through");
    assert_eq!((&told["costMicroUsd"], &told["inputTokens"]), (&500_000.into(), &30_000.into()));
    assert_eq!(told["overrun"]["microUsd"], 999_500_000);

    let exported = gateway.run(&["spend", "export"]);
    assert!(exported.lines().next().is_some_and(|heads| heads.ends_with(",overrun_usd,overrun_tokens")));
    assert!(exported.lines().nth(1).is_some_and(|row| row.ends_with(",999.500000,0")), "{exported}");
    let sums = gateway.run(&["spend", "export", "--sums"]);
    assert!(sums.lines().nth(1).is_some_and(|row| row.ends_with(",999.500000,0")), "{sums}");

    for again in 0..2 {
        let refused = call(&gateway, "far").await.expect_err("its overruns have passed the limit");
        assert!(refused.contains("BUDGET_OVERRUN"), "{again}: {refused}");
        call(&gateway, "echo").await.expect("nobody else is kept out");
        // Also after a restart.
        gateway.kill_and_restart();
    }
}

#[tokio::test]
async fn an_agent_that_is_found_later_without_a_price_is_refused_and_the_rest_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = "---\ndescription: Says it again\ncommand: [/bin/cat]\n---\n";
    std::fs::write(folder.path().join("later.md"), found).expect("it is written");
    let config = format!(
        "[budget.root]\nmax_usd = 1\n[[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = {{ per_call = 0 }}\n\
         [[markdown]]\nfolder = {:?}\nmay_define = [\"command\"]\n",
        folder.path()
    );
    let gateway = Gateway::start(&config);
    assert!(call(&gateway, "later").await.expect_err("it has no price").contains("COST_UNKNOWN"));
    call(&gateway, "echo").await.expect("it has a price");
}
