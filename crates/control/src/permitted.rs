//! A call that has passed the gates, and who answers such calls. Nothing else can be dispatched: a call that has not passed
//! cannot be made into one outside of this crate's pipeline.

use std::sync::Arc;

use chancery_protocol::{Call, CallContext, DynEndpoint, Error, Queued, Reply, TaskView};

/// A call that was let through.
///
/// ```compile_fail
/// # use chancery_control::Permitted;
/// fn forge(call: chancery_protocol::Call) -> Permitted {
///     Permitted { call }
/// }
/// ```
#[derive(Debug)]
pub struct Permitted {
    call: Call,
}

/// Who answers calls that were let through: a remote agent exactly as a local one.
#[derive(Clone)]
pub enum Executor {
    /// An agent in this process.
    Local(Arc<dyn DynEndpoint>),
    /// An agent elsewhere.
    Remote(Arc<dyn DynEndpoint>),
}

impl Permitted {
    /// Only the pipeline says so.
    pub(crate) fn new(call: Call) -> Self {
        Self { call }
    }

    /// The call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// What it was let through with, for whoever has its message already.
    pub(crate) fn into_context(self) -> Box<CallContext> {
        self.call.context
    }
}

impl Executor {
    /// Has the call answered.
    pub async fn dispatch(&self, permitted: Permitted) -> Result<Reply, Error> {
        match self {
            Self::Local(endpoint) | Self::Remote(endpoint) => endpoint.call(permitted.call).await,
        }
    }

    /// Whether it can have the tasks of messages that are not let through yet.
    pub(crate) fn has_queue(&self) -> bool {
        match self {
            Self::Local(endpoint) | Self::Remote(endpoint) => endpoint.has_queue(),
        }
    }

    /// Has the task of a message opened that is not let through yet. Only the pipeline says when it is.
    pub(crate) async fn enqueue(&self, queued: Box<Queued>) -> Result<TaskView, Error> {
        match self {
            Self::Local(endpoint) | Self::Remote(endpoint) => endpoint.enqueue(queued).await,
        }
    }

    /// Whether it is in this process.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_local() { "Local" } else { "Remote" })
    }
}
