//! A remote agent, used exactly as a local one.

use std::sync::Arc;

use chancery_protocol::{
    AgentCard, Call, CancelTaskRequest, Endpoint, Error, EventStream, GetExtendedAgentCardRequest,
    GetTaskRequest, ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse,
    ListTasksRequest, ListTasksResponse, PushNotificationConfigRequest, Request, SendMessageRequest,
    SendMessageResponse, SubscribeToTaskRequest, Task, TaskPage, TaskPushNotificationConfig, TaskView,
};
use futures_util::TryStreamExt as _;

use super::{Client, Options};

impl Endpoint for Client {
    async fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        let sent = self.ask(Request::SendMessage(call.request), Options::of(call.context)).await?;
        Ok(match sent {
            SendMessageResponse::Task(task) => SendMessageResponse::Task(view(task)),
            SendMessageResponse::Message(message) => SendMessageResponse::Message(message),
        })
    }

    async fn send_streaming_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<EventStream, Error> {
        let request = Request::SendStreamingMessage(call.request);
        let events = self.watch(request, Options::of(call.context)).await?;
        Ok(Box::pin(events.map_err(Error::from)))
    }

    async fn get_task(&self, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        Ok(view(self.ask(Request::GetTask(call.request), Options::of(call.context)).await?))
    }

    async fn list_tasks(&self, call: Call<ListTasksRequest>) -> Result<TaskPage, Error> {
        let page: ListTasksResponse =
            self.ask(Request::ListTasks(Box::new(call.request)), Options::of(call.context)).await?;
        Ok(TaskPage {
            tasks: page.tasks.into_iter().map(view).collect(),
            next_page_token: page.next_page_token,
            page_size: page.page_size,
            total_size: page.total_size,
        })
    }

    async fn cancel_task(&self, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        Ok(view(self.ask(Request::CancelTask(call.request), Options::of(call.context)).await?))
    }

    async fn subscribe_to_task(&self, call: Call<SubscribeToTaskRequest>) -> Result<EventStream, Error> {
        let request = Request::SubscribeToTask(call.request);
        let events = self.watch(request, Options::of(call.context)).await?;
        Ok(Box::pin(events.map_err(Error::from)))
    }

    async fn create_push_config(
        &self,
        call: Call<TaskPushNotificationConfig>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let request = Request::CreateTaskPushNotificationConfig(Box::new(call.request));
        Ok(self.ask(request, Options::of(call.context)).await?)
    }

    async fn get_push_config(
        &self,
        call: Call<PushNotificationConfigRequest>,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let request = Request::GetTaskPushNotificationConfig(call.request);
        Ok(self.ask(request, Options::of(call.context)).await?)
    }

    async fn list_push_configs(
        &self,
        call: Call<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        let request = Request::ListTaskPushNotificationConfigs(call.request);
        Ok(self.ask(request, Options::of(call.context)).await?)
    }

    async fn delete_push_config(&self, call: Call<PushNotificationConfigRequest>) -> Result<(), Error> {
        let request = Request::DeleteTaskPushNotificationConfig(call.request);
        Ok(self.ask(request, Options::of(call.context)).await?)
    }

    async fn extended_card(&self, call: Call<GetExtendedAgentCardRequest>) -> Result<Arc<AgentCard>, Error> {
        let request = Request::GetExtendedAgentCard(call.request);
        let card: Box<AgentCard> = self.ask(request, Options::of(call.context)).await?;
        Ok(Arc::from(card))
    }
}

fn view(task: Task) -> TaskView {
    TaskView::whole(Arc::new(task))
}
