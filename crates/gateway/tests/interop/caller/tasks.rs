//! The scenarios about tasks: everything but notifications.

use chancery_sdk::protocol::{
    ListTasksRequest, SendMessageConfiguration, SendMessageResponse, StreamResponse,
};
use chancery_sdk::{Content, ErrorCode, Event, Json, Message, Part, Role, TaskState};
use futures_util::TryStreamExt as _;
use serde_json::Value;

use super::{
    Caller, Complaint, Step, UNKNOWN_TASK, configured, expect, expect_equal, expect_refusal, expect_state,
    reply, saying,
};
use crate::wire::Version;

/// What is sent to be echoed.
const GREETING: &str = "tck-echo Grüße, 世界 🦀";
const DATA: &str = r#"{"key":"välue","count":42,"nested":{"list":[1,2.5,true,"x"]}}"#;

impl Caller {
    pub(super) async fn card(&self) -> Step {
        let card = self.client.card().await?;
        let wanted = (self.wire.binding.as_str(), self.wire.version.as_str());
        let interfaces = card.supported_interfaces.iter();
        let named: Vec<_> =
            interfaces.map(|one| (one.protocol_binding.as_str(), one.protocol_version.as_str())).collect();
        expect(named.contains(&wanted), format!("the card names {named:?}"))?;
        expect(!card.name.is_empty() && !card.skills.is_empty(), "the card has no name or no skill")?;
        expect_equal("streaming", card.capabilities.streaming, Some(true))?;
        expect_equal("push notifications", card.capabilities.push_notifications, Some(true))
    }

    pub(super) async fn send(&self) -> Step {
        let bytes: Vec<u8> = (0..=255).collect();
        let parts = vec![
            Part::text(GREETING),
            Part::raw(bytes.clone()).named("bytes.bin").with_media_type("application/octet-stream"),
            Part::data(Json::parse(DATA)?),
        ];
        let task = self.task(Message::new(Role::User, parts).into()).await?;
        expect_state(&task, TaskState::Completed)?;
        let [artifact] = &task.artifacts[..] else {
            return Err(Complaint(format!("{} artifacts", task.artifacts.len())));
        };
        let [text, file, data] = &artifact.parts[..] else {
            return Err(Complaint(format!("{} parts", artifact.parts.len())));
        };
        expect_equal("text", text.as_text(), Some(GREETING))?;
        expect(matches!(&file.content, Content::Raw(raw) if *raw == bytes), format!("the file is {file:?}"))?;
        expect_equal("file name", file.filename.as_deref(), Some("bytes.bin"))?;
        let Content::Data(data) = &data.content else {
            return Err(Complaint(format!("the data is {data:?}")));
        };
        let (echoed, sent): (Value, Value) = (data.to_value()?, serde_json::from_str(DATA)?);
        expect(same(&echoed, &sent), format!("the data is {echoed}"))
    }

    pub(super) async fn message(&self) -> Step {
        match self.client.send("tck-message-response").await? {
            SendMessageResponse::Message(message) => {
                expect_equal("message", &*message.text(), "Direct message response")?;
                expect_equal("role", message.role, Role::Agent)
            }
            SendMessageResponse::Task(task) => Err(Complaint(format!("no message but {task:?}"))),
        }
    }

    pub(super) async fn stream(&self) -> Step {
        let events: Vec<Event> = self.client.stream("tck-stream-chunked").await?.try_collect().await?;
        let mut chunks = Vec::new();
        let mut states = Vec::new();
        for (index, event) in events.iter().enumerate() {
            match event.payload()? {
                StreamResponse::Task(task) => states.push(task.status.state),
                other if index == 0 => return Err(Complaint(format!("the first event is {other:?}"))),
                StreamResponse::StatusUpdate(update) => states.push(update.status.state),
                StreamResponse::ArtifactUpdate(update) => {
                    let texts = update.artifact.parts.iter().filter_map(Part::as_text);
                    chunks.push((texts.collect::<String>(), update.append));
                }
                StreamResponse::Message(message) => return Err(Complaint(format!("a message: {message:?}"))),
            }
        }
        expect_equal("chunks", chunks, vec![("chunk-1 ".to_owned(), false), ("chunk-2".to_owned(), true)])?;
        expect(states.contains(&TaskState::Working), format!("never working: {states:?}"))?;
        expect_equal("last state", states.last(), Some(&TaskState::Completed))
    }

