//! Agents that are models, against an endpoint that the tests start.

use std::time::Duration;

use chancery_sdk::protocol::{SendMessageResponse, StreamResponse};
use chancery_sdk::{Client, Message, Task, TaskState, Usage};
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Reply};
use crate::gateway::{Gateway, pieces_of};

/// An agent `it` that is the model of an endpoint, with more said about it.
fn model(endpoint: &Endpoint, more: &str) -> String {
    format!(
        "[[agent]]\nname = \"it\"\nkind = \"model\"\n[agent.model]\nurl = {:?}\nmodel = \"small\"\n{more}\n",
        endpoint.url
    )
}

async fn send(client: &Client, message: Message) -> Task {
    match client.send(message).await.expect("it is answered") {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("no task: {message:?}"),
    }
}

async fn ask(client: &Client, what: &str) -> Task {
    send(client, Message::user(what)).await
}

fn said(task: &Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(|part| part.as_text()).collect()
}

fn status(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text().into_owned()).unwrap_or_default()
}

fn usage(task: &Task) -> (Usage, String) {
    let shown = serde_json::to_value(task).expect("JSON");
    let usage = &shown["metadata"]["urn:chancery:ext:usage:v1"];
    let source = usage["costSource"].as_str().unwrap_or_default().to_owned();
    (serde_json::from_value(usage.clone()).expect("usage"), source)
}

