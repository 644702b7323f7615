//! The lineage token goes to the agent that is called, and to nobody else: whatever the agent tells, it does not come back.

use serde_json::{Value, json};

use crate::agents::{Hostile, SPOKEN, section};
use crate::call::{Binding, Call};
use crate::caller::{Caller, message};
use crate::gateway::Gateway;
use crate::receiver::{Manner, Receiver};
use crate::{http, judge, until};

/// What an agent does that keeps what it is told, and nothing else.
const HONEST: [&str; 2] = ["echo", "ask"];
/// What one does that tells everything that it was told: as a task, as a question, as a bare message.
const TALKATIVE: [&str; 3] = ["mirror", "mirror-ask", "mirror-message"];

/// An agent that nobody outside the fleet may call.
const HIDDEN: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\nexposed = false\n";

/// The token that a message was sent with, wherever it stood.
fn tokens(note: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in note["headers"].as_object().unwrap() {
        if name.eq_ignore_ascii_case("chancery-lineage") {
            found.push(value.as_str().unwrap().to_owned());
        }
    }
    let extension = "urn:chancery:ext:lineage:v1";
    for place in [&note["message"]["metadata"][extension], &note["metadata"][extension]] {
        let texts = [place, &place["token"]].map(|text| text.as_str().map(str::to_owned));
        found.extend(texts.into_iter().flatten());
    }
    found
}

/// All that a caller can see of what comes of a message, in every way there is to look.
async fn everything(gateway: &Gateway, name: &str, text: &str, hook: &str) -> String {
    let caller = Caller::new(gateway, name);
    let mut params = message(&format!("{text} {name}"));
    let push = json!({"url": hook, "id": "c"});
    params["configuration"] = json!({"taskPushNotificationConfig": push, "historyLength": 10});
    let sent = caller.ask("SendMessage", &params).await;
    let mut all = vec![sent.body.to_string()];
    if let Some(id) = sent.task()["id"].as_str() {
        all.push(caller.ask("GetTask", &json!({"id": id, "historyLength": 10})).await.body.to_string());
    }
    let list = json!({"includeArtifacts": true, "historyLength": 10});
    all.push(caller.ask("ListTasks", &list).await.body.to_string());
    all.push(caller.stream(&format!("{text} {name}")).end().await.unwrap_or_else(|why| why));
    let plain =
        json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": format!("{text} {name}")}});
    let id = format!("{text}-{name}");
    all.push(
        http::post(&format!("{}/invoke", gateway.agent(name)), &[("x-request-id", &id)], &plain).await.text,
    );
    all.push(
        http::get(&format!("{}/tasks?historyLength=9", gateway.agent(name)), &[("a2a-version", "1.0")])
            .await
            .text,
    );
    all.join("\n")
}

async fn comes_back(flags: &str, texts: &[&str]) -> Vec<String> {
    let hostile = Hostile::start().await;
    let receiver = Receiver::new(Manner::Prompt);
    let push = "[push]\nallow_egress = [\"127.0.0.0/8\"]\n";
    let gateway = Gateway::start(&format!("{push}{HIDDEN}{}", hostile.sections("far", flags, "")));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for text in texts {
            let (name, path) = (spoken.name("far"), format!("/{text}/{}", spoken.name("far")));
            let mut seen = everything(&gateway, &name, text, &receiver.url(&path)).await;
            if *text != "mirror-message" {
                until("a notification came", || !receiver.bodies(&path).is_empty()).await;
            }
            for body in receiver.bodies(&path) {
                seen.push_str(&String::from_utf8_lossy(&body));
            }
            let notes = hostile.of(spoken).executions(&format!("{text} {name}"));
            let tokens: Vec<_> = notes.iter().flat_map(tokens).collect();
            if tokens.is_empty() {
                wrong.push(format!("{name}, {text}: the agent was told no token"));
            }
            for token in tokens {
                if seen.contains(&token) {
                    let opened = opens(&gateway, &token).await;
                    wrong.push(format!(
                        "{name}, {text}: the token comes back; it opens what is hidden: {opened}"
                    ));
                    break;
                }
            }
        }
    }
    wrong
}

