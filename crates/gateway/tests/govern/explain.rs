//! `chancery explain` says what the gateway that runs would do, takes nothing for it, and ends with 1 if a call would be refused.

use serde_json::Value;

use super::ECHO;
use super::gateway::Gateway;
use super::wire::WIRES;

const ASKED: [&str; 4] = ["--caller", "anonymous", "--agent", "echo"];

fn relayed(upstream: &Gateway) -> String {
    format!("[[agent]]\nname = \"echo\"\nkind = \"a2a\"\nurl = \"{}\"\n", upstream.agent("echo"))
}

fn pool(upstream: &Gateway) -> String {
    let url = upstream.agent("echo");
    format!(
        "[[agent]]\nname = \"echo\"\nkind = \"a2a\"\nmembers = [{{ name = \"north\", url = \"{url}\" }}]\n"
    )
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ASKED[..], more].concat()
}

#[tokio::test]
async fn the_skills_of_an_agent_elsewhere_are_those_of_its_card() {
    let upstream = Gateway::start(ECHO);
    let policy = "[policy.default]\nallowed_skills = [\"echo\"]\n";
    let gateway = Gateway::start(&format!("{policy}{}", relayed(&upstream)));
    let client = WIRES[0].connect(&gateway, "echo").await;
    client.send("hello").await.expect("it is the only skill of the agent");
    for skill in [&[][..], &["--skill", "echo"]] {
        let (is_let, told) = gateway.explain(&with(skill));
        assert!(is_let, "{told}");
    }
    let (is_let, told) = gateway.explain(&with(&["--skill", "delete"]));
    assert!(!is_let && told.contains("policy: refuses: SKILL_NOT_ALLOWED"), "{told}");
    // The configuration alone does not know them.
    let (is_let, told) = gateway.explain(&with(&["--offline"]));
    assert!(!is_let && told.contains("policy: refuses: SKILL_NOT_ALLOWED"), "{told}");
}

#[tokio::test]
async fn members_and_agents_that_cannot_be_reached_are_as_they_are() {
    let routing = "[routing]\nbreaker_failures = 1\nbreaker_cooldown_ms = 3600000\n";
    for (agent, reason) in
        [(pool as fn(&Gateway) -> String, "NO_PEER_AVAILABLE"), (relayed, "AGENT_UNREACHABLE")]
    {
        let upstream = Gateway::start(ECHO);
        let gateway = Gateway::start(&format!("{routing}{}", agent(&upstream)));
        let client = WIRES[0].connect(&gateway, "echo").await;
        client.send("hello").await.expect("it is there");
        assert!(gateway.explain(&ASKED).0);
        drop(upstream);
        client.send("hello").await.expect_err("it is gone");
        let (is_let, told) = gateway.explain(&ASKED);
        assert!(!is_let && told.contains(&format!("routing: refuses: {reason}")), "{told}");
        let error = client.send("hello").await.expect_err("nobody tries it for an hour");
        assert!(error.to_string().contains(reason), "{error}");
        // The configuration alone does not know.
        assert!(gateway.explain(&with(&["--offline"])).0);
    }
}

#[tokio::test]
async fn nothing_is_taken() {
    let config = format!(
        "[rate.caller]\nper_second = 1\nburst = 2\n[budget.caller]\nmax_tasks_per_day = 1\n\
         [policy.default]\nmax_concurrency = 1\n[recursion]\nmax_descendants = 1\n{ECHO}"
    );
    let gateway = Gateway::start(&config);
    for _ in 0..5 {
        let (is_let, told) = gateway.explain(&ASKED);
        assert!(is_let && told.contains("2 of 2 requests left"), "{told}");
        let (is_let, told) = gateway.explain(&with(&["--depth", "1"]));
        assert!(is_let, "{told}");
    }
    let calls: Value = serde_json::from_str(&gateway.run(&["admin", "-o", "json", "calls"])).expect("JSON");
    assert_eq!(calls["calls"].as_array().map(Vec::len), Some(0), "{calls}");
    let client = WIRES[0].connect(&gateway, "echo").await;
    client.send("hello").await.expect("there is room for one");
    let (is_let, told) = gateway.explain(&ASKED);
    assert!(!is_let && told.contains("budget: refuses: BUDGET_EXCEEDED"), "{told}");
}

#[tokio::test]
async fn nobody_is_tried_out_for_it() {
    let routing = "[routing]\nbreaker_failures = 1\nbreaker_cooldown_ms = 1\n";
    for agent in [pool, relayed] {
        let upstream = Gateway::start(ECHO);
        let gateway = Gateway::start(&format!("{routing}{}", agent(&upstream)));
        let client = WIRES[0].connect(&gateway, "echo").await;
        client.send("hello").await.expect("it is there");
        drop(upstream);
        client.send("hello").await.expect_err("it is gone");
        for _ in 0..3 {
            let (is_let, told) = gateway.explain(&ASKED);
            assert!(is_let, "it may be tried: {told}");
        }
        let agents = gateway.run(&["admin", "-o", "json", "agents"]);
        let agents: Value = serde_json::from_str(&agents).expect("JSON");
        let agent = &agents["agents"][0];
        let standing = if agent["reach"].is_null() { &agent["members"][0] } else { &agent["reach"] };
        assert_eq!(
            (&standing["openCalls"], &standing["standing"]),
            (&0.into(), &"on trial".into()),
            "{agents}"
        );
    }
}
