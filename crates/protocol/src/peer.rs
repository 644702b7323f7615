//! What passes between whoever chooses a peer of a pool and whoever calls it. Neither knows the other.

use std::fmt;

use crate::caller::Principal;
use crate::id::{ContextId, TaskId};

/// Hears how a call to a chosen peer goes. Made by who chose, told by who calls; each may be told more than once, since
/// one call may take several exchanges with the peer.
///
/// What an agent says, be it that it failed, is an answer; only what did not come, or broke off, is the peer's failure.
///
/// ```
/// use chancery_protocol::PeerWatch;
///
/// #[derive(Debug)]
/// struct Logged;
///
/// impl PeerWatch for Logged {
///     fn heard(&self) {}
///
///     fn answered(&self) {}
///
///     fn broke_off(&self) {
///         eprintln!("a peer could not be reached");
///     }
/// }
/// ```
pub trait PeerWatch: Send + Sync + fmt::Debug {
    /// The peer has said something: an event, or its answer.
    fn heard(&self);

    /// An exchange with the peer has come to its end as it should.
    fn answered(&self);

    /// The peer could not be reached, or what it said broke off.
    fn broke_off(&self);
}

/// Hears which peer of a pool has which task. Told by who keeps that, also for what it kept before a restart.
///
/// ```
/// use chancery_protocol::{ContextId, PoolWatch, Principal, TaskId};
///
/// #[derive(Debug)]
/// struct Logged;
///
/// impl PoolWatch for Logged {
///     fn began(&self, _: &Principal, task: &TaskId, _: Option<&ContextId>, peer: &str) {
///         eprintln!("{peer} has {task}");
///     }
///
///     fn ended(&self, _: &Principal, task: &TaskId) {
///         eprintln!("nobody has {task} any more");
///     }
/// }
/// ```
pub trait PoolWatch: Send + Sync + fmt::Debug {
    /// A peer has a task that goes on, or waits for somebody. More than once is as good as once.
    fn began(&self, principal: &Principal, task: &TaskId, context: Option<&ContextId>, peer: &str);

    /// A task has ended.
    fn ended(&self, principal: &Principal, task: &TaskId);
}
