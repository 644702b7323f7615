//! A whole site as something to be called: by servers, and by whoever looks after its tasks from outside.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{
    BoxFuture, Call, CallContext, CancelTaskRequest, Error, ErrorCode, Principal, TaskId,
};
use http::Response;

use super::body::Body;
use super::guard::Restored;
use super::limits::ServerLimits;
use super::site::{Served, Site};
use crate::push::Deliverer;
use crate::runtime::Runtime;

/// A whole site as one `tower` service, for hyper, axum or anything else that takes one.
#[derive(Clone)]
pub struct Service {
    site: Arc<Site>,
    /// Where the requests come from, if they all come over one connection.
    source: Option<IpAddr>,
}

// === impl Service ===

impl Service {
    pub(crate) fn new(site: Site) -> Self {
        Self { site: Arc::new(site), source: None }
    }

    /// The same for one connection.
    pub(crate) fn for_connection(&self, source: IpAddr) -> Self {
        Self { site: self.site.clone(), source: Some(source) }
    }

    /// Cancels a task of an agent of the site in the name of whoever owns it, past whatever stands in front of the agent.
    /// Says whether there was anything to cancel.
    pub async fn cancel_task(
        &self,
        agent: &str,
        principal: &Principal,
        task: &TaskId,
    ) -> Result<bool, Error> {
        let Some(mount) = self.site.mounts.iter().find(|mount| &*mount.name == agent) else {
            return Ok(false);
        };
        let request = CancelTaskRequest { tenant: String::new(), id: task.clone(), metadata: None };
        let context = CallContext::new(principal.clone(), mount.name.clone());
        let canceled = match &mount.served {
            Served::Agent(runtime) => {
                chancery_protocol::Endpoint::cancel_task(runtime, Call { request, context }).await
            }
            Served::Relay(relay) => {
                chancery_protocol::Endpoint::cancel_task(relay, Call { request, context }).await
            }
        };
        match canceled {
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::TaskNotCancelable => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a task of an agent of the site as FAILED, for a reason that its caller may read, and stops the work on it,
    /// here or elsewhere. Says whether there was anything to end.
    pub async fn stop_task(
        &self,
        agent: &str,
        principal: &Principal,
        task: &TaskId,
        why: &str,
    ) -> Result<bool, Error> {
        let Some(mount) = self.site.mounts.iter().find(|mount| &*mount.name == agent) else {
            return Ok(false);
        };
        match &mount.served {
            Served::Agent(runtime) => runtime.stop(principal, task, why).await,
            Served::Relay(relay) => relay.stop(principal, task, why).await,
        }
    }

    /// The runtime of an agent of the site, by the agent's name: what
    /// [`resume`](Runtime::resume) is called on. An agent that is elsewhere has none here.
    pub fn runtime(&self, agent: &str) -> Option<Runtime> {
        let mount = self.site.mounts.iter().find(|mount| &*mount.name == agent)?;
        match &mount.served {
            Served::Agent(runtime) => Some(runtime.clone()),
            Served::Relay(_) => None,
        }
    }

    /// Ends what an earlier process left unfinished, for every agent of the site, as [`Runtime::recover`] says, and
    /// goes on with what is unfinished elsewhere, as [`RelayEndpoint::recover`](crate::RelayEndpoint::recover) says. Gives the number of tasks that
    /// were ended. A [`Server`](super::Server) has done this by the time it listens.
    pub async fn recover(&self) -> Result<usize, Error> {
        let mut ended = 0;
        for mount in &self.site.mounts {
            let restored = self.site.guard.as_ref().map(|guard| guard.restored(&mount.name));
            for Restored { principal, task, hold } in restored.into_iter().flatten() {
                match &mount.served {
                    Served::Agent(runtime) => runtime.restore_hold(&principal, &task, &hold),
                    Served::Relay(relay) => relay.restore_hold(&principal, &task, &hold),
                }
            }
            let of_agent = match &mount.served {
                Served::Agent(runtime) => runtime.recover().await?,
                Served::Relay(relay) => {
                    let tasks = relay.recover().await?;
                    if tasks > 0 {
                        tracing::info!(
                            agent = &*mount.name,
                            tasks,
                            "following what the last process followed"
                        );
                    }
                    0
                }
            };
            if of_agent > 0 {
                tracing::warn!(agent = &*mount.name, tasks = of_agent, "ended what the last process left");
            }
            ended += of_agent;
        }
        Ok(ended)
    }

    pub(crate) fn deliverer(&self) -> Option<&Deliverer> {
        self.site.deliverer.as_ref()
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.site.streams.open()
    }

    /// Whether it is about to go: no call is taken any more.
    pub fn is_stopping(&self) -> bool {
        self.site.stopping.is_cancelled()
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.site.limits
    }

    /// Says to those who ask that it is about to go.
    pub(crate) fn stop(&self) {
        self.site.stopping.cancel();
    }
}

impl<B> tower_service::Service<http::Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (site, source) = (self.site.clone(), self.source);
        let (head, body) = request.into_parts();
        Box::pin(async move {
            Ok(match &site.guard {
                None => site.respond(head, body).await,
                Some(guard) => site.respond_guarded(&**guard, source, head, body).await,
            })
        })
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths: Vec<_> = self.site.mounts.iter().map(|mount| mount.path.as_str()).collect();
        f.debug_struct("Service").field("mounts", &paths).finish_non_exhaustive()
    }
}
