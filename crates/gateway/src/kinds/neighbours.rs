//! The agents of this gateway as those see them that run in it: behind the same gates as for anybody else.

use std::sync::{Arc, OnceLock};

use chancery_protocol::{
    Call, CancelTaskRequest, DynEndpoint, Endpoint, Error, ErrorCode, EventStream, GetTaskRequest, Reply,
    Request, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, TaskView,
};
use chancery_sdk::Service;

/// Where those who run here find each other.
#[derive(Default)]
pub(crate) struct Neighbours(OnceLock<Service>);

/// One of them, as [`Turn::call`](chancery_sdk::Turn::call) wants it.
#[derive(Clone)]
pub(crate) struct Neighbour {
    name: Arc<str>,
    endpoint: Arc<dyn DynEndpoint>,
}

impl Neighbours {
    /// Says where they are, once that is known.
    pub(crate) fn live_in(&self, service: Service) {
        let _ = self.0.set(service);
    }

    /// Whoever has this name now.
    pub(crate) fn find(&self, name: &str) -> Option<Neighbour> {
        let endpoint = self.0.get()?.endpoint(name)?;
        Some(Neighbour { name: name.into(), endpoint })
    }
}

impl Neighbour {
    async fn ask<R>(&self, mut call: Call<R>, request: fn(R) -> Request) -> Result<Reply, Error> {
        call.context.agent = self.name.clone();
        self.endpoint.call(Call { request: request(call.request), context: call.context }).await
    }
}

/// What it takes to have something done, to watch it and to stop it.
impl Endpoint for Neighbour {
    async fn send_message(
        &self,
        call: Call<Box<SendMessageRequest>>,
    ) -> Result<SendMessageResponse<TaskView>, Error> {
        match self.ask(call, Request::SendMessage).await? {
            Reply::Sent(sent) => Ok(sent),
            _ => Err(ErrorCode::InvalidAgentResponse.into()),
        }
    }

    async fn get_task(&self, call: Call<GetTaskRequest>) -> Result<TaskView, Error> {
        task(self.ask(call, Request::GetTask).await?)
    }

    async fn cancel_task(&self, call: Call<CancelTaskRequest>) -> Result<TaskView, Error> {
        task(self.ask(call, Request::CancelTask).await?)
    }

    async fn subscribe_to_task(&self, call: Call<SubscribeToTaskRequest>) -> Result<EventStream, Error> {
        match self.ask(call, Request::SubscribeToTask).await? {
            Reply::Stream(events) => Ok(events),
            _ => Err(ErrorCode::InvalidAgentResponse.into()),
        }
    }
}

fn task(reply: Reply) -> Result<TaskView, Error> {
    match reply {
        Reply::Task(task) => Ok(task),
        _ => Err(ErrorCode::InvalidAgentResponse.into()),
    }
}
