//! Negotiating, and what can be done with what was agreed.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::{ECHO, STREAM, invoke, refused, with};

const PRICED: &str = "price = { per_call = 0.02 }\nlimits = { max_input_tokens = 100 }\n";

async fn negotiated(url: &str, wanted: &Value) -> Value {
    let answer = invoke(&format!("{url}/negotiate"), &[], wanted).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn reasons(answer: &Value) -> Vec<&str> {
    let all = answer["reasons"].as_array().expect("reasons");
    all.iter().map(|reason| reason["reason"].as_str().expect("a reason")).collect()
}

#[tokio::test]
async fn what_can_be_had_as_wanted_is_agreed_and_holds_nothing() {
    let gateway = Gateway::start(&format!("[budget.caller]\nmax_tasks_per_minute = 1\n{ECHO}{PRICED}"));
    let url = gateway.agent("echo");
    for _ in 0..3 {
        let wanted = json!({"skills": ["echo"], "inputModes": ["text/plain"], "streaming": true, "budgetUsd": 0.05, "inputTokens": 100});
        let answer = negotiated(&url, &wanted).await;
        assert_eq!((&answer["outcome"], &answer["agent"]), (&"agreed".into(), &"echo".into()), "{answer}");
        let terms = &answer["terms"];
        assert_eq!((&terms["budgetUsd"], &terms["minimumCostUsd"]), (&"0.05".into(), &"0.02".into()));
        assert_eq!((&terms["expectedCostUsd"], &terms["maxInputTokens"]), (&"0.02".into(), &100.into()));
    }
    let answer = negotiated(&url, &json!({})).await;
    let quoting = with(&json!({"text": "hello", "agreementId": answer["agreementId"]}));
    let called = invoke(&format!("{url}/invoke"), &[], &quoting).await;
    assert_eq!(called.json()["result"]["text"], "hello", "{called:?}");
    let answer = negotiated(&url, &json!({})).await;
    assert_eq!(
        (&answer["outcome"], reasons(&answer)),
        (&"refused".into(), vec!["BUDGET_EXCEEDED"]),
        "{answer}"
    );
    assert!(answer["agreementId"].is_null());
}

#[tokio::test]
async fn what_can_be_had_in_part_is_degraded_with_reasons() {
    let config = format!(
        "[policy.default]\nmax_duration_ms = 5000\n[budget.caller]\nmax_usd_per_day = 0.05\n{ECHO}{PRICED}"
    );
    let gateway = Gateway::start(&config);
    let wanted = json!({
        "skills": ["echo", "sing"],
        "extensions": ["urn:other"],
        "budgetUsd": 1,
        "timeoutMs": 60000,
    });
    let answer = negotiated(&gateway.agent("echo"), &wanted).await;
    assert_eq!(answer["outcome"], "degraded", "{answer}");
    let mut told = reasons(&answer);
    told.sort_unstable();
    assert_eq!(told, ["BUDGET_REDUCED", "EXTENSION_NOT_OFFERED", "SKILL_NOT_OFFERED", "TIMEOUT_REDUCED"]);
    let terms = &answer["terms"];
    assert_eq!((&terms["skills"], &terms["budgetUsd"]), (&json!(["echo"]), &"0.05".into()));
    assert_eq!(terms["timeoutMs"], 5000);
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_with_reasons() {
    let far = "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n";
    let gateway = Gateway::start(&format!("{ECHO}{PRICED}{STREAM}{far}"));
    let echo = gateway.agent("echo");
    for (wanted, why) in [
        (json!({"skills": ["sing"]}), "SKILL_NOT_OFFERED"),
        (json!({"outputModes": ["video/mp4"]}), "OUTPUT_MODE_NOT_OFFERED"),
        (json!({"inputTokens": 101}), "INPUT_TOKENS_EXCEEDED"),
        (json!({"budgetUsd": 0.01}), "BUDGET_EXCEEDED"),
    ] {
        let answer = negotiated(&echo, &wanted).await;
        assert_eq!((&answer["outcome"], reasons(&answer)[0]), (&"refused".into(), why), "{answer}");
    }
    while negotiated(&gateway.agent("far"), &json!({})).await["outcome"] != "refused" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let answer = negotiated(gateway.url(), &json!({})).await;
    assert_eq!(
        (&answer["outcome"], reasons(&answer)),
        (&"refused".into(), vec!["SKILL_REQUIRED"]),
        "{answer}"
    );
    gateway.run(&["admin", "contain", "echo", "--reason", "it lies"]);
    let answer = negotiated(&echo, &json!({})).await;
    assert_eq!(answer["outcome"], "refused", "{answer}");
    assert!(answer.to_string().contains("it lies"), "{answer}");
}

#[tokio::test]
async fn an_agreement_at_the_fleet_leads_to_the_agent_that_it_is_with() {
    let gateway = Gateway::start(&format!("{ECHO}{STREAM}"));
    let answer = negotiated(gateway.url(), &json!({"skills": ["echo"]})).await;
    assert_eq!((&answer["outcome"], &answer["agent"]), (&"agreed".into(), &"echo".into()), "{answer}");
    let quoting = with(&json!({"text": "hello", "agreementId": answer["agreementId"]}));
    let called = invoke(&format!("{}/invoke", gateway.url()), &[], &quoting).await;
    assert_eq!(called.json()["result"]["text"], "hello", "{called:?}");
    let elsewhere = invoke(&format!("{}/invoke", gateway.agent("stream")), &[], &quoting).await;
    refused(&elsewhere, 400, -32602, "VALIDATION_ERROR", "AGREEMENT_MISMATCH");
    let other = with(&json!({"text": "x", "skill": "stream", "agreementId": answer["agreementId"]}));
    let other = invoke(&format!("{}/invoke", gateway.url()), &[], &other).await;
    refused(&other, 400, -32602, "VALIDATION_ERROR", "AGREEMENT_MISMATCH");
    let forged = with(&json!({"text": "x", "agreementId": "forged.forged"}));
    let forged = invoke(&format!("{}/invoke", gateway.url()), &[], &forged).await;
    refused(&forged, 400, -32602, "VALIDATION_ERROR", "AGREEMENT_UNKNOWN");
}

#[tokio::test]
async fn an_agreed_budget_is_a_ceiling_also_after_a_restart_and_for_nobody_else() {
    let mut gateway =
        Gateway::start_with_key(&format!("{ECHO}price = {{ per_1k_tokens = 0.01 }}\n"), "alice");
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let alice = format!("Bearer {}", gateway.key.as_deref().expect("a key"));
    let alice = [("authorization", alice.as_str())];
    let answer =
        invoke(&format!("{}/negotiate", gateway.agent("echo")), &alice, &json!({"budgetUsd": "0.05"})).await;
    let id = answer.json()["agreementId"].clone();
    assert!(id.is_string(), "{answer:?}");
    gateway.kill_and_restart();
    let url = format!("{}/invoke", gateway.agent("echo"));
    let quoting = with(&json!({"text": "hello", "agreementId": id}));
    let called = invoke(&url, &alice, &quoting).await;
    assert_eq!(called.status, 200, "{called:?}");
    let bob = format!("Bearer {bobs}");
    let answer = invoke(&url, &[("authorization", &bob)], &quoting).await;
    refused(&answer, 400, -32602, "VALIDATION_ERROR", "AGREEMENT_UNKNOWN");
}
