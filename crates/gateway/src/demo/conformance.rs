//! The agent that the public conformance kits talk to.
//!
//! The kits choose a behaviour by the prefix of the message id (TCK) or of the text (ACTS). One agent serves
//! both: the id is looked at first. `tck-echo` is in no kit: it is what other SDKs are asked for in `interop/`.

use std::time::Duration;

use chancery_sdk::{Agent, AgentSkill, AgentSpec, Artifact, Failure, Json, Message, Outcome, Part, Turn};

struct Conformance;

pub(super) fn spec() -> AgentSpec {
    AgentSpec::new("conformance", Conformance)
        .description("Does what the public conformance kits expect of an agent")
        .provider("Chancery", "https://chancery.example")
        .input_modes(["text/plain", "application/json", "application/octet-stream"])
        .output_modes(["text/plain", "application/json", "application/octet-stream"])
        .skill(AgentSkill::new("conformance", "Conformance", "Behaves as a kit's message asks").tag("test"))
}

/// What a message asks for, by its prefix. The longer of two prefixes comes first.
const BEHAVIOURS: [(&str, Behaviour); 24] = [
    ("tck-complete-task", Behaviour::Say("Hello from TCK")),
    ("tck-input-required", Behaviour::Ask),
    ("tck-auth-required", Behaviour::AskForAuth),
    ("tck-artifact-text", Behaviour::Text("Generated text content")),
    ("tck-artifact-file-url", Behaviour::FileUrl),
    ("tck-artifact-file", Behaviour::File),
    ("tck-artifact-data", Behaviour::Data),
    ("tck-message-response", Behaviour::Direct),
    ("tck-reject-task", Behaviour::Reject),
    ("tck-task-failure", Behaviour::Fail),
    ("tck-multi-turn", Behaviour::UntilDone),
    ("tck-cancel", Behaviour::UntilCanceled),
    ("tck-long-running", Behaviour::Wait(Duration::from_secs(1))),
    ("tck-stream-001", Behaviour::WorkText("Stream hello from TCK")),
    ("tck-stream-002", Behaviour::Nothing),
    ("tck-stream-003", Behaviour::WorkText("Stream task lifecycle")),
    ("tck-stream-ordering-001", Behaviour::WorkText("Ordered output")),
    ("tck-stream-artifact-text", Behaviour::WorkText("Streamed text content")),
    ("tck-stream-artifact-file", Behaviour::WorkFile),
    ("tck-stream-artifact-chunked", Behaviour::Chunks),
    ("tck-stream-chunked", Behaviour::Chunks),
    ("tck-stream-basic", Behaviour::WorkText("Stream hello from TCK")),
    ("tck-echo", Behaviour::Echo),
    ("test-resubscribe-message-id", Behaviour::Wait(Duration::from_secs(8))),
];

#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Say(&'static str),
    Ask,
    AskForAuth,
    Text(&'static str),
    FileUrl,
    File,
    Data,
    Direct,
    Reject,
    Fail,
    UntilDone,
    UntilCanceled,
    Wait(Duration),
    WorkText(&'static str),
    WorkFile,
    Chunks,
    Echo,
    Nothing,
}

/// What a message asks for, if it asks for anything.
fn asked(message: &Message) -> Option<Behaviour> {
    let by_prefix = |text: &str| {
        BEHAVIOURS.iter().find(|(prefix, _)| text.starts_with(prefix)).map(|(_, behaviour)| *behaviour)
    };
    let first_text = message.parts.first().and_then(Part::as_text).unwrap_or_default();
    by_prefix(message.message_id.as_str()).or_else(|| by_prefix(first_text))
}

fn file() -> Part {
    Part::raw("Generated file content").named("output.txt").with_media_type("text/plain")
}

impl Agent for Conformance {
    fn opens_task(&self, message: &Message) -> bool {
        !matches!(asked(message), Some(Behaviour::Direct))
    }

    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        // A follow-up that asks for nothing goes on with what its task began.
        let begun = || turn.history().first().and_then(asked);
        let outcome = match asked(turn.message()).or_else(begun).unwrap_or(Behaviour::Nothing) {
            Behaviour::Say(text) => Outcome::completed().saying(text),
            Behaviour::Ask => turn.ask("Please say more"),
            Behaviour::AskForAuth if turn.task().is_some() => Outcome::completed().saying("Thank you"),
            Behaviour::AskForAuth => turn.ask_for_auth("Please sign in"),
            Behaviour::Text(text) => Outcome::text(text),
            Behaviour::FileUrl => Outcome::part(
                Part::url("https://example.com/output.txt").named("output.txt").with_media_type("text/plain"),
            ),
            Behaviour::File => Outcome::part(file()),
            Behaviour::Data => Outcome::part(Part::data(Json::parse(r#"{"key":"value","count":42}"#)?)),
            Behaviour::Direct => Outcome::reply("Direct message response"),
            Behaviour::Reject => Outcome::rejected("This task is rejected"),
            Behaviour::Fail => Outcome::failed("This task fails, as asked"),
            Behaviour::UntilDone if turn.text() == "done" => Outcome::completed().saying("Done"),
            Behaviour::UntilDone => turn.ask("Say `done` when you are"),
            Behaviour::UntilCanceled => {
                turn.working("Until canceled").await?;
                std::future::pending().await
            }
            Behaviour::Wait(time) => {
                turn.working("Taking a while").await?;
                tokio::time::sleep(time).await;
                Outcome::completed()
            }
            Behaviour::WorkText(text) => {
                turn.working("Working").await?;
                turn.artifact(Artifact::new("result", vec![Part::text(text)])).await?;
                Outcome::completed()
            }
            Behaviour::WorkFile => {
                turn.working("Working").await?;
                turn.artifact(Artifact::new("result", vec![file()])).await?;
                Outcome::completed()
            }
            Behaviour::Chunks => {
                turn.working("Working").await?;
                let mut artifact = turn.begin_artifact("chunks");
                artifact.append("chunk-1 ").await?;
                artifact.finish("chunk-2").await?;
                Outcome::completed()
            }
            Behaviour::Echo => {
                turn.artifact(Artifact::new("echo", turn.message().parts.clone())).await?;
                Outcome::completed()
            }
            Behaviour::Nothing => Outcome::completed().saying("Done"),
        };
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_prefix_hides_a_longer_one() {
        for (index, (longer, _)) in BEHAVIOURS.iter().enumerate() {
            let hidden = BEHAVIOURS[..index].iter().any(|(earlier, _)| longer.starts_with(earlier));
            assert!(!hidden, "{longer}");
        }
    }
}