#[tokio::test]
async fn a_model_is_told_its_instructions_and_its_words_are_streamed() {
    let endpoint = Endpoint::start(vec![Reply::Says(&["Hel", "lo ", "wörld"], 12, 3)]).await;
    let config = model(&endpoint, "system = \"Be brief, you secret agent.\"\nkey_env = \"MODEL_KEY\"");
    let gateway = Gateway::start_with(&config, &[("MODEL_KEY", "sk-123")]);
    let client = gateway.client("it").await;
    let mut events = client.stream("hi").await.expect("a stream");
    let mut words = String::new();
    while let Some(event) = events.next().await.transpose().expect("an event") {
        if let StreamResponse::ArtifactUpdate(update) = event.payload().expect("it can be read") {
            words.extend(update.artifact.parts.iter().filter_map(|part| part.as_text()));
        }
    }
    assert_eq!(words, "Hello wörld");
    endpoint.asked(0, |asked| {
        assert_eq!(asked.path, "/v1/chat/completions");
        assert_eq!(asked.authorization, "Bearer sk-123");
        let body = &asked.body;
        assert_eq!((&body["model"], &body["stream"]), (&json!("small"), &json!(true)));
        assert_eq!(body["stream_options"]["include_usage"], true);
        assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief, you secret agent."}));
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "hi"}));
    });
    let card = serde_json::to_string(&*client.card().await.expect("a card")).expect("JSON");
    assert!(card.contains(r#""model":"small""#) && !card.contains("secret agent"), "{card}");
    assert!(!gateway.log().contains("sk-123"), "{}", gateway.log());
}

/// However fast the next word follows: what waits for a pause would show all of these at once, in less than 8 KiB. A thousand words 2 ms
/// apart take two seconds at least, so 20 pieces of them are one every 100 ms at the latest.
#[tokio::test]
async fn words_are_shown_while_more_of_them_come() {
    for every in [2, 15, 30] {
        let endpoint = Endpoint::start(vec![Reply::Drips(every, 1000)]).await;
        let gateway = Gateway::start(&model(&endpoint, ""));
        let client = gateway.client("it").await;
        assert_eq!(pieces_of(&client, 20).await, 20, "a word every {every} ms");
    }
}

#[tokio::test]
async fn what_came_before_a_break_is_shown_and_charged() {
    let endpoint = Endpoint::start(vec![Reply::BreaksOff(&["one ", "two ", "three"])]).await;
    let gateway = Gateway::start(&model(&endpoint, "price_per_1k_output_tokens = 1.0"));
    let task = ask(&gateway.client("it").await, "count").await;
    assert_eq!((task.status.state, said(&task).as_str()), (TaskState::Failed, "one two three"));
    assert_eq!(usage(&task).0.output_tokens, 3);
}

#[tokio::test]
async fn an_answer_that_comes_as_a_whole_is_taken_too() {
    let endpoint = Endpoint::start(vec![Reply::SaysAtOnce("All at once", 7, 3)]).await;
    let gateway = Gateway::start(&model(&endpoint, ""));
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!((said(&task).as_str(), task.status.state), ("All at once", TaskState::Completed));
    assert_eq!(usage(&task).0.tokens(), 10);
}

#[tokio::test]
async fn tokens_are_charged_as_the_endpoint_counts_them_and_not_as_they_were_set_aside() {
    let endpoint = Endpoint::start(vec![Reply::Says(&["ok"], 2000, 500)]).await;
    let prices =
        "price_per_1k_input_tokens = 0.001\nprice_per_1k_output_tokens = 0.004\nmax_output_tokens = 100000";
    let gateway = Gateway::start(&model(&endpoint, prices));
    let (usage, source) = usage(&ask(&gateway.client("it").await, "hi").await);
    assert_eq!(usage, Usage { input_tokens: 2000, output_tokens: 500, cost_micro_usd: 4000 });
    assert_eq!(source, "metered");
}

#[tokio::test]
async fn a_budget_shortens_the_answer_or_forbids_the_question() {
    let endpoint = Endpoint::start(vec![Reply::Says(&["ok"], 10, 1)]).await;
    let config =
        format!("[policy.default]\nmax_tokens = 2500\n{}", model(&endpoint, "max_output_tokens = 10000"));
    let gateway = Gateway::start(&config);
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!(task.status.state, TaskState::Completed, "{}", status(&task));
    let allowed = endpoint.asked(0, |asked| asked.body["max_tokens"].as_u64().expect("a number"));
    assert!((1000..2500).contains(&allowed), "{allowed}");
    let dear = model(&endpoint, "price_per_1k_output_tokens = 100");
    let config = format!("[policy.default]\nmax_cost_usd = 0.05\n{dear}");
    let gateway = Gateway::start(&config);
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(status(&task).contains("budget"), "{}", status(&task));
    assert_eq!(endpoint.times(), 1, "it was not asked");
}

#[tokio::test]
async fn what_was_said_before_in_the_conversation_is_told_again_within_a_bound() {
    let replies =
        vec![Reply::Says(&["one"], 1, 1), Reply::Says(&["two"], 1, 1), Reply::Says(&["three"], 1, 1)];
    let endpoint = Endpoint::start(replies).await;
    let gateway = Gateway::start(&model(&endpoint, "max_history_messages = 3"));
    let client = gateway.client("it").await;
    let context = ask(&client, "first").await.context_id.expect("a context");
    for what in ["second", "third"] {
        send(&client, Message::user(what).in_context(context.clone())).await;
    }
    let told = |place| endpoint.asked(place, |asked| asked.body["messages"].clone());
    let contents = |place| -> Vec<Value> {
        told(place).as_array().expect("a list").iter().map(|said| said["content"].clone()).collect()
    };
    assert_eq!(contents(1), ["first", "one", "second"]);
    assert_eq!(told(1)[1]["role"], "assistant");
    assert_eq!(contents(2), ["one", "second", "two", "third"], "the oldest is left out");
    ask(&client, "elsewhere").await;
    assert_eq!(contents(3), ["elsewhere"], "another conversation is another");
}

#[tokio::test]
async fn an_endpoint_that_is_busy_is_asked_again_when_it_says() {
    let replies =
        vec![Reply::Busy(429, Some("0")), Reply::Busy(503, Some("0")), Reply::Says(&["at last"], 1, 1)];
    let endpoint = Endpoint::start(replies).await;
    let gateway = Gateway::start(&model(&endpoint, ""));
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!((said(&task).as_str(), endpoint.times()), ("at last", 3));
}

#[tokio::test]
async fn an_endpoint_that_stays_busy_is_given_up_clearly() {
    let endpoint = Endpoint::start(vec![Reply::Busy(429, Some("0"))]).await;
    let gateway = Gateway::start(&model(&endpoint, "max_retries = 2"));
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!(status(&task), "The model is asked too often (429); try again in 1 s");
    assert_eq!(endpoint.times(), 3);
    let log = gateway.log();
    assert!(log.contains("the endpoint gives ") && !log.contains("the inside of the endpoint"), "{log}");
    let endpoint = Endpoint::start(vec![Reply::Busy(429, Some("3600"))]).await;
    let gateway = Gateway::start(&model(&endpoint, ""));
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!(status(&task), "The model is asked too often (429); try again in 3600 s");
    assert_eq!(endpoint.times(), 1, "an hour is not waited");
}

#[tokio::test]
async fn whatever_else_an_endpoint_answers_the_caller_gets_a_clear_failure() {
    let cases = [
        (Reply::Strange(401, "wrong key sk-9"), "The model does not take the request (401)"),
        (Reply::Strange(200, "<html>"), "The answer of the model cannot be read"),
        (Reply::Strange(200, r#"{"error":{"message":"inside"}}"#), "The model failed"),
        (Reply::BreaksOff(&["half"]), "The answer of the model broke off"),
    ];
    for (reply, expected) in cases {
        let endpoint = Endpoint::start(vec![reply]).await;
        let gateway = Gateway::start(&model(&endpoint, ""));
        let task = ask(&gateway.client("it").await, "hi").await;
        assert_eq!((status(&task).as_str(), task.status.state), (expected, TaskState::Failed));
        assert_eq!(endpoint.times(), 1, "{expected}");
    }
    let endpoint = Endpoint::start(vec![Reply::CutOff(&["lo", "ng"])]).await;
    let gateway = Gateway::start(&model(&endpoint, "max_output_tokens = 2"));
    let task = ask(&gateway.client("it").await, "hi").await;
    assert_eq!((said(&task).as_str(), task.status.state), ("long", TaskState::Completed));
    assert_eq!(status(&task), "The answer was cut off after 2 tokens");
}

/// Of an answer of ten tokens, which are a cent each, and next to nothing is asked for what is read.
const PRICED: &str = "price_per_1k_output_tokens = 10.0\nprice_per_1k_input_tokens = 0.000001\nmax_output_tokens = 10\nmax_retries = 0";
const BUDGET: &str = "[budget.caller]\nmax_usd_per_day = 1.0\n";

#[tokio::test]
async fn where_nobody_knows_what_an_endpoint_did_what_was_held_is_charged() {
    let cases = [
        (Reply::BreaksOff(&[]), 100_000, "held"),
        (Reply::Busy(500, None), 100_000, "held"),
        (Reply::Strange(200, "<html>"), 100_000, "held"),
        (Reply::BreaksOff(&["half"]), 10_000, "metered"),
        // It was turned away.
        (Reply::Busy(429, None), 0, "declared"),
        (Reply::Strange(401, "wrong key"), 0, "declared"),
    ];
    for (reply, expected, source) in cases {
        let endpoint = Endpoint::start(vec![reply]).await;
        let gateway = Gateway::start(&format!("{BUDGET}{}", model(&endpoint, PRICED)));
        let task = ask(&gateway.client("it").await, "hi").await;
        let (used, from) = usage(&task);
        let charged = used.cost_micro_usd / 1_000 * 1_000;
        assert_eq!((charged, from.as_str(), endpoint.times()), (expected, source, 1), "{task:?}");
    }
}

#[tokio::test]
async fn what_is_held_for_an_answer_outlives_a_kill() {
    let endpoint = Endpoint::start(vec![Reply::Hangs(&[])]).await;
    let mut gateway = Gateway::start(&format!("{BUDGET}{}", model(&endpoint, PRICED)));
    let client = gateway.client("it").await;
    let asking = tokio::spawn(async move { client.send(Message::user("hi")).await });
    while endpoint.times() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gateway.kill();
    gateway.restart();
    let _ = asking.await;
    let rows = gateway.run(&["spend", "export"]);
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let charged =
        rows.headers().expect("a head").iter().position(|name| name == "charged_usd").expect("it is there");
    let row = rows.records().next().expect("a call").expect("a row");
    assert!(row[charged].starts_with("0.10"), "{row:?}");
}

#[tokio::test]
async fn a_cancel_hangs_up_and_charges_what_was_shown() {
    let endpoint = Endpoint::start(vec![Reply::Hangs(&["a", "b", "c"])]).await;
    let gateway = Gateway::start(&model(&endpoint, "price_per_1k_output_tokens = 1.0"));
    let client = gateway.client("it").await;
    let mut events = client.stream("hi").await.expect("a stream");
    let (mut id, mut words) = (None, String::new());
    while words != "abc" {
        let event = events.next().await.expect("it goes on").expect("an event");
        match event.payload().expect("it can be read") {
            StreamResponse::Task(task) => id = Some(task.id.clone()),
            StreamResponse::ArtifactUpdate(update) => {
                words.extend(update.artifact.parts.iter().filter_map(|part| part.as_text()));
            }
            _ => {}
        }
    }
    assert_eq!(endpoint.open(), 1);
    let task = client.cancel(id.expect("a task")).await.expect("it is canceled");
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!(usage(&task).0.output_tokens, 3);
    while endpoint.open() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
