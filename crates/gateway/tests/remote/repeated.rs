//! What is sent again under the same key is done once, and every sender gets the same answer.

use std::collections::BTreeSet;

use serde_json::json;
use tokio::task::JoinSet;

use crate::agents::{Hostile, OFFICIAL, RemoteAgent, SPOKEN, section};
use crate::caller::{Caller, message};
use crate::gateway::Gateway;
use crate::{http, judge};

const SENDERS: usize = 50;
/// There is room for one call: those that repeat it take none.
const ROOM: &str = "[policy.default]\nmax_concurrency = 1\n";

/// What an agent may answer: a task after a while, a message, an error of the protocol, one of its transport, and nothing.
const TEXTS: [&str; 5] = ["slow 300", "message", "error", "busy", "cut"];

/// Sends the same again and again, at once and then once more. Gives the answers that came.
async fn send_at_once(caller: &Caller, text: &str) -> BTreeSet<String> {
    let caller = caller.clone().with("Idempotency-Key", &format!("key of {text}"));
    let params = message(text);
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        let (caller, params) = (caller.clone(), params.clone());
        senders.spawn(async move { caller.ask("SendMessage", &params).await.outcome() });
    }
    let mut answers: BTreeSet<_> = senders.join_all().await.into_iter().collect();
    answers.insert(caller.ask("SendMessage", &params).await.outcome());
    answers
}

fn complaint(name: &str, text: &str, worked: usize, answers: &BTreeSet<String>) -> Option<String> {
    let short = |answer: &String| answer.chars().take(240).collect::<String>();
    let told: Vec<_> = answers.iter().take(3).map(short).collect();
    (worked != 1 || answers.len() != 1)
        .then(|| format!("{name}, {text}: worked {worked} times, {} answers: {told:#?}", answers.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sends_with_one_key_are_one_call() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!("{ROOM}{}", hostile.sections("far", "-", "")));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for text in TEXTS {
            let name = spoken.name("far");
            let text = format!("{text} {name}");
            let answers = send_at_once(&Caller::new(&gateway, &*name), &text).await;
            wrong.extend(complaint(&name, &text, hostile.of(spoken).count(&text), &answers));
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sends_with_one_key_are_one_call_to_agents_on_other_sdks() {
    let mut wrong = Vec::new();
    for (name, program) in OFFICIAL {
        let agent = RemoteAgent::start(program).await;
        let gateway = Gateway::start(&format!("{ROOM}{}", section(name, agent.url(), "")));
        for text in ["tck-long-running", "tck-message-response", "tck-error"] {
            let answers = send_at_once(&Caller::new(&gateway, name), text).await;
            wrong.extend(complaint(name, text, agent.count(text), &answers));
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_plain_requests_with_one_id_are_one_call() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!("{ROOM}{}", hostile.sections("far", "-", "")));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for text in TEXTS {
            let name = spoken.name("far");
            let text = format!("{text} {name}");
            let url = format!("{}/invoke", gateway.agent(&name));
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": text}});
            let mut senders = JoinSet::new();
            for _ in 0..SENDERS {
                let (url, body, id) = (url.clone(), body.clone(), text.replace(' ', "-"));
                senders.spawn(async move { http::post(&url, &[("x-request-id", &id)], &body).await });
            }
            let mut answers: BTreeSet<_> = senders
                .join_all()
                .await
                .into_iter()
                .map(|answer| format!("{} {}", answer.status, answer.text))
                .collect();
            let again = http::post(&url, &[("x-request-id", &text.replace(' ', "-"))], &body).await;
            answers.insert(format!("{} {}", again.status, again.text));
            wrong.extend(complaint(&name, &text, hostile.of(spoken).count(&text), &answers));
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_kept_over_a_kill() {
    let hostile = Hostile::start().await;
    let mut gateway = Gateway::start(&format!("{ROOM}{}", hostile.sections("far", "-", "")));
    let mut wrong = Vec::new();
    let mut sent = Vec::new();
    for spoken in SPOKEN {
        for text in ["echo", "message", "error"] {
            let (name, key) = (spoken.name("far"), format!("{text} of {}", spoken.name("far")));
            let params = message(&key);
            let caller = Caller::new(&gateway, &*name).with("Idempotency-Key", &key);
            let told = caller.ask("SendMessage", &params).await.outcome();
            sent.push((spoken, name, key, params, told));
        }
    }
    gateway.kill_and_restart();
    for (spoken, name, key, params, told) in sent {
        let caller = Caller::new(&gateway, &*name).with("Idempotency-Key", &key);
        let answers = BTreeSet::from([told, caller.ask("SendMessage", &params).await.outcome()]);
        wrong.extend(complaint(&name, &key, hostile.of(spoken).count(&key), &answers));
    }
    judge(&wrong);
}
