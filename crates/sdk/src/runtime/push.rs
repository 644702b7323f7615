//! Push notification configurations: who may be told about a task, and where.
//!
//! They are only kept here. Whoever posts the events is a [`Notifier`], which is woken when the journal has
//! something for it and otherwise reads the journal by itself.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{
    Call, CallContext, Error, ErrorCode, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, PushConfigId, PushNotificationConfigRequest, RequestLimits,
    TaskId, TaskPushNotificationConfig, Version,
};
use chancery_store::{Registration, Scope, StoreError};

use super::Core;
use super::failure::from_store;

/// Posts the events of tasks to whoever registered for them.
pub trait Notifier: fmt::Debug + Send + Sync {
    /// Whether events may be posted to this URL at all; if not, why. The text is shown to whoever named it.
    fn check(&self, url: &str) -> Result<(), String>;

    /// There is something to post.
    fn wake(&self);
}

impl Core {
    /// A configuration that came with a message, ready to be committed with it.
    pub(super) fn inline_push(
        &self,
        config: TaskPushNotificationConfig,
        task: &TaskId,
        version: Version,
    ) -> Result<Box<Registration>, Error> {
        self.check_receiver(&config, "configuration.taskPushNotificationConfig.url")?;
        let config = TaskPushNotificationConfig {
            id: Some(config.id.unwrap_or_else(PushConfigId::generate)),
            task_id: Some(task.clone()),
            tenant: String::new(),
            ..config
        };
        Ok(Box::new(Registration { config, version }))
    }

    pub(super) async fn create_push_config(
        &self,
        call: Call<TaskPushNotificationConfig>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let scope = self.push_scope(&call.context)?;
        let config = call.request;
        config.validate(&RequestLimits::default())?;
        let task = config.task_id.clone().unwrap_or_else(|| "".into());
        self.check_receiver(&config, "url")?;
        let config = TaskPushNotificationConfig { tenant: String::new(), ..config };
        let registration = Registration { config, version: call.context.version };
        let kept = self.store.put_push_config(&scope, &task, registration).await.map_err(from_store)?;
        // One that takes the place of another may have been waiting for a receiver that works.
        if let Some(notifier) = &self.notifier {
            notifier.wake();
        }
        Ok(Arc::unwrap_or_clone(kept))
    }

    pub(super) async fn get_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let scope = self.push_scope(&call.context)?;
        call.request.validate()?;
        let PushNotificationConfigRequest { task_id, id, .. } = &call.request;
        let found = self.store.push_config(&scope, task_id, id).await.map_err(from_store)?;
        Ok(Arc::unwrap_or_clone(found))
    }

    /// There are few enough for one page.
    pub(super) async fn list_push_configs(
        &self,
        call: Call<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        let scope = self.push_scope(&call.context)?;
        call.request.validate()?;
        let found = self.store.push_configs(&scope, &call.request.task_id).await.map_err(from_store)?;
        Ok(ListTaskPushNotificationConfigsResponse {
            configs: found.into_iter().map(Arc::unwrap_or_clone).collect(),
            next_page_token: String::new(),
        })
    }

    /// Deleting what is not there is no mistake, as long as the task is.
    pub(super) async fn delete_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<(), Error> {
        let scope = self.push_scope(&call.context)?;
        call.request.validate()?;
        let PushNotificationConfigRequest { task_id, id, .. } = &call.request;
        match self.store.delete_push_config(&scope, task_id, id).await {
            Ok(()) | Err(StoreError::UnknownPushConfig { .. }) => Ok(()),
            Err(error) => Err(from_store(error)),
        }
    }

    /// Refuses if nobody posts the events of this agent's tasks.
    pub(super) fn check_push(&self) -> Result<(), Error> {
        match self.notifier {
            Some(_) => Ok(()),
            None => Err(ErrorCode::PushNotificationNotSupported.into()),
        }
    }

    /// Whose configurations a call is about.
    fn push_scope(&self, context: &CallContext) -> Result<Scope, Error> {
        self.check_push()?;
        Ok(self.scope(&context.principal))
    }

    fn check_receiver(&self, config: &TaskPushNotificationConfig, field: &str) -> Result<(), Error> {
        self.check_push()?;
        let checked = self.notifier.iter().try_for_each(|notifier| notifier.check(&config.url));
        checked.map_err(|why| Error::invalid_field(field, why))
    }
}
