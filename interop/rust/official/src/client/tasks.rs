//! The scenarios about tasks: everything but notifications.

use a2a::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, PartContent, Role,
    SendMessageConfiguration, SendMessageResponse, StreamResponse, SubscribeToTaskRequest, TaskState,
    error_code,
};
use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use interop_harness::{GREETING, UNKNOWN_TASK, data, expect_equal, file_bytes, same};

use crate::{Scenarios, expect_refusal, expect_state, reply, request, saying};

impl Scenarios {
    pub(crate) async fn card(&self) -> anyhow::Result<()> {
        let interfaces = self.card.supported_interfaces.iter();
        let named: Vec<_> = interfaces.map(|one| (&*one.protocol_binding, &*one.protocol_version)).collect();
        ensure!(named.contains(&(&self.binding, "1.0")), "the card names {named:?}");
        ensure!(
            !self.card.name.is_empty() && !self.card.skills.is_empty(),
            "the card has no name or no skill"
        );
        expect_equal("streaming", self.card.capabilities.streaming, Some(true))?;
        expect_equal("push notifications", self.card.capabilities.push_notifications, Some(true))
    }

    pub(crate) async fn send(&self) -> anyhow::Result<()> {
        let file =
            Part::raw(file_bytes()).with_filename("bytes.bin").with_media_type("application/octet-stream");
        let parts = vec![Part::text(GREETING), file, Part::data(data())];
        let task = self.task(Message::new(Role::User, parts), None).await?;
        expect_state(&task, TaskState::Completed)?;
        let artifacts = task.artifacts.unwrap_or_default();
        let [artifact] = &artifacts[..] else { bail!("{} artifacts", artifacts.len()) };
        let [text, file, data_part] = &artifact.parts[..] else { bail!("{} parts", artifact.parts.len()) };
        expect_equal("text", text.as_text(), Some(GREETING))?;
        ensure!(
            matches!(&file.content, PartContent::Raw(raw) if *raw == file_bytes()),
            "the file is {file:?}"
        );
        expect_equal("file name", file.filename.as_deref(), Some("bytes.bin"))?;
        match &data_part.content {
            PartContent::Data(echoed) if same(echoed, &data()) => Ok(()),
            other => bail!("the data is {other:?}"),
        }
    }

    pub(crate) async fn message(&self) -> anyhow::Result<()> {
        match self.client.send_message(&request(saying("tck-message-response"), None)).await? {
            SendMessageResponse::Message(message) => {
                expect_equal("message", message.text(), Some("Direct message response"))?;
                expect_equal("role", message.role, Role::Agent)
            }
            SendMessageResponse::Task(task) => bail!("no message but {task:?}"),
        }
    }

    pub(crate) async fn stream(&self) -> anyhow::Result<()> {
        let stream = self.client.send_streaming_message(&request(saying("tck-stream-chunked"), None)).await?;
        let events: Vec<_> = stream.try_collect().await?;
        ensure!(
            matches!(events.first(), Some(StreamResponse::Task(_))),
            "the first event is {:?}",
            events.first()
        );
        let mut chunks = Vec::new();
        for event in &events {
            if let StreamResponse::ArtifactUpdate(update) = event {
                let texts: String = update.artifact.parts.iter().filter_map(Part::as_text).collect();
                chunks.push((texts, update.append.unwrap_or_default()));
            }
        }
        expect_equal("chunks", chunks, vec![("chunk-1 ".to_owned(), false), ("chunk-2".to_owned(), true)])?;
        let states: Vec<_> = events.iter().filter_map(state_of).collect();
        ensure!(states.contains(&TaskState::Working), "never working: {states:?}");
        expect_equal("last state", states.last(), Some(&TaskState::Completed))
    }

    pub(crate) async fn input_required(&self) -> anyhow::Result<()> {
        let asked = self.task(saying("tck-multi-turn"), None).await?;
        expect_state(&asked, TaskState::InputRequired)?;
        let again = self.task(reply(&asked, "more"), None).await?;
        expect_state(&again, TaskState::InputRequired)?;
        let done = self.task(reply(&asked, "done"), None).await?;
        expect_state(&done, TaskState::Completed)?;
        expect_equal("ids", (done.id, done.context_id), (asked.id, asked.context_id))
    }

