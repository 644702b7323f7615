//! An agent that does what it is told.

use chancery_sdk::{Agent, AgentSpec, Artifact, Failure, Json, Message, Outcome, Part, Turn};
use serde_json::{Value, json};

/// Says what it is told, unless that is the name of something else that it does.
struct Obedient;

impl Agent for Obedient {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        match &*turn.text() {
            "direct" => Ok(Outcome::reply("straight")),
            "ask" => Ok(turn.ask("which one?")),
            "wait" => {
                turn.working("going on").await?;
                std::future::pending().await
            }
            "chunks" => {
                let mut chunks = turn.begin_artifact("chunks");
                chunks.append("one ").await?;
                chunks.finish("two").await?;
                Ok(Outcome::completed())
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
    AgentSpec::new("tester", Obedient)
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

/// What a client of v0.3 says, over JSON-RPC.
pub(crate) fn message(text: &str) -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": text}]})
}

/// The same for a task.
pub(crate) fn follow_up(task: &str, text: &str) -> Value {
    let mut message = message(text);
    message["taskId"] = json!(task);
    message
}
