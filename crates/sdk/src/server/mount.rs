//! An agent at a path: who answers its calls, and what is shown of it.

use std::sync::Arc;

use chancery_protocol::{
    BoxFuture, Call, CallContext, CancelTaskRequest, DynEndpoint, Endpoint, Error, ErrorCode, NoRoute,
    Principal, ProtocolBinding, Reply, Request, TaskId,
};
use http::{Method, Response};

use super::body::Body;
use super::card::is_card;
use super::guard::{Guard, Restored, Ward};
use super::shown::Shown;
use super::versions::Versions;
use crate::binding::head;
use crate::dialect::Dialect;
use crate::runtime::{Readmitter, Runtime};

/// An agent at a path, behind what stands in front of it.
pub(crate) struct Mount {
    agent: Arc<Placed>,
    guarded: Option<Arc<dyn DynEndpoint>>,
}

/// An agent at a path. It stays, whatever is put in front of it.
pub(crate) struct Placed {
    pub(crate) path: String,
    pub(crate) name: Arc<str>,
    /// Whether it is for insiders alone.
    pub(crate) internal: bool,
    pub(crate) tenant_is_realm: bool,
    /// What it speaks.
    pub(crate) versions: Versions,
    pub(crate) served: Served,
    pub(crate) shown: Arc<Shown>,
    /// Where JSON-RPC is posted to, below the path; without a trailing slash.
    pub(crate) jsonrpc_paths: Vec<String>,
}

/// Who answers the calls to an agent.
pub(crate) enum Served {
    Agent(Runtime),
    /// Something that keeps no tasks here, or keeps them by itself.
    Endpoint(Arc<dyn DynEndpoint>),
}

// === impl Mount ===

impl Mount {
    /// Puts a guard in front of an agent, if there is one.
    pub(super) fn new(agent: Placed, guard: Option<&Arc<dyn Guard>>) -> Self {
        let agent = Arc::new(agent);
        let guarded = guard.map(|guard| guard.protect(&agent.ward(false)));
        Self { agent, guarded }
    }

    /// The same agent with another guard in front of it.
    pub(super) fn under(&self, guard: &dyn Guard, is_retired: bool) -> Self {
        let guarded = Some(guard.protect(&self.agent.ward(is_retired)));
        Self { agent: self.agent.clone(), guarded }
    }

    /// Whether the agent is mounted nowhere else, such as in a table that a request found earlier.
    pub(super) fn is_last(&self) -> bool {
        Arc::strong_count(&self.agent) == 1
    }

    /// Says which of the extensions that were asked for are known here.
    pub(super) fn echo_extensions(&self, response: &mut Response<Body>, dialect: Dialect, asked: &[String]) {
        if !asked.is_empty() {
            head::echo_extensions(response, dialect, asked, &self.shown.now().extensions);
        }
    }

    pub(super) fn takes_jsonrpc(&self, path: &str) -> bool {
        if !self.versions.speaks(&ProtocolBinding::JsonRpc) {
            return false;
        }
        let bare = path.strip_suffix('/').unwrap_or(path);
        self.jsonrpc_paths.iter().any(|known| known == bare)
    }

    /// Why no operation answers to a request line, given that the card and JSON-RPC have paths too.
    pub(super) fn other_verbs(&self, path: &str, why: NoRoute) -> NoRoute {
        let own: &[Method] = match path {
            path if is_card(path) => &[Method::GET, Method::HEAD],
            path if self.takes_jsonrpc(path) => &[Method::POST],
            _ => return why,
        };
        let mut verbs = own.to_vec();
        if let NoRoute::Verb(others) = why {
            verbs.extend(others);
        }
        NoRoute::Verb(verbs)
    }

    /// A tenant only routes, and this agent is where it has arrived: it must be the agent's own name. Where the
    /// operator says so, it is a realm instead.
    pub(super) fn route_tenant(&self, tenant: &str, context: &mut CallContext) -> Result<(), Error> {
        if tenant.is_empty() || tenant == &*self.name {
            return Ok(());
        }
        if self.tenant_is_realm {
            // No realm of the operator's has a NUL in it, so this is none of them, nor a tenant of one.
            context.principal.realm = format!("{}\0{tenant}", context.principal.realm).into();
            return Ok(());
        }
        Err(Error::invalid_field("tenant", "is not known here"))
    }

    /// Answers a call, in the version that it was made in.
    pub(super) fn call(&self, dialect: Dialect, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        match (dialect, &self.served, &self.guarded) {
            (Dialect::V1_0, _, Some(guarded)) => guarded.call(call),
            (older, _, Some(guarded)) => Box::pin(older.answer(&**guarded, call)),
            (Dialect::V1_0, Served::Agent(runtime), None) => Endpoint::call(runtime, call),
            (Dialect::V1_0, Served::Endpoint(endpoint), None) => endpoint.call(call),
            (older, Served::Agent(runtime), None) => Box::pin(older.answer(runtime, call)),
            (older, Served::Endpoint(endpoint), None) => Box::pin(older.answer(&**endpoint, call)),
        }
    }

