//! The client of rvagent-a2a against an agent that behaves as README.md says, over v0.1.
//!
//! What it can do is send, get and cancel. It names its tasks itself, as v0.1 has it.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use interop_harness::{GREETING, UNKNOWN_TASK, arguments, data, expect_equal, file_bytes, run, same};
use rvagent_a2a::client::A2aClient;
use rvagent_a2a::context::TaskContext;
use rvagent_a2a::identity::AgentID;
use rvagent_a2a::types::{AgentCard, FileContent, Message, Part, Role, Task, TaskSpec, TaskState};
use serde_json::Value;

/// Their client of one agent.
struct Scenarios {
    client: A2aClient,
    url: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = arguments()?;
    let scenarios = Scenarios { client: A2aClient::new()?, url: given.url };
    run("card", scenarios.card()).await;
    run("send", scenarios.send()).await;
    run("input-required", scenarios.input_required()).await;
    run("cancel", scenarios.cancel()).await;
    run("get", scenarios.get()).await;
    run("errors", scenarios.errors()).await;
    Ok(())
}

fn task_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn expect_state(task: &Task, wanted: TaskState) -> anyhow::Result<()> {
    expect_equal("state", task.status.state, wanted)
}

fn text_of(task: &Task) -> Option<&str> {
    match task.artifacts.first()?.parts.first()? {
        Part::Text { text } => Some(text),
        _ => None,
    }
}

impl Scenarios {
    async fn fetch_card(&self) -> anyhow::Result<AgentCard> {
        Ok(self.client.fetch_card(&self.url).await?)
    }

    /// Says something in a task, which this may be the first of.
    async fn say(&self, id: &str, parts: Vec<Part>) -> anyhow::Result<Task> {
        let spec = TaskSpec {
            id: id.to_owned(),
            skill: "conformance".into(),
            message: Message { role: Role::User, parts, metadata: Value::Null },
            policy: None,
            context: TaskContext::new_root(AgentID("0".repeat(64))),
            metadata: Value::Null,
        };
        Ok(self.client.send_task(&self.url, spec).await?)
    }

    async fn say_text(&self, id: &str, text: &str) -> anyhow::Result<Task> {
        self.say(id, vec![Part::Text { text: text.to_owned() }]).await
    }

    async fn card(&self) -> anyhow::Result<()> {
        let card = self.fetch_card().await?;
        ensure!(!card.name.is_empty() && !card.skills.is_empty(), "the card has no name or no skill");
        expect_equal("streaming", card.capabilities.streaming, true)?;
        expect_equal("push notifications", card.capabilities.push_notifications, true)
    }

    async fn send(&self) -> anyhow::Result<()> {
        let file = FileContent {
            name: Some("bytes.bin".into()),
            mime_type: Some("application/octet-stream".into()),
            bytes: Some(STANDARD.encode(file_bytes())),
            uri: None,
        };
        let parts = vec![
            Part::Text { text: GREETING.into() },
            Part::File { file: file.clone() },
            Part::Data { data: data() },
        ];
        let id = task_id();
        let task = self.say(&id, parts).await?;
        expect_equal("id", &task.id, &id)?;
        expect_state(&task, TaskState::Completed)?;
        let artifact = task.artifacts.first().context("no artifact")?;
        match &artifact.parts[..] {
            [Part::Text { text }, Part::File { file: echoed }, Part::Data { data: other }] => {
                expect_equal("text", text.as_str(), GREETING)?;
                expect_equal("file", echoed, &file)?;
                ensure!(same(other, &data()), "the data is {other}");
                Ok(())
            }
            other => bail!("the parts are {other:?}"),
        }
    }

    async fn input_required(&self) -> anyhow::Result<()> {
        let id = task_id();
        expect_state(&self.say_text(&id, "tck-multi-turn").await?, TaskState::InputRequired)?;
        expect_state(&self.say_text(&id, "more").await?, TaskState::InputRequired)?;
        let done = self.say_text(&id, "done").await?;
        expect_state(&done, TaskState::Completed)?;
        expect_equal("id", done.id, id)
    }

    async fn cancel(&self) -> anyhow::Result<()> {
        let id = task_id();
        // Sending waits for the outcome, so what is to be canceled is sent on the side.
        let canceling = async {
            while self.client.get_task(&self.url, &id).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(self.client.cancel_task(&self.url, &id).await?)
        };
        let (sent, canceled) = tokio::join!(self.say_text(&id, "tck-cancel"), canceling);
        canceled?;
        ensure!(sent?.status.state != TaskState::Completed, "completed");
        expect_state(&self.client.get_task(&self.url, &id).await?, TaskState::Canceled)
    }

    async fn get(&self) -> anyhow::Result<()> {
        let id = task_id();
        self.say_text(&id, "tck-echo to be got").await?;
        let got = self.client.get_task(&self.url, &id).await?;
        expect_equal("id", &got.id, &id)?;
        expect_state(&got, TaskState::Completed)?;
        expect_equal("artifact", text_of(&got), Some("tck-echo to be got"))
    }

    async fn errors(&self) -> anyhow::Result<()> {
        for answer in [
            self.client.get_task(&self.url, UNKNOWN_TASK).await.map(drop),
            self.client.cancel_task(&self.url, UNKNOWN_TASK).await,
        ] {
            let error = answer.err().context("an unknown task is not refused")?.to_string();
            ensure!(error.contains("code -32001"), "no -32001 but {error}");
        }
        let id = task_id();
        self.say_text(&id, "tck-echo to be ended").await?;
        let answer = self.client.cancel_task(&self.url, &id).await;
        let error = answer.err().context("a task that has ended is canceled")?.to_string();
        ensure!(error.contains("code -32002"), "no -32002 but {error}");
        Ok(())
    }
}