    pub(crate) async fn cancel(&self) -> anyhow::Result<()> {
        let at_once = SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: None,
            history_length: None,
            return_immediately: Some(true),
        };
        let task = self.task(saying("tck-cancel"), Some(at_once)).await?;
        let canceled = self.client.cancel_task(&cancellation(&task.id)).await?;
        expect_state(&canceled, TaskState::Canceled)?;
        expect_state(&self.client.get_task(&look_up(&task.id, None)).await?, TaskState::Canceled)
    }

    pub(crate) async fn get(&self) -> anyhow::Result<()> {
        let sent = self.task(saying("tck-echo to be got"), None).await?;
        let got = self.client.get_task(&look_up(&sent.id, Some(1))).await?;
        expect_state(&got, TaskState::Completed)?;
        let artifacts = got.artifacts.unwrap_or_default();
        let echoed = artifacts.first().and_then(|artifact| artifact.parts.first()).and_then(Part::as_text);
        expect_equal("artifact", echoed, Some("tck-echo to be got"))?;
        ensure!(got.history.unwrap_or_default().len() <= 1, "more than one message of history");
        Ok(())
    }

    pub(crate) async fn list(&self) -> anyhow::Result<()> {
        let first = self.task(saying("tck-echo one"), None).await?;
        let mut next = saying("tck-echo two");
        next.context_id = Some(first.context_id.clone());
        let second = self.task(next, None).await?;
        expect_equal("context", &second.context_id, &first.context_id)?;
        let mut ids = Vec::new();
        let mut page_token = None;
        for _ in 0..2 {
            let filter = ListTasksRequest {
                context_id: Some(first.context_id.clone()),
                status: None,
                page_size: Some(1),
                page_token,
                history_length: None,
                status_timestamp_after: None,
                include_artifacts: None,
                tenant: None,
            };
            let page = self.client.list_tasks(&filter).await?;
            expect_equal("total", page.total_size, 2)?;
            ids.extend(page.tasks.into_iter().map(|task| task.id));
            page_token = Some(page.next_page_token);
        }
        expect_equal("listed", ids, vec![second.id, first.id])?;
        expect_equal("token of a third page", page_token.as_deref(), Some(""))
    }

    pub(crate) async fn subscribe(&self) -> anyhow::Result<()> {
        let mut stream =
            self.client.send_streaming_message(&request(saying("tck-long-running"), None)).await?;
        let task = match stream.next().await.context("no event")?? {
            StreamResponse::Task(task) => task,
            other => bail!("the first event is {other:?}"),
        };
        drop(stream);
        let again = SubscribeToTaskRequest { id: task.id.clone(), tenant: None };
        let events: Vec<_> = self.client.subscribe_to_task(&again).await?.try_collect().await?;
        match events.first() {
            Some(StreamResponse::Task(again)) => expect_equal("task", &again.id, &task.id)?,
            other => bail!("the first event is {other:?}"),
        }
        expect_equal("last state", events.last().and_then(state_of), Some(TaskState::Completed))
    }

    pub(crate) async fn errors(&self) -> anyhow::Result<()> {
        let not_found = error_code::TASK_NOT_FOUND;
        expect_refusal(self.client.get_task(&look_up(UNKNOWN_TASK, None)).await, not_found)?;
        expect_refusal(self.client.cancel_task(&cancellation(UNKNOWN_TASK)).await, not_found)?;
        let ended = self.task(saying("tck-echo to be ended"), None).await?;
        let canceled = self.client.cancel_task(&cancellation(&ended.id)).await;
        expect_refusal(canceled, error_code::TASK_NOT_CANCELABLE)?;
        let more = self.client.send_message(&request(reply(&ended, "more"), None)).await;
        expect_refusal(more, error_code::UNSUPPORTED_OPERATION)
    }
}

fn look_up(id: &str, history_length: Option<i32>) -> GetTaskRequest {
    GetTaskRequest { id: id.to_owned(), history_length, tenant: None }
}

fn cancellation(id: &str) -> CancelTaskRequest {
    CancelTaskRequest { id: id.to_owned(), metadata: None, tenant: None }
}

fn state_of(event: &StreamResponse) -> Option<TaskState> {
    match event {
        StreamResponse::Task(task) => Some(task.status.state.clone()),
        StreamResponse::StatusUpdate(update) => Some(update.status.state.clone()),
        _ => None,
    }
}
