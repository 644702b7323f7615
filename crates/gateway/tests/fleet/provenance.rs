//! Where cards come from: what a member's card says of the agent behind it, and what is made of one that nobody trusts.

use chancery_sdk::{Client, JsonObject, Message};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gateway::Gateway;
use crate::http::get;
use crate::reload::until;

const V1: (&str, &str) = ("a2a-version", "1.0");
const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

pub(crate) async fn card(gateway: &Gateway, agent: &str) -> Value {
    get(&format!("{}/.well-known/agent-card.json", gateway.agent(agent)), &[V1]).await.json()
}

pub(crate) fn extension<'a>(card: &'a Value, uri: &str) -> &'a Value {
    let all = card["capabilities"]["extensions"].as_array().expect("extensions");
    let found = all.iter().find(|known| known["uri"] == uri);
    &found.unwrap_or_else(|| panic!("no {uri}: {card}"))["params"]
}

pub(crate) fn provenance(card: &Value) -> &Value {
    extension(card, "urn:chancery:ext:provenance:v1")
}

pub(crate) fn for_skill(text: &str, skill: &str) -> Message {
    let mut message = Message::user(text);
    let metadata = json!({"urn:chancery:ext:skill:v1": skill}).to_string();
    message.metadata = Some(JsonObject::parse(&metadata).expect("an object"));
    message
}

fn elsewhere(name: &str, url: &str, more: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"{url}\"\n{more}\n")
}

