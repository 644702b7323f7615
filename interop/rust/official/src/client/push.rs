//! The scenario about notifications.

use a2a::{
    AuthenticationInfo, DeleteTaskPushNotificationConfigRequest, GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest, SendMessageConfiguration, StreamResponse,
    TaskPushNotificationConfig, TaskState,
};
use interop_harness::{Webhook, expect_equal};
use serde_json::Value;

use crate::{Scenarios, expect_state, reply, saying};

impl Scenarios {
    pub(crate) async fn push(&self) -> anyhow::Result<()> {
        let mut webhook = Webhook::start().await?;
        self.push_by_configuration(&mut webhook).await?;
        let configuration = SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: Some(to(&webhook, None, "")),
            history_length: None,
            return_immediately: None,
        };
        let task = self.task(saying("tck-echo push"), Some(configuration)).await?;
        webhook.until(|body| completes(body, &task.id)).await.map(drop)
    }

    async fn push_by_configuration(&self, webhook: &mut Webhook) -> anyhow::Result<()> {
        let task = self.task(saying("tck-multi-turn"), None).await?;
        let client = &self.client;
        let kept = client.create_push_config(&to(webhook, Some("kept"), &task.id)).await?;
        client.create_push_config(&to(webhook, Some("dropped"), &task.id)).await?;
        expect_equal("id", kept.id.as_deref(), Some("kept"))?;
        let (task_id, tenant) = (task.id.clone(), None);
        let one = GetTaskPushNotificationConfigRequest { task_id, id: "kept".into(), tenant };
        expect_equal("url", &client.get_push_config(&one).await?.url, &webhook.url)?;
        let (task_id, tenant) = (task.id.clone(), None);
        let other = DeleteTaskPushNotificationConfigRequest { task_id, id: "dropped".into(), tenant };
        client.delete_push_config(&other).await?;
        let (task_id, tenant) = (task.id.clone(), None);
        let all =
            ListTaskPushNotificationConfigsRequest { task_id, page_size: None, page_token: None, tenant };
        expect_equal("configurations", client.list_push_configs(&all).await?.configs.len(), 1)?;

        expect_state(&self.task(reply(&task, "done"), None).await?, TaskState::Completed)?;
        for notice in webhook.until(|body| completes(body, &task.id)).await? {
            expect_equal("authorization", notice.header("authorization"), Some("Bearer interop-secret"))?;
        }
        Ok(())
    }
}

fn to(webhook: &Webhook, id: Option<&str>, task_id: &str) -> TaskPushNotificationConfig {
    let credentials = Some("interop-secret".to_owned());
    TaskPushNotificationConfig {
        url: webhook.url.clone(),
        id: id.map(str::to_owned),
        task_id: task_id.to_owned(),
        token: Some("interop-token".into()),
        authentication: Some(AuthenticationInfo { scheme: "Bearer".into(), credentials }),
        tenant: None,
    }
}

/// Whether a notification, read by the SDK's own type, says that the task has completed.
fn completes(body: &Value, task_id: &str) -> bool {
    let (id, state) = match serde_json::from_value(body.clone()) {
        Ok(StreamResponse::Task(task)) => (task.id, task.status.state),
        Ok(StreamResponse::StatusUpdate(update)) => (update.task_id, update.status.state),
        _ => return false,
    };
    id == task_id && state == TaskState::Completed
}
