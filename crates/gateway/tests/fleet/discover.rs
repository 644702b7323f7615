//! Members of another fleet: found, called, and gone when they are gone there. Both are real gateways.

use chancery_sdk::Client;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::get;
use crate::provenance::{card, for_skill, provenance};
use crate::reload::{until, until_named};

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";
const STREAM: &str = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
const ASK: &str = "[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n";

fn discover(url: &str, prefix: &str, more: &str) -> String {
    format!("[[discover]]\nurl = \"{url}\"\nprefix = \"{prefix}\"\nrefresh_ms = 100\n{more}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_another_fleet_are_found_called_and_gone_with_it() {
    let there = Gateway::start(&format!("{ECHO}{STREAM}"));
    let places = [there.url().to_owned(), format!("{}/agents/", there.url())];
    for url in &places {
        there.configure(&format!("{ECHO}{STREAM}"));
        let here = Gateway::start(&format!("{ASK}{}", discover(url, "far", "")));
        until_named(&here, &["ask", "far-echo", "far-stream"]).await;
        let client = Client::connect(here.agent("far-echo")).await.expect("it is there");
        assert_eq!(client.send("hello").await.expect("it answers").text(), "hello");
        let said = card(&here, "far-echo").await;
        assert_eq!(provenance(&said)["trust_tier"], "untrusted");
        assert!(!said.to_string().contains(there.url()), "{said}");
        let told = here.run(&["admin", "agents", "-o", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let agents = told["agents"].as_array().expect("agents");
        let found = agents.iter().find(|agent| agent["name"] == "far-echo").expect("it is listed");
        assert_eq!((&found["discoveredIn"], &found["upstream"]), (&json!(url), &json!(there.agent("echo"))));
        // One goes, and another comes.
        there.configure(&format!("{ECHO}{ASK}"));
        until_named(&here, &["ask", "far-ask", "far-echo"]).await;
        assert_eq!(get(&here.agent("far-stream"), &[]).await.status, 404);
        assert_eq!(client.send("hello").await.expect("it is untouched").text(), "hello");
        // Whoever cannot be asked has the members that it had, so these are taken away by hand.
        here.configure(ASK);
        until_named(&here, &["ask"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_to_members_of_another_fleet_only_for_skills_that_are_vouched_for() {
    let there = Gateway::start(&format!("{ECHO}{STREAM}"));
    let vouched = discover(there.url(), "far", "skills = [\"echo\", \"ask\"]");
    let here = Gateway::start(&format!("{ASK}{vouched}"));
    until_named(&here, &["ask", "far-echo", "far-stream"]).await;
    let fleet = Client::connect(here.url()).await.expect("it has a card");
    assert_eq!(fleet.send(for_skill("hello", "echo")).await.expect("it goes there").text(), "hello");
    let refused = fleet.send(for_skill("hello", "stream")).await.expect_err("nobody vouches for it");
    assert!(refused.to_string().contains("nobody here has the skill"), "{refused}");
    // Our own comes first, also if the other one has it too.
    here.configure(&format!("{ASK}{ECHO}{vouched}"));
    until_named(&here, &["ask", "echo", "far-echo", "far-stream"]).await;
    for _ in 0..4 {
        let said = fleet.send(for_skill("hello", "echo")).await.expect("it is answered");
        let id = said.task().expect("a task").id.clone();
        let ours = Client::connect(here.agent("echo")).await.expect("it is there");
        assert_eq!(ours.get(id.clone()).await.expect("it is ours").id, id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_never_taken_from_our_own_and_what_was_found_is_not_found_again() {
    let there = Gateway::start(&format!("{ECHO}{STREAM}"));
    let ours = "[[agent]]\nname = \"far-echo\"\nkind = \"command\"\ncommand = { run = [\"/bin/echo\", \"ours\"], isolation = \"relaxed\" }\n";
    let here = Gateway::start(&format!("{ours}{}", discover(there.url(), "far", "")));
    until_named(&here, &["far-echo", "far-stream"]).await;
    assert_eq!(provenance(&card(&here, "far-echo").await)["kind"], "command");
    // The other one finds us: what we have found there it does not find here.
    there.configure(&format!("{ECHO}{STREAM}{}", discover(here.url(), "back", "")));
    until_named(&there, &["back-far-echo", "echo", "stream"]).await;
    let marked = get(&format!("{}/agents/", here.url()), &[]).await.json();
    let marks: Vec<&Value> =
        marked["agents"].as_array().expect("agents").iter().map(|a| &a["discovered"]).collect();
    assert_eq!(marks, [&Value::Null, &json!(true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_member_is_left_out_with_a_reason_and_keeps_nothing_from_being_changed() {
    let there = Gateway::start(ECHO);
    let url = there.agent("echo");
    let listed = json!({"agents": [
        {"name": "ok", "url": url},
        {"name": "passwd", "url": "file:///etc/passwd"},
        {"name": "user", "url": format!("http://bob:hunter2@{}/agents/echo", there.place())},
        {"name": "socket", "url": "ws://host.example"},
        {"name": "No \u{1b}Name", "url": url},
    ]});
    let fleet = format!("{}/agents/", crate::http::always(listed.to_string()).await);
    let far = discover(&fleet, "far", "");
    let here = Gateway::start(&format!("{ASK}{far}"));
    until_named(&here, &["ask", "far-ok"]).await;
    let told: Value = serde_json::from_str(&here.run(&["admin", "agents", "-o", "json"])).expect("JSON");
    let left_out = told["leftOut"].as_array().expect("a list");
    let why = |name: &str| {
        let one = left_out.iter().find(|one| one["name"].as_str().is_some_and(|known| known.contains(name)));
        let one = one.unwrap_or_else(|| panic!("{name}: {told}"));
        assert_eq!(one["discoveredIn"], fleet);
        one["reason"].as_str().expect("a reason").to_owned()
    };
    assert!(why("passwd").contains("is no agent's URL"), "{told}");
    assert!(why("user").contains("credentials do not belong into a URL"), "{told}");
    assert!(why("socket").contains("must begin with http:// or https://"), "{told}");
    assert!(why("Name").contains("cannot be the name of an agent"), "{told}");
    assert!(here.run(&["admin", "agents"]).contains("left out: passwd of "));
    // What the operator changes counts, security above all.
    here.configure(&format!("{ASK}{STREAM}{far}[policy.default]\noperations = [\"GetTask\"]\n"));
    until("nobody may send", async || {
        let agents = get(&format!("{}/agents/", here.url()), &[]).await.json();
        agents["agents"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    here.run(&["admin", "reload"]);
    let log = here.log();
    assert_eq!(log.lines().filter(|line| line.contains("`passwd` of the fleet")).count(), 1, "{log}");
    assert!(!log.contains("hunter2") && !told.to_string().contains("hunter2"), "{log} {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_are_taken_as_the_operator_says_and_none_on_this_machine_that_another_names() {
    let there = Gateway::start(&format!("{ECHO}{STREAM}{ASK}"));
    let here = Gateway::start(&discover(there.url(), "far", "max_agents = 2"));
    until_named(&here, &["far-ask", "far-echo"]).await;
    // A list that leads to another port of this machine, which only the rules can keep us from.
    let listed = json!({"agents": [{"name": "echo", "url": there.agent("echo")}]});
    let liar = crate::http::always(listed.to_string()).await;
    let here = Gateway::start(&discover(&format!("{liar}/agents/"), "lured", ""));
    until_named(&here, &["lured-echo"]).await;
    let error = async || provenance(&card(&here, "lured-echo").await)["upstream_card_fetch_error"].clone();
    until("the refusal", async || error().await == "it may not be connected to").await;
}
