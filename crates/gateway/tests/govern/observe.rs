//! A gate that only observes lets everything pass, and writes down what it would have refused: the gate, the reason, the limit.

use chancery_sdk::ErrorCode;
use serde_json::{Value, json};

use super::ECHO;
use super::gateway::Gateway;
use super::http::{Answer, post};
use super::wire::WIRES;

async fn send(gateway: &Gateway, headers: &[(&str, &str)]) -> Answer {
    let message = json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    let headers = [&[("a2a-version", "1.0")], headers].concat();
    post(&format!("{}/message:send", gateway.agent("echo")), &headers, &message).await
}

/// The line that says what would have been refused, for this reason.
fn line(gateway: &Gateway, reason: &str) -> String {
    let log = gateway.log();
    let of_reason =
        |line: &&str| line.contains("would deny") && line.contains(&format!("reason=\"{reason}\""));
    log.lines().find(of_reason).unwrap_or_else(|| panic!("{reason} is not in\n{log}")).to_owned()
}

#[tokio::test]
async fn every_gate_can_only_observe_and_writes_down_what_it_would_refuse() {
    let limits = "[agent.limits]\nmode = \"observe\"\nmax_payload_bytes = 1\n";
    let gates = [
        (
            "[identity]\nmode = \"observe\"\nallow = [\"caller:alice\"]\n",
            "",
            "identity",
            "CALLER_NOT_ALLOWED",
            "",
        ),
        (
            "[budget]\nmode = \"observe\"\ncaller.max_tasks_per_day = 0\n",
            "",
            "budget",
            "BUDGET_EXCEEDED",
            "0 tasks per day",
        ),
        ("[recursion]\nmode = \"observe\"\n", "", "identity", "LINEAGE_INVALID", ""),
        (
            "[policy.a]\nmode = \"observe\"\nallowed_skills = [\"other\"]\n",
            "",
            "policy",
            "SKILL_NOT_ALLOWED",
            "none",
        ),
        (
            "[policy.a]\nmode = \"observe\"\noperations = [\"GetTask\"]\n",
            "",
            "policy",
            "OPERATION_NOT_ALLOWED",
            "GetTask",
        ),
        ("[policy.a]\nmode = \"observe\"\nmax_concurrency = 0\n", "", "policy", "CONCURRENCY_EXCEEDED", "0"),
        ("", limits, "limits", "PAYLOAD_TOO_LARGE", "1 bytes"),
    ];
    for (section, of_agent, gate, reason, limit) in gates {
        let gateway = Gateway::start(&format!("{section}{ECHO}{of_agent}"));
        let made_up = [("chancery-lineage", "made.up.token")];
        let headers = if reason == "LINEAGE_INVALID" { &made_up[..] } else { &[] };
        let answer = send(&gateway, headers).await;
        assert_eq!(answer.status, 200, "{section}: {answer:?}");
        let line = line(&gateway, reason);
        assert!(line.contains(&format!("gate=\"{gate}\"")), "{line}");
        assert!(limit.is_empty() || line.contains(&format!("limit=\"{limit}")), "{line}");
        if reason != "LINEAGE_INVALID" {
            let (is_let, told) = gateway.explain(&["--caller", "anonymous", "--agent", "echo"]);
            assert!(is_let && told.contains(&format!("would refuse: {reason}")), "{told}");
        }
    }
}

#[tokio::test]
async fn who_asks_too_often_is_only_written_down_where_that_is_observed() {
    let rate = "[rate]\nmode = \"observe\"\ncaller = { per_second = 1, burst = 1 }\n";
    let gateway = Gateway::start(&format!("{rate}{ECHO}"));
    for _ in 0..4 {
        assert_eq!(send(&gateway, &[]).await.status, 200);
    }
    let line = line(&gateway, "RATE_LIMITED");
    assert!(
        line.contains("gate=\"rate\"") && line.contains("1 requests a second for caller `anonymous`"),
        "{line}"
    );
}

#[tokio::test]
async fn a_call_for_which_a_pool_has_nobody_is_tried_all_the_same_where_that_is_observed() {
    let member = Gateway::start(ECHO);
    let routing = "[routing]\nmode = \"observe\"\nbreaker_failures = 1\nbreaker_cooldown_ms = 3600000\n";
    let agent = format!(
        "[[agent]]\nname = \"echo\"\nkind = \"a2a\"\nmembers = [{{ name = \"one\", url = \"{}\" }}]\n",
        member.agent("echo")
    );
    let gateway = Gateway::start(&format!("{routing}{agent}"));
    let client = WIRES[0].connect(&gateway, "echo").await;
    client.send("hello").await.expect("its member is there");
    drop(member);
    for _ in 0..2 {
        let error = client.send("hello").await.expect_err("it is gone");
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error}");
        assert!(error.to_string().contains("cannot be reached at the moment"), "{error}");
    }
    assert!(line(&gateway, "NO_PEER_AVAILABLE").contains("gate=\"routing\""));
    let (is_let, told) = gateway.explain(&["--caller", "anonymous", "--agent", "echo", "-o", "json"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let routing = told["gates"].as_array().expect("gates").iter().find(|gate| gate["gate"] == "routing");
    let routing = routing.expect("it is asked");
    assert!(is_let, "{told}");
    assert_eq!(
        (&routing["mode"], &routing["denied"]["reason"]),
        (&json!("observe"), &json!("NO_PEER_AVAILABLE"))
    );
}
