//! What is kept of a task that an agent elsewhere works on: which agent has it, and under which ids.

use std::sync::Arc;

use chancery_protocol::{ContextId, Json, Task, TaskId};
use chancery_store::Scope;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::clean::TokenDigest;
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
    /// The agent's own id of the context, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<ContextId>,
    /// How many messages have been sent.
    #[serde(default)]
    pub(super) sent: u64,
    /// Digests of the lineage tokens that went along with the last of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tokens: Vec<TokenDigest>,
}

/// What stores from before had: the ids here were those of the agent, unless `there` says otherwise.
#[derive(Deserialize)]
struct OldState {
    peer: Arc<str>,
    there: Option<TaskId>,
}

/// What ids began with in such stores that the agent had not given.
const OLD_OWN_ID: &str = "queued-";

impl RemoteState {
    /// What is known of the task of a turn.
    pub(super) fn of_turn(turn: &Turn) -> Self {
        let known = turn.facts.state.as_ref();
        Self::read(known, turn.task_id(), turn.task())
    }

    /// What a task's state says. A task without one is from an older store, and has the agent's ids.
    pub(super) fn read(state: Option<&Json>, id: &TaskId, task: Option<&Task>) -> Self {
        let old = state.and_then(|state| state.to_value::<OldState>().ok());
        if let Some(known) = state.filter(|_| old.is_none()).and_then(|state| state.to_value().ok()) {
            return known;
        }
        let is_agents_own = task.is_some() && !id.as_str().starts_with(OLD_OWN_ID);
        let (remote, there) = old.map_or_else(Default::default, |old| (old.peer, old.there));
        Self {
            remote,
            task: there.or_else(|| is_agents_own.then(|| id.clone())),
            context: task.filter(|_| is_agents_own).and_then(|task| task.context_id.clone()),
            sent: 0,
            tokens: Vec::new(),
        }
    }

    /// Notes what the agent calls its task.
    pub(super) fn learn(&mut self, task: &TaskId, context: Option<&ContextId>) {
        self.task = Some(task.clone());
        if let Some(context) = context.filter(|context| !context.is_empty()) {
            self.context = Some(context.clone());
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
        let id = TaskId::from("there-1");
        let task = Task::submitted(id.clone(), "c".into(), chancery_protocol::Message::user("x"));
        let old = RemoteState::read(None, &id, Some(&task));
        assert_eq!((old.task, old.context), (Some(id.clone()), Some("c".into())));
        let pooled = Json::parse(r#"{"peer":"north"}"#).unwrap();
        let pooled = RemoteState::read(Some(&pooled), &id, Some(&task));
        assert_eq!((&*pooled.remote, pooled.task), ("north", Some(id.clone())));
        let queued = Json::parse(r#"{"peer":"","there":"t"}"#).unwrap();
        let queued = RemoteState::read(Some(&queued), &"queued-1".into(), Some(&task));
        assert_eq!(queued.task, Some("t".into()));
        let unsent = Json::parse(r#"{"peer":""}"#).unwrap();
        assert_eq!(RemoteState::read(Some(&unsent), &"queued-1".into(), Some(&task)).task, None);
        let never_sent = Json::parse("{}").unwrap();
        assert_eq!(RemoteState::read(Some(&never_sent), &id, Some(&task)), RemoteState::default());
    }
}