/// Whether an agent that is not exposed opens to a caller with nothing but a token.
async fn opens(gateway: &Gateway, token: &str) -> bool {
    let reply = Caller::new(gateway, "echo").with("Chancery-Lineage", token).send("open").await;
    reply.status == 200 && !reply.body["result"].is_null()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_keeps_messages_as_they_came_does_not_give_the_token_away() {
    judge(&comes_back("lineage", &HONEST).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_tells_all_headers_does_not_give_the_token_away() {
    judge(&comes_back("-", &TALKATIVE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_tells_all_metadata_does_not_give_the_token_away() {
    judge(&comes_back("lineage", &TALKATIVE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_answers_a_cancel_with_all_headers_does_not_give_the_token_away() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "-", ""));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for manner in ["tell", "refuse-telling"] {
            let (name, text) = (spoken.name("far"), format!("work {manner} {}", spoken.name("far")));
            let caller = Caller::new(&gateway, &*name);
            let started = caller.start(&text).await;
            let canceled = caller.ask("CancelTask", &json!({"id": started.id()})).await;
            let seen = format!("{:?}{:?}", canceled.body, caller.get(started.id()).await.body);
            let notes = hostile.of(spoken).executions(&text);
            let tokens: Vec<_> = notes.iter().flat_map(tokens).collect();
            if tokens.is_empty() || tokens.iter().any(|token| seen.contains(token)) {
                wrong.push(format!(
                    "{name}, {manner}: of {} tokens one comes back: {canceled:?}",
                    tokens.len()
                ));
            }
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_does_not_declare_the_extension_gets_no_token_in_the_metadata() {
    let hostile = Hostile::start().await;
    let sections = hostile.sections("plain", "-", "") + &hostile.sections("told", "lineage", "");
    let gateway = Gateway::start(&sections);
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for (prefix, is_declared) in [("plain", false), ("told", true)] {
            let name = spoken.name(prefix);
            let sent = Caller::new(&gateway, &*name).send(&format!("echo {name}")).await;
            let notes = hostile.of(spoken).executions(&name);
            let is_told = notes.iter().any(|note| {
                note["message"]["metadata"].to_string().contains("urn:chancery:ext:lineage:v1")
                    || note["metadata"].to_string().contains("urn:chancery:ext:lineage:v1")
            });
            if notes.len() != 1 || is_told != is_declared {
                wrong.push(format!("{name}: told {is_told}, declared {is_declared}: {sent:?}"));
            }
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_sees_while_the_turn_lasts_opens_nothing() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!("{HIDDEN}{}", hostile.sections("far", "lineage", "")));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let name = spoken.name("far");
        let caller = Caller::new(&gateway, &*name);
        let text = format!("mirror-hold {name}");
        let stream = caller.stream(&text);
        until("the stream has begun", || stream.seen() > 0).await;
        let shown = caller.ask("ListTasks", &json!({"includeArtifacts": true, "historyLength": 9})).await;
        let notes = hostile.of(spoken).executions(&text);
        for token in notes.iter().flat_map(tokens).filter(|token| shown.says(token)) {
            let opened = opens(&gateway, &token).await;
            wrong.push(format!(
                "{name}: the token is seen while it counts; it opens what is hidden: {opened}"
            ));
        }
        hostile.open(&name).await;
        stream.end().await.unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_nothing_once_its_turn_is_over() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!("{HIDDEN}{}", section("far", &hostile.url(SPOKEN[0], "-"), "")));
    let nobody = Caller::new(&gateway, "echo").send("open").await;
    assert!(nobody.body["result"].is_null(), "it is not there for anybody: {nobody:?}");
    Caller::new(&gateway, "far").send("echo far").await;
    let notes = hostile.of(SPOKEN[0]).executions("echo far");
    let token = notes.iter().flat_map(tokens).next().expect("the agent was told one");
    assert!(!opens(&gateway, &token).await, "the turn is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_an_earlier_turn_shows_no_token_when_its_stream_is_taken_up_again() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "lineage", ""));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let name = spoken.name("far");
        let sent = Caller::new(&gateway, &*name).send(&format!("mirror {name}")).await;
        let address = gateway.place().parse().expect("an address");
        let frames = Call::resume(Binding::JsonRpc, &name, sent.id(), 0).all(address).await;
        let told: Vec<_> =
            frames.iter().map(|frame| String::from_utf8_lossy(&frame.data).into_owned()).collect();
        let notes = hostile.of(spoken).executions(&format!("mirror {name}"));
        let tokens: Vec<_> = notes.iter().flat_map(tokens).collect();
        if tokens.is_empty() || tokens.iter().any(|token| told.join("").contains(token)) {
            let place = tokens.iter().find_map(|token| told.join("\n").find(token.as_str()));
            wrong.push(format!(
                "{name}: {} tokens; one of them at byte {place:?} of the stream",
                tokens.len()
            ));
        }
    }
    judge(&wrong);
}