    pub(super) async fn input_required(&self) -> Step {
        let asked = self.task(saying("tck-multi-turn")).await?;
        expect_state(&asked, TaskState::InputRequired)?;
        let again = self.task(reply(&asked, "more")).await?;
        expect_state(&again, TaskState::InputRequired)?;
        let done = self.task(reply(&asked, "done")).await?;
        expect_state(&done, TaskState::Completed)?;
        expect_equal("ids", (done.id, done.context_id), (asked.id, asked.context_id))
    }

    pub(super) async fn cancel(&self) -> Step {
        let at_once = SendMessageConfiguration { return_immediately: true, ..Default::default() };
        let task = self.task(configured(saying("tck-cancel"), at_once)).await?;
        expect(!task.status.state.is_terminal(), format!("already {:?}", task.status.state))?;
        expect_state(&self.client.cancel(task.id.clone()).await?, TaskState::Canceled)?;
        expect_state(&self.client.get(task.id).await?, TaskState::Canceled)
    }

    pub(super) async fn get(&self) -> Step {
        let sent = self.task(saying("tck-echo to be got")).await?;
        let got = self.client.get(sent.id).await?;
        expect_state(&got, TaskState::Completed)?;
        let echoed =
            got.artifacts.first().and_then(|artifact| artifact.parts.first()).and_then(Part::as_text);
        expect_equal("artifact", echoed, Some("tck-echo to be got"))
    }

    pub(super) async fn list(&self) -> Step {
        let first = self.task(saying("tck-echo one")).await?;
        let context = first.context_id.clone().ok_or_else(|| Complaint("no context".into()))?;
        let second = self.task(Message::user("tck-echo two").in_context(context.clone()).into()).await?;
        expect_equal("context", second.context_id.as_ref(), Some(&context))?;
        let mut ids = Vec::new();
        let mut page_token = String::new();
        for _ in 0..2 {
            let filter = ListTasksRequest { context_id: Some(context.clone()), page_token, ..page_of_one() };
            let page = self.client.list(filter).await?;
            expect_equal("total", page.total_size, 2)?;
            ids.extend(page.tasks.into_iter().map(|task| task.id));
            page_token = page.next_page_token;
        }
        expect_equal("listed", ids, vec![second.id, first.id])?;
        expect_equal("token of a third page", page_token.as_str(), "")
    }

    pub(super) async fn subscribe(&self) -> Step {
        let mut events = self.client.stream("tck-long-running").await?;
        let first = events.try_next().await?.ok_or_else(|| Complaint("no event".into()))?;
        let StreamResponse::Task(task) = first.payload()? else {
            return Err(Complaint(format!("the first event is {first:?}")));
        };
        drop(events);
        let events: Vec<Event> = self.client.subscribe(task.id.clone()).await?.try_collect().await?;
        let payloads = events.iter().map(Event::payload).collect::<Result<Vec<_>, _>>()?;
        match payloads.first() {
            Some(StreamResponse::Task(again)) => expect_equal("task", &again.id, &task.id)?,
            // Before v1.0 nothing was said about how a task stands.
            Some(StreamResponse::StatusUpdate(update)) if self.wire.version != Version::V1_0 => {
                expect_equal("task", &update.task_id, &task.id)?;
            }
            other => return Err(Complaint(format!("the first event is {other:?}"))),
        }
        let last = payloads.last().and_then(|payload| match payload {
            StreamResponse::Task(task) => Some(task.status.state),
            StreamResponse::StatusUpdate(update) => Some(update.status.state),
            _ => None,
        });
        expect_equal("last state", last, Some(TaskState::Completed))
    }

    pub(super) async fn errors(&self) -> Step {
        expect_refusal(self.client.get(UNKNOWN_TASK).await, ErrorCode::TaskNotFound)?;
        expect_refusal(self.client.cancel(UNKNOWN_TASK).await, ErrorCode::TaskNotFound)?;
        let ended = self.task(saying("tck-echo to be ended")).await?;
        expect_refusal(self.client.cancel(ended.id.clone()).await, ErrorCode::TaskNotCancelable)
    }
}

fn page_of_one() -> ListTasksRequest {
    ListTasksRequest { page_size: Some(1), ..Default::default() }
}

/// Whether two values are the same, where `1` is `1.0`: gRPC knows no integers in JSON.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_both = |(key, value)| other.get(key).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(in_both)
        }
        _ => one == other,
    }
}
