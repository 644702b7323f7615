//! Peers of an older design, which keep their own data under `ruvector` in metadata.

use chancery_sdk::protocol::JsonObject;
use chancery_sdk::{AgentSpec, Artifact, Outcome, Part, Turn};
use serde_json::{Value, json};

use crate::agents::{get, old, say};
use crate::support::{agent, serve};

const LINEAGE: &str = "urn:chancery:ext:lineage:v1";
const ARTIFACT_KIND: &str = "urn:chancery:ext:artifact-kind:v1";

/// Puts what it is told about lineage into a typed artifact.
fn typed() -> AgentSpec {
    agent(|turn: Turn| async move {
        let metadata =
            turn.request_metadata().map(|metadata| metadata.as_str().to_owned()).unwrap_or_default();
        let mut artifact = Artifact::new("typed", vec![Part::text(metadata)]);
        let kind = json!({ARTIFACT_KIND: {"kind": "text", "version": "1"}});
        artifact.metadata = Some(JsonObject::parse(&kind.to_string())?);
        Ok(Outcome::artifact(artifact))
    })
}

/// What the agent was told.
fn told(task: &Value) -> Value {
    serde_json::from_str(task["artifacts"][0]["parts"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn such_a_peer_is_answered_in_its_own_words() {
    let site = serve(typed()).await;
    let client = old(&site);
    let context = json!({"trace_id": "t", "depth": 1, "root_agent_id": "a"});
    let mut params = say("mine", "hi");
    params["metadata"] = json!({"x": 1, "ruvector": {"context": context, "identity": {"id": "a"}}});
    let task = client.call("tasks/send", params).await.result();
    assert_eq!(told(&task), json!({"x": 1, "ruvector": {"identity": {"id": "a"}}, LINEAGE: context}));
    let kind = json!({"ruvector": {"artifact_kind": "text", "artifact_kind_version": "1"}});
    assert_eq!(task["artifacts"][0]["metadata"], kind);
    // Also when it comes back later.
    assert_eq!(get(&client, "mine").await["artifacts"][0]["metadata"], kind);
    let mut stream = client.open("tasks/resubscribe", json!({"id": "mine"})).await;
    assert_eq!(stream.one().await.payload()["artifact"]["metadata"], kind);
}

#[tokio::test]
async fn what_such_a_peer_says_beside_the_metadata_is_heard() {
    let site = serve(typed()).await;
    let client = old(&site);
    let context = json!({"trace_id": "t", "depth": 0, "root_agent_id": "a", "visited_agents": []});
    let mut params = say("mine", "hi");
    params["message"]["metadata"] = Value::Null;
    params["skill"] = json!("echo");
    params["context"] = context.clone();
    params["metadata"] = Value::Null;
    let mut stream = client.open("tasks/sendSubscribe", params).await;
    let events: Vec<_> = stream.rest().await.iter().map(|event| event.payload()).collect();
    let artifact = events.iter().find_map(|event| event.get("artifact")).unwrap();
    assert_eq!(artifact["metadata"]["ruvector"]["artifact_kind"], "text");
    let told = told(&json!({"artifacts": [artifact]}));
    assert_eq!(told, json!({"ruvector": {}, LINEAGE: context, "urn:chancery:ext:skill:v1": "echo"}));
}

#[tokio::test]
async fn nobody_else_hears_those_words() {
    let site = serve(typed()).await;
    let client = old(&site);
    let mut params = say("mine", "hi");
    params["metadata"] = json!({"x": 1});
    let task = client.call("tasks/send", params).await.result();
    assert_eq!(told(&task), json!({"x": 1}));
    assert_eq!(task["artifacts"][0]["metadata"], json!({ARTIFACT_KIND: {"kind": "text", "version": "1"}}));
}