#[tokio::test]
async fn every_card_says_where_it_comes_from() {
    let upstream = Gateway::start(ECHO);
    let program = "[[agent]]\nname = \"cat\"\nkind = \"command\"\ncommand = { run = [\"/bin/cat\"], isolation = \"relaxed\" }\n";
    let inbox = "[[agent]]\nname = \"box\"\nkind = \"inbox\"\n";
    let url = upstream.agent("echo");
    let far = elsewhere("far", &url, "") + &elsewhere("odd", &url, "trust = \"untrusted\"");
    let gateway = Gateway::start(&format!("{ECHO}{program}{inbox}{far}"));
    for (name, kind) in [("echo", "builtin"), ("cat", "command"), ("box", "inbox")] {
        let card = card(&gateway, name).await;
        assert_eq!(provenance(&card), &json!({"kind": kind, "trust_tier": "trusted"}), "{name}");
    }
    // What was applied to a program stays beside it.
    assert!(extension(&card(&gateway, "cat").await, "urn:chancery:ext:runtime:v1")["isolation"].is_object());
    let own = get(&format!("{url}/.well-known/agent-card.json"), &[V1]).await.text;
    let digest: String = Sha256::digest(&own).iter().map(|byte| format!("{byte:02x}")).collect();
    for (name, tier) in [("far", "trusted"), ("odd", "untrusted")] {
        let digest = format!("sha-256:{digest}");
        let said = json!({"kind": "a2a", "trust_tier": tier, "upstream_digest": digest});
        let card = card(&gateway, name).await;
        assert_eq!(provenance(&card), &said, "{name}");
        // Where it is, is the operator's to know.
        assert!(!card.to_string().contains(upstream.url()), "{name}: {card}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_card_cannot_be_had_stays_listed_and_says_why() {
    let upstream = Gateway::start(ECHO);
    let often = "health = { interval_ms = 100 }";
    let wrong = format!("{}/no-such-path", upstream.url());
    let config = elsewhere("far", &upstream.agent("echo"), often) + &elsewhere("wrong", &wrong, often);
    let gateway = Gateway::start(&config);
    let said = card(&gateway, "wrong").await;
    assert_eq!(provenance(&said)["upstream_card_fetch_error"], "it was answered with HTTP status 404");
    let before = card(&gateway, "far").await;
    assert!(provenance(&before).get("upstream_card_fetch_error").is_none(), "{before}");
    drop(upstream);
    until("the error", async || {
        provenance(&card(&gateway, "far").await).get("upstream_card_fetch_error").is_some()
    })
    .await;
    let after = card(&gateway, "far").await;
    assert_eq!(provenance(&after)["upstream_card_fetch_error"], "unreachable");
    // What it said when it was last there is shown all the same.
    assert_eq!((&after["skills"], &after["description"]), (&before["skills"], &before["description"]));
    let listed = get(&format!("{}/agents/?health=unhealthy", gateway.url()), &[]).await.json();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(2), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_led_by_what_a_card_says_that_nobody_trusts() {
    let upstream = Gateway::start(&format!("{ECHO}[[agent]]\nname = \"ask\"\nkind = \"builtin\"\n"));
    let ours = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
    let odd =
        |more: &str| elsewhere("odd", &upstream.agent("echo"), &format!("trust = \"untrusted\"\n{more}"));
    let gateway = Gateway::start(&format!("{ours}{}", odd("")));
    let fleet = Client::connect(gateway.url()).await.expect("it has a card");
    let refused = fleet.send(for_skill("hello", "echo")).await.expect_err("nobody is believed to have it");
    assert!(refused.to_string().contains("nobody here has the skill `echo`"), "{refused}");
    let shown = get(&format!("{}/.well-known/agent-card.json", gateway.url()), &[V1]).await.json();
    let skills: Vec<_> =
        shown["skills"].as_array().expect("skills").iter().map(|skill| &skill["id"]).collect();
    assert_eq!(skills, ["stream"]);
    // By its own name it can be called, and by the skill that the operator vouches for.
    let client = Client::connect(gateway.agent("odd")).await.expect("it is there");
    assert_eq!(client.send("hello").await.expect("it answers").text(), "hello");
    gateway.configure(&format!("{ours}{}", odd("skills = [\"repeat\"]")));
    until("the skill", async || fleet.send(for_skill("hello", "repeat")).await.is_ok()).await;
    let said = fleet.send(for_skill("hello", "repeat")).await.expect("it goes there");
    assert_eq!(said.text(), "hello");
    // Nor is what the card says of skills shown as the fleet's.
    let shown = get(&format!("{}/.well-known/agent-card.json", gateway.url()), &[V1]).await.text;
    assert!(!shown.contains("word for word"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_leads_only_where_the_operator_allows_and_an_untrusted_one_nowhere() {
    let upstream = Gateway::start(ECHO);
    let mut lure =
        get(&format!("{}/.well-known/agent-card.json", upstream.agent("echo")), &[V1]).await.json();
    lure["signatures"] = json!([]);
    let lure = crate::http::always(lure.to_string()).await;
    let allowed = "[outbound]\nallow_egress = [\"127.0.0.0/8\"]\n";
    let untrusted = "trust = \"untrusted\"";
    for (outbound, more, error) in [
        (allowed, "", None),
        ("", "", Some("it may not be connected to")),
        (allowed, untrusted, Some("the card names no interface that can be used")),
    ] {
        let gateway = Gateway::start(&format!("{outbound}{}", elsewhere("far", &lure, more)));
        let said = card(&gateway, "far").await;
        let found = &provenance(&said)["upstream_card_fetch_error"];
        assert_eq!(found.as_str(), error, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_told_no_address_of_the_operators_network() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let upstream = Gateway::start(ECHO);
    let mut inside =
        get(&format!("{}/.well-known/agent-card.json", upstream.agent("echo")), &[V1]).await.json();
    inside["signatures"] = json!([]);
    inside["documentationUrl"] = json!("http://10.0.0.8:9000/secret-docs");
    inside["iconUrl"] = json!("http://intranet/secret-icon.png");
    inside["provider"] = json!({"organization": "Inside", "url": "http://wiki.corp.internal/secret-wiki"});
    let lure = crate::http::always(inside.to_string()).await;
    inside["documentationUrl"] = json!("https://docs.example.com/open");
    inside["provider"]["url"] = json!("https://example.com/");
    let open = crate::http::always(inside.to_string()).await;
    let often = "health = { interval_ms = 100 }";
    let probed = "health = { interval_ms = 100, path = \"/secret-path\", status = 204 }";
    let agents = [
        ("dead", format!("http://{gone}/secret-place"), often),
        ("odd", format!("{}/secret-missing", upstream.url()), often),
        ("probed", upstream.agent("echo"), probed),
        ("lured", lure.clone(), often),
    ];
    let sections: String = agents.iter().map(|(name, url, more)| elsewhere(name, url, more)).collect();
    let gateway = Gateway::start(&sections);
    let listed = async || get(&format!("{}/agents/", gateway.url()), &[]).await.json()["agents"].clone();
    let reason = async |name: &str| {
        let agents = listed().await;
        let agent = agents.as_array().expect("agents").iter().find(|agent| agent["name"] == name);
        agent.expect("it is listed")["health"]["reason"].as_str().unwrap_or_default().to_owned()
    };
    for (name, why) in [
        ("dead", "it cannot be reached"),
        ("odd", "its card cannot be read"),
        ("probed", "its probe is not answered as it should be"),
        ("lured", "its card leads where the gateway may not call"),
    ] {
        until(name, async || reason(name).await.starts_with(why)).await;
    }
    let (gone, inner) = (gone.to_string(), upstream.place().to_owned());
    let hosts = [gone.as_str(), &inner, lure.trim_start_matches("http://"), "secret", "10.0.0.8"];
    let mut told = vec![listed().await.to_string()];
    for (name, ..) in &agents {
        for path in ["healthz", "card", ".well-known/agent-card.json"] {
            told.push(get(&format!("{}/{path}", gateway.agent(name)), &[V1]).await.text);
        }
    }
    for text in &told {
        assert!(!hosts.iter().any(|host| text.contains(host)), "{hosts:?}: {text}");
    }
    // The operator is told all of it.
    let whole = gateway.run(&["admin", "agents"]);
    assert!(whole.contains(&gone) && whole.contains("/secret-path") && whole.contains(&inner), "{whole}");
    assert!(gateway.log().contains(&gone), "{}", gateway.log());
    // Of a card that is shown, what leads elsewhere in the world is passed on.
    let allowed = "[outbound]\nallow_egress = [\"127.0.0.0/8\"]\n";
    let sections = elsewhere("inside", &lure, "") + &elsewhere("open", &open, "");
    let gateway = Gateway::start(&format!("{allowed}{sections}"));
    let (inside, open) = (card(&gateway, "inside").await, card(&gateway, "open").await);
    assert!(inside["skills"][0]["id"] == "echo" && !inside.to_string().contains("secret"), "{inside}");
    assert_eq!(open["documentationUrl"], "https://docs.example.com/open");
    assert_eq!(open["provider"]["organization"], "Inside");
}

#[tokio::test]
async fn only_one_that_is_called_elsewhere_can_be_untrusted() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = [
        (format!("{ECHO}trust = \"untrusted\"\n"), "can be untrusted"),
        (format!("{ECHO}skills = [\"x\"]\n"), "only of an agent elsewhere"),
        (format!("{ECHO}health = {{ path = \"/x\" }}\n"), "an agent of this kind has none"),
        (elsewhere("far", "http://127.0.0.1:9", "health = { path = \"x\" }"), "is no path"),
        (elsewhere("far", "http://127.0.0.1:9", "health = { status = 204 }"), "add `path`"),
        (format!("{ECHO}[[discover]]\nurl = \"nonsense\"\nprefix = \"x\"\n"), "no agent's URL"),
        (format!("{ECHO}[[discover]]\nurl = \"http://a.example\"\nprefix = \"-x\"\n"), "can begin with"),
    ];
    for (config, expected) in wrong {
        std::fs::write(folder.path().join("chancery.toml"), &config).expect("it is written");
        let ran = crate::gateway::chancery(folder.path()).arg("check").output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert!(!ran.status.success() && said.contains(expected), "{config}: {said}");
    }
}
