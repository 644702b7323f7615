//! The agents of the play: each does what its message says.

use std::time::Duration;

use chancery_sdk::protocol::AgentExtension;
use chancery_sdk::{
    Agent, AgentSkill, AgentSpec, Artifact, Failure, Json, JsonObject, Message, Outcome, Part, Turn, Usage,
};
use tokio::sync::Semaphore;

/// An extension that a client has to know of.
pub(crate) const REQUIRED: &str = "urn:example:required";

/// What an actor waits for that is told to.
pub(crate) static GO: Semaphore = Semaphore::const_new(0);

struct Actor;

impl Agent for Actor {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let text = turn.text().into_owned();
        match &*text {
            "reply" => Ok(Outcome::reply("just so")),
            "artifacts" => artifacts(&turn).await,
            "stream" => stream(&turn).await,
            "stream when told" => {
                GO.acquire().await?.forget();
                stream(&turn).await
            }
            "reply late" => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(Outcome::reply("just so, at last"))
            }
            "ask" => {
                turn.set_state(&"asked")?;
                turn.working("thinking").await?;
                Ok(turn.ask("which one?"))
            }
            "auth" => Ok(turn.ask_for_auth("log in somewhere")),
            "wait" => {
                turn.working("on it").await?;
                std::future::pending().await
            }
            "usage" => {
                turn.usage(Usage { input_tokens: 10, output_tokens: 20, cost_micro_usd: 30 });
                Ok(Outcome::text("cheap"))
            }
            "reject" => Ok(Outcome::rejected("not that")),
            "fail" => Ok(Outcome::failed("it broke")),
            "error" => Err(Failure::from(std::io::Error::other("a secret"))),
            "panic" => panic!("the actor trips"),
            _ => {
                let before = turn.history().len();
                let state: Option<String> = turn.state()?;
                Ok(Outcome::text(format!("{text} ({before} before, {state:?})")))
            }
        }
    }

    fn opens_task(&self, message: &Message) -> bool {
        !message.text().starts_with("reply")
    }
}

async fn artifacts(turn: &Turn) -> Result<Outcome, Failure> {
    let data = Json::parse(r#"{"b":1.50,"a":[9007199254740993,"\u00e9"],"timestamp":"x"}"#)?;
    let parts =
        vec![Part::text("héllo \"quoted\" \n line"), Part::data(data), Part::raw(vec![0, 1, 254, 255])];
    let mut artifact = Artifact::new("all", parts);
    artifact.name = "All of it".to_owned();
    artifact.description = "every sort of part".to_owned();
    artifact.metadata = JsonObject::parse(r#"{"z":1,"a":{"k":[null,true]}}"#).ok();
    turn.artifact(artifact).await?;
    turn.artifact(Artifact::new("second", vec![Part::url("https://files.example/x.png")])).await?;
    Ok(Outcome::completed().saying("there they are"))
}

async fn stream(turn: &Turn) -> Result<Outcome, Failure> {
    turn.working("beginning").await?;
    tokio::task::yield_now().await;
    let mut writer = turn.begin_artifact("story");
    for piece in ["once ", "upon ", "a ", "time"] {
        writer.append(Part::text(piece)).await?;
        tokio::task::yield_now().await;
    }
    writer.finish(Part::text(".")).await?;
    turn.working("nearly there").await?;
    Ok(Outcome::text("done").saying("the end"))
}

/// All of them. `strict` has an extension that is required, `hasty` little time.
pub(crate) fn specs() -> Vec<AgentSpec> {
    let skill = || AgentSkill::new("act", "Act", "Does what it is told").tag("test");
    let spec = |name: &str| {
        AgentSpec::new(name, Actor)
            .skill(skill())
            .input_modes(["text/plain", "application/json"])
            .output_modes(["text/plain"])
    };
    let required =
        AgentExtension { uri: REQUIRED.to_owned(), description: String::new(), required: true, params: None };
    vec![spec("actor"), spec("strict").extension(required), spec("hasty")]
}
