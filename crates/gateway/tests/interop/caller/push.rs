//! The scenario about notifications.

use chancery_sdk::protocol::{
    AuthenticationInfo, ListTaskPushNotificationConfigsRequest, PushNotificationConfigRequest,
    SendMessageConfiguration, TaskPushNotificationConfig,
};
use chancery_sdk::{Call, CallContext, Endpoint as _, Principal, Task, TaskState};

use super::webhook::Webhook;
use super::{Caller, Step, configured, expect, expect_equal, expect_state, reply, saying};
use crate::wire::Version;

const TOKEN: &str = "interop-token";
const SECRET: &str = "interop-secret";

impl Caller {
    pub(super) async fn push(&self) -> Step {
        let mut webhook = Webhook::start().await?;
        self.push_by_configuration(&mut webhook).await?;
        let config = SendMessageConfiguration {
            task_push_notification_config: Some(to(&webhook, None, "")),
            ..Default::default()
        };
        let task = self.task(configured(saying("tck-echo push"), config)).await?;
        webhook.until_completed(&task.id).await.map(drop)
    }

    async fn push_by_configuration(&self, webhook: &mut Webhook) -> Step {
        let task = self.task(saying("tck-multi-turn")).await?;
        let client = &self.client;
        let kept = client.create_push_config(call(to(webhook, Some(&task), "kept"))).await?;
        client.create_push_config(call(to(webhook, Some(&task), "dropped"))).await?;
        let one = |id: &str| PushNotificationConfigRequest {
            tenant: String::new(),
            task_id: task.id.clone(),
            id: id.into(),
        };
        expect_equal("id", kept.id.as_ref().map(|id| id.as_str()), Some("kept"))?;
        let got = client.get_push_config(call(one("kept"))).await?;
        expect_equal("url", got.url.as_str(), webhook.url())?;

        expect_state(&self.task(reply(&task, "done")).await?, TaskState::Completed)?;
        for notice in webhook.until_completed(&task.id).await? {
            // Older versions only had the token.
            let is_signed = match self.wire.version {
                Version::V1_0 => notice.header("authorization") == Some("Bearer interop-secret"),
                _ => notice.header("x-a2a-notification-token") == Some(TOKEN),
            };
            expect(is_signed, "a notification without what was agreed")?;
        }
        let all = ListTaskPushNotificationConfigsRequest {
            tenant: String::new(),
            task_id: task.id.clone(),
            page_size: 0,
            page_token: String::new(),
        };
        expect_equal("configurations", client.list_push_configs(call(all.clone())).await?.configs.len(), 2)?;
        client.delete_push_config(call(one("dropped"))).await?;
        expect_equal("configurations left", client.list_push_configs(call(all)).await?.configs.len(), 1)
    }
}

fn to(webhook: &Webhook, task: Option<&Task>, id: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        tenant: String::new(),
        id: (!id.is_empty()).then(|| id.into()),
        task_id: task.map(|task| task.id.clone()),
        url: webhook.url().to_owned(),
        token: TOKEN.to_owned(),
        authentication: Some(AuthenticationInfo { scheme: "Bearer".into(), credentials: SECRET.into() }),
    }
}

fn call<R>(request: R) -> Call<R> {
    Call { request, context: CallContext::new(Principal::anonymous(), "interop".into()) }
}