    /// Whoever answers, behind what stands in front.
    pub(super) fn endpoint(&self) -> Arc<dyn DynEndpoint> {
        self.guarded.clone().unwrap_or_else(|| self.served.endpoint())
    }
}

impl std::ops::Deref for Mount {
    type Target = Placed;

    fn deref(&self) -> &Placed {
        &self.agent
    }
}

// === impl Placed ===

impl Placed {
    fn ward(&self, is_retired: bool) -> Ward {
        let (name, shown) = (self.name.clone(), self.shown.clone());
        Ward { name, endpoint: self.served.endpoint(), is_retired, shown }
    }

    /// Has the guard let calls through that nobody waits for. It knows the agent, which is therefore not to keep it.
    pub(super) fn readmitted_by(&self, guard: &Arc<dyn Guard>) {
        let (guard, name) = (Arc::downgrade(guard), self.name.clone());
        self.served.readmitted_by(Readmitter(Arc::new(move |call| match guard.upgrade() {
            Some(guard) => guard.readmit(&name, call),
            None => Some(Box::pin(std::future::ready(Err(ErrorCode::Unavailable.into())))),
        })));
    }
}

// === impl Served ===

impl Served {
    pub(super) fn endpoint(&self) -> Arc<dyn DynEndpoint> {
        match self {
            Self::Agent(runtime) => Arc::new(runtime.clone()),
            Self::Endpoint(endpoint) => endpoint.clone(),
        }
    }

    pub(super) fn runtime(&self) -> Option<&Runtime> {
        if let Self::Agent(runtime) = self { Some(runtime) } else { None }
    }

    /// Says who lets calls through that nobody waits for.
    pub(super) fn readmitted_by(&self, readmitter: Readmitter) {
        match self {
            Self::Agent(runtime) => runtime.readmitted_by(readmitter),
            Self::Endpoint(_) => {}
        }
    }

    /// Whether the two keep their tasks in the same way, so that one can go on with those of the other.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent(one), Self::Agent(other)) => one.is_remote() == other.is_remote(),
            (Self::Endpoint(_), Self::Endpoint(_)) => true,
            _ => false,
        }
    }

    /// Whether nobody works on a task, and nobody watches one.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Agent(runtime) => runtime.is_idle(),
            Self::Endpoint(_) => true,
        }
    }

    /// Whether somebody works on a task, or watches it.
    pub(super) fn has_live(&self, principal: &Principal, task: &TaskId) -> bool {
        match self {
            Self::Agent(runtime) => runtime.has_live(principal, task),
            Self::Endpoint(_) => false,
        }
    }

    /// Takes over what calls of an earlier process hold, then ends or goes on with what it left unfinished. Gives the
    /// number of tasks that were ended.
    pub(super) async fn recover(&self, agent: &str, restored: Vec<Restored>) -> Result<usize, Error> {
        for Restored { principal, task, hold } in restored {
            match self {
                Self::Agent(runtime) => runtime.restore_hold(&principal, &task, &hold).await?,
                Self::Endpoint(_) => {}
            }
        }
        match self {
            Self::Agent(runtime) => {
                let tasks = runtime.recover().await?;
                if tasks > 0 {
                    tracing::warn!(agent, tasks, "ended what the last process left");
                }
                Ok(tasks)
            }
            Self::Endpoint(_) => Ok(0),
        }
    }

    /// Cancels a task in the name of whoever owns it. Says whether there was anything to cancel.
    pub(super) async fn cancel(
        &self,
        agent: &Arc<str>,
        principal: &Principal,
        task: &TaskId,
    ) -> Result<bool, Error> {
        if let Self::Agent(runtime) = self {
            return runtime.cancel(principal, task).await;
        }
        let request = CancelTaskRequest { tenant: String::new(), id: task.clone(), metadata: None };
        let context = CallContext::new(principal.clone(), agent.clone());
        let call = Call { request: Request::CancelTask(request), context };
        match self.endpoint().call(call).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == ErrorCode::TaskNotCancelable => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a task as FAILED, for a reason that its caller may read.
    pub(super) async fn stop(&self, principal: &Principal, task: &TaskId, why: &str) -> Result<bool, Error> {
        match self {
            Self::Agent(runtime) => runtime.stop(principal, task, why).await,
            Self::Endpoint(_) => Ok(false),
        }
    }
}
