//! What is kept of a task that an agent elsewhere works on: which agent has it, and under which ids.

use std::sync::Arc;

use chancery_protocol::{ContextId, Json, TaskId};
use chancery_store::Scope;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::clean::Scrubber;
use crate::agent::TaskHandle;
use crate::turn::Turn;

/// Stands in the task's state from before the first byte leaves for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemoteState {
    /// The member of the pool that has the task; empty where there is one agent.
    #[serde(default)]
    pub(super) remote: Arc<str>,
    /// The agent's own id of the task, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskId>,
    /// The agent's own id of the context, once it is known; empty where only the agent knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<ContextId>,
    /// How many messages have been sent.
    #[serde(default)]
    pub(super) sent: u64,
    /// Knows the lineage tokens that went along with the last of them.
    #[serde(default, rename = "sentTokens", skip_serializing_if = "Scrubber::is_empty")]
    pub(super) scrubber: Scrubber,
    /// Whether the last of them had no key, by which the agent would know it again.
    #[serde(skip)]
    pub(super) is_keyless: bool,
}

/// What stores from before had: the ids here were those of the agent, unless `there` says otherwise.
#[derive(Deserialize)]
struct OldState {
    peer: Arc<str>,
    there: Option<TaskId>,
}

/// What ids began with in such stores that this gateway had given.
const OLD_OWN_ID: &str = "queued-";

impl RemoteState {
    /// What is known of the task of a turn.
    pub(super) fn of_turn(turn: &Turn) -> Self {
        let context = turn.task().and_then(|task| task.context_id.as_ref());
        Self::read(turn.found.state.as_ref(), turn.task_id(), turn.task().is_some(), context)
    }

    /// What is known of a task that exists.
    pub(super) fn of_task(task: &TaskHandle) -> Self {
        Self::read(task.state.as_ref(), &task.task, true, None)
    }

    /// What a task's state says. A task without one is from an older store, and has the agent's ids.
    fn read(state: Option<&Json>, id: &TaskId, exists: bool, context: Option<&ContextId>) -> Self {
        let old = state.and_then(|state| state.to_value::<OldState>().ok());
        if let Some(known) = state.filter(|_| old.is_none()).and_then(|state| state.to_value().ok()) {
            return known;
        }
        // Ours always had a state; an agent that is a gateway of that time gives such ids as well.
        let is_own = old.is_some() && id.as_str().starts_with(OLD_OWN_ID);
        let is_agents_own = exists && !is_own;
        // It was on its way, and the agent had not said what it calls it.
        let is_out = is_own && old.as_ref().is_some_and(|old| old.there.is_none());
        let (remote, there) = old.map_or_else(Default::default, |old| (old.peer, old.there));
        let context = match there {
            Some(_) => Some(ContextId::from("")),
            None => context.filter(|_| is_agents_own).cloned(),
        };
        Self {
            remote,
            task: there.or_else(|| is_agents_own.then(|| id.clone())),
            context,
            sent: u64::from(is_out),
            scrubber: Scrubber::default(),
            is_keyless: is_out,
        }
    }
}

/// The context id that an agent is told in the place of ours: the same for the same caller and context, and another for
/// every other caller.
pub(super) fn context_there(secret: &[u8; 32], scope: &Scope, context: &ContextId) -> ContextId {
    let digest = digest(secret, [&*scope.realm, &*scope.owner, &*scope.agent, context.as_str()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    ContextId::from(uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string())
}

/// The idempotency key of one dispatch: the same when it is made again after a restart.
pub(super) fn dispatch_key(secret: &[u8; 32], task: &TaskId, sent: u64) -> String {
    let digest = digest(secret, ["dispatch", task.as_str(), &sent.to_string()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes).simple().to_string()
}

fn digest<'a>(secret: &[u8; 32], texts: impl IntoIterator<Item = &'a str>) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(secret);
    for text in texts {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_different_callers_never_meet() {
        let scope = |owner: &str| Scope { realm: "r".into(), owner: owner.into(), agent: "a".into() };
        let context = ContextId::from("c");
        let one = context_there(&[1; 32], &scope("ann"), &context);
        assert_eq!(one, context_there(&[1; 32], &scope("ann"), &context));
        assert_ne!(one, context_there(&[1; 32], &scope("bob"), &context));
        assert_ne!(one, context_there(&[2; 32], &scope("ann"), &context));
        assert!(Uuid::parse_str(one.as_str()).is_ok());
    }

    #[test]
    fn states_of_older_stores_are_read() {
        let (id, context) = (TaskId::from("there-1"), ContextId::from("c"));
        let read = |state: Option<&str>, id: &str| {
            let state = state.map(|state| Json::parse(state).unwrap());
            RemoteState::read(state.as_ref(), &id.into(), true, Some(&context))
        };
        let old = read(None, "there-1");
        assert_eq!((old.task, old.context, old.sent), (Some(id.clone()), Some(context.clone()), 0));
        let pooled = read(Some(r#"{"peer":"north"}"#), "there-1");
        assert_eq!((&*pooled.remote, pooled.task), ("north", Some(id)));
        let queued = read(Some(r#"{"peer":"","there":"t"}"#), "queued-1");
        assert_eq!((queued.task, queued.context), (Some("t".into()), Some("".into())));
        let out = read(Some(r#"{"peer":"south"}"#), "queued-1");
        assert_eq!((&*out.remote, out.task, out.sent, out.is_keyless), ("south", None, 1, true));
        assert_eq!(read(Some("{}"), "there-1"), RemoteState::default());
        assert_eq!(read(None, "queued-1").task, Some("queued-1".into()));
    }
}
