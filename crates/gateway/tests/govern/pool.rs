//! Pools: who answers, why, and what the caller is told of it; and who answers when nobody of the pool can be reached.

use chancery_protocol::{LINEAGE_EXTENSION, Whereabouts};
use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::{SendMessageRequest, Task};

use super::gateway::{Gateway, chancery};
use super::wire::WIRES;
use super::{ECHO, refused};

/// A pool with one member, and what else stands in the configuration.
fn pool(member: &Gateway, agent: &str, keys: &str, rest: &str) -> String {
    let url = member.agent(agent);
    format!(
        "{rest}[[agent]]\nname = \"pool\"\nkind = \"a2a\"\nmembers = [{{ name = \"north\", url = \"{url}\" }}]\n{keys}"
    )
}

fn whereabouts(task: &Task) -> Whereabouts {
    let said = task.metadata.as_ref().and_then(|said| said.entry(LINEAGE_EXTENSION).ok().flatten());
    said.unwrap_or_else(|| panic!("{task:?}"))
}

#[tokio::test]
async fn the_answer_says_who_of_the_pool_was_chosen_and_why() {
    let member = Gateway::start(ECHO);
    let gateway = Gateway::start(&pool(&member, "echo", "selector = \"round_robin\"\n", ""));
    // v0.1 has a place of its own for such things.
    for wire in &WIRES[..6] {
        let client = wire.connect(&gateway, "pool").await;
        let sent = client.send("hello").await.unwrap_or_else(|error| panic!("{wire:?}: {error}"));
        let told = whereabouts(sent.task().expect("a task"));
        let choice = told.routing.expect("somebody was chosen");
        assert_eq!((&*choice.pool, choice.peer.as_deref()), ("pool", Some("north")), "{wire:?}");
        assert_eq!(choice.selector, "round_robin");
        assert!(!choice.reason.is_empty());
        assert_eq!((told.depth, told.trace_id.len()), (0, 32));
        assert_eq!(told.path.iter().map(|name| &**name).collect::<Vec<_>>(), ["pool"]);
    }
}

const LOCAL: &str = "[routing]\nfallback = \"local\"\nbreaker_failures = 1\nbreaker_cooldown_ms = 3600000\n";

#[tokio::test]
async fn somebody_here_answers_for_a_pool_of_which_nobody_can_be_reached() {
    let asks = "[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n";
    let stream = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let member = Gateway::start(asks);
    let rest = format!("{LOCAL}[budget.caller]\nmax_tasks_per_day = 100\n{asks}{stream}");
    let mut gateway = Gateway::start(&pool(&member, "ask", "stand_in = \"ask\"\n", &rest));
    let client = WIRES[0].connect(&gateway, "pool").await;
    let there = client.send("hello").await.expect("the member is there");
    assert_eq!(
        whereabouts(there.task().expect("a task")).routing.expect("a choice").peer.as_deref(),
        Some("north")
    );
    drop(member);
    // What may have been sent is not done again.
    let error = client.send("hello").await.expect_err("nobody knows yet that it is gone");
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error}");

    let asked = client.send("hello").await.expect("somebody here answers");
    let asked = asked.task().expect("a task");
    assert_eq!(asked.status.state.as_str(), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(whereabouts(asked).routing.expect("a choice").selector, "fallback");
    gateway.kill_and_restart();
    let client = WIRES[1].connect(&gateway, "pool").await;
    let known = client.get(asked.id.clone()).await.expect("it is found where it was begun");
    assert_eq!(known.status.state.as_str(), "TASK_STATE_INPUT_REQUIRED");
    let mut answer = SendMessageRequest::from("blue");
    answer.message.task_id = Some(asked.id.clone());
    let done = client.send(answer).await.expect("it goes on here");
    assert_eq!(done.task().expect("a task").status.state.as_str(), "TASK_STATE_COMPLETED");
    let said = gateway.run(&["budget", "show", "-o", "json", "--caller", "anonymous"]);
    assert!(said.contains("\"charged\":3"), "{said}");
}

