//! An agent that does what it is told, and what a client of v0.1 says to it.

use chancery_sdk::{Agent, AgentSpec, Artifact, Failure, Json, Message, Outcome, Part, Turn};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Counter, Site};

/// Says what it is told, unless that is the name of something else that it does. Counts its turns.
struct Obedient(Counter);

impl Agent for Obedient {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        self.0.add();
        match &*turn.text() {
            "direct" => Ok(Outcome::reply("straight")),
            "ask" => Ok(turn.ask("which one?")),
            "refuse" => Ok(Outcome::rejected("not today")),
            "login" => Ok(Outcome::auth_required("who are you?")),
            "wait" => {
                turn.working("going on").await?;
                std::future::pending().await
            }
            "chunks" => {
                let mut first = turn.begin_artifact("first");
                first.append("one ").await?;
                let mut second = turn.begin_artifact("second");
                second.append("other").await?;
                first.finish("two").await?;
                Ok(Outcome::completed())
            }
            "chunk, then wait" => {
                turn.begin_artifact("first").append("one").await?;
                turn.working("going on").await?;
                std::future::pending().await
            }
            "parts" => Ok(Outcome::artifact(Artifact::new("parts", every_part()))),
            text => Ok(Outcome::text(text)),
        }
    }

    fn opens_task(&self, message: &Message) -> bool {
        message.text() != "direct"
    }
}

pub(crate) fn obedient() -> AgentSpec {
    counted().0
}

pub(crate) fn counted() -> (AgentSpec, Counter) {
    let turns = Counter::default();
    (AgentSpec::new("tester", Obedient(turns.clone())), turns)
}

/// A part of every kind.
pub(crate) fn every_part() -> Vec<Part> {
    vec![
        Part::text("hi"),
        Part::raw(&b"\x00\xffabc"[..]).named("a.bin").with_media_type("application/octet-stream"),
        Part::url("https://a.example/x").with_media_type("image/png"),
        Part::data(Json::parse(r#"{"b":1.50,"a":12345678901234567890}"#).unwrap()),
        Part::data(Json::parse("[1,2]").unwrap()),
    ]
}

/// What every part is in v0.1.
pub(crate) fn every_old_part() -> Value {
    json!([
        {"type": "text", "text": "hi"},
        {"type": "file", "file": {"name": "a.bin", "mimeType": "application/octet-stream", "bytes": "AP9hYmM="}},
        {"type": "file", "file": {"mimeType": "image/png", "uri": "https://a.example/x"}},
        {"type": "data", "data": {"b": 1.50, "a": 12_345_678_901_234_567_890_u64}},
        {"type": "data", "data": {"value": [1, 2]}, "metadata": {"data_part_compat": true}},
    ])
}

/// The parameters of a message.
pub(crate) fn say(id: &str, text: &str) -> Value {
    json!({"id": id, "message": {"role": "user", "parts": [{"type": "text", "text": text}]}})
}

/// A client that knows no other version.
pub(crate) fn old(site: &Site) -> Client {
    site.jsonrpc().without("a2a-version")
}

pub(crate) fn code(answer: &Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer:?}"))
}

pub(crate) async fn send(client: &Client, id: &str, text: &str) -> Value {
    client.call("tasks/send", say(id, text)).await.result()
}

pub(crate) async fn get(client: &Client, id: &str) -> Value {
    client.call("tasks/get", json!({"id": id})).await.result()
}