#[tokio::test]
async fn what_is_answered_here_for_a_pool_is_stopped_like_any_other() {
    let stream = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let member = Gateway::start(stream);
    let rest = format!("{LOCAL}[policy.default]\nmax_duration_ms = 1500\n{stream}");
    let gateway = Gateway::start(&pool(&member, "stream", "stand_in = \"stream\"\n", &rest));
    drop(member);
    let client = WIRES[0].connect(&gateway, "pool").await;
    client.send("stream 1 1").await.expect_err("nobody knows yet that it is gone");
    let late = client.send("stream 1000 1000").await.expect("somebody here answers");
    let late = late.task().expect("a task");
    let said = late.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default();
    assert!(said.starts_with("PolicyTimeout"), "{late:?}");
    gateway.run(&["admin", "contain", "stream", "--reason", "off"]);
    refused(client.send("hello").await, ErrorCode::PermissionDenied, "containment", "AGENT_CONTAINED");
}

#[test]
fn who_answers_here_must_be_named_and_run_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = "members = [{ name = \"north\", url = \"http://north.example\" }]\n";
    let pool = format!("[[agent]]\nname = \"pool\"\nkind = \"a2a\"\n{members}");
    for (config, wanted) in [
        (format!("[routing]\nfallback = \"local\"\n{ECHO}{pool}"), "needs somebody who answers here"),
        (
            format!("[routing]\nfallback = \"local\"\n{ECHO}{pool}stand_in = \"ecko\"\n"),
            "did you mean `echo`?",
        ),
        (format!("{ECHO}{pool}stand_in = \"echo\"\n"), "routing.fallback = \"local\""),
        (format!("[routing]\nfallback = \"local\"\n{ECHO}stand_in = \"echo\"\n"), "only a pool"),
    ] {
        std::fs::write(folder.path().join("chancery.toml"), &config).expect("it is written");
        let ran = chancery(folder.path()).arg("check").output().expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(64), "{config}: {told}");
        assert!(told.contains(wanted), "{config}: {told}");
    }
}

#[tokio::test]
async fn a_message_for_a_skill_goes_to_a_member_whose_card_declares_it() {
    let stream = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let (echo, other) = (Gateway::start(ECHO), Gateway::start(stream));
    let config = format!(
        "[[agent]]\nname = \"pool\"\nkind = \"a2a\"\nselector = \"capability_match\"\n\
         members = [{{ name = \"south\", url = \"{}\" }}, {{ name = \"north\", url = \"{}\" }}]\n",
        other.agent("stream"),
        echo.agent("echo")
    );
    let gateway = Gateway::start(&config);
    let skill_of = |member: &Gateway, name: &str| {
        let card = member.run(&["card", "get", &member.agent(name), "-o", "json"]);
        let card: serde_json::Value = serde_json::from_str(&card).expect("a card");
        card["skills"][0]["id"].as_str().expect("it has a skill").to_owned()
    };
    let skills = [("north", skill_of(&echo, "echo")), ("south", skill_of(&other, "stream"))];
    for (peer, skill) in &skills {
        for round in 0..3 {
            let mut request = SendMessageRequest::from("1 1");
            let metadata = format!("{{\"urn:chancery:ext:skill:v1\": \"{skill}\"}}");
            request.message.metadata =
                Some(chancery_protocol::JsonObject::parse(&metadata).expect("an object"));
            // Each is idle, so nothing but the skill decides.
            let wire = &WIRES[round % 2];
            let sent = wire.connect(&gateway, "pool").await.send(request).await.expect("it is answered");
            let choice = whereabouts(sent.task().expect("a task")).routing.expect("somebody was chosen");
            assert_eq!(choice.peer.as_deref(), Some(*peer), "{skill}: {}", choice.reason);
        }
    }
    let (is_let, told) =
        gateway.explain(&["--caller", "anonymous", "--agent", "pool", "--skill", &skills[0].1]);
    assert!(is_let && told.contains("declares the skill"), "{told}");
}
