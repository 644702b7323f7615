//! Which task of ours a client means by the id that it has made up.
//!
//! Ids that clients make are theirs alone: two callers may choose the same one. So ours is made from who calls, whom, and
//! the client's id, in a way that always gives the same and cannot be turned round. Nothing has to be remembered, and
//! nobody can name a task of somebody else.

use chancery_protocol::{CallContext, Error, TaskId};
use sha2::{Digest, Sha256};
use uuid::Builder;

/// As many bytes as any other id may have.
const MAX_BYTES: usize = 256;

/// The id of the task that this caller names so.
pub(super) fn ours(context: &CallContext, name: &TaskId) -> Result<TaskId, Error> {
    let length = name.as_str().len();
    if length == 0 || length > MAX_BYTES {
        return Err(Error::invalid_field("id", format!("must have 1 to {MAX_BYTES} bytes")));
    }
    let (realm, owner) = (&*context.principal.realm, &*context.principal.id);
    let mut digest = Sha256::new_with_prefix(b"a2a v0.1 task");
    for part in [realm, owner, &*context.agent, name.as_str()] {
        // With its length before it, no part can end where another begins.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    Ok(TaskId::from(Builder::from_custom_bytes(bytes).into_uuid().to_string()))
}

/// The key that makes a repeated beginning of a task join the first.
pub(super) fn key(ours: &TaskId) -> String {
    format!("v0.1 {ours}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use chancery_protocol::Principal;

    fn named(realm: &str, owner: &str, agent: &str, name: &str) -> String {
        let context = CallContext::new(Principal::new(realm, owner), agent.into());
        ours(&context, &name.into()).unwrap().to_string()
    }

    #[test]
    fn a_name_means_one_task_of_one_caller() {
        let mine = named("r", "o", "a", "1");
        assert_eq!(mine, named("r", "o", "a", "1"));
        assert_eq!(uuid::Uuid::parse_str(&mine).unwrap().get_version_num(), 8);
        for other in [
            named("s", "o", "a", "1"),
            named("r", "p", "a", "1"),
            named("r", "o", "b", "1"),
            named("r", "o", "a", "2"),
            named("ro", "", "a", "1"),
        ] {
            assert_ne!(mine, other);
        }
    }

    #[test]
    fn a_name_has_a_sensible_length() {
        let context = CallContext::new(Principal::anonymous(), "a".into());
        assert!(ours(&context, &"".into()).is_err());
        assert!(ours(&context, &"x".repeat(256).into()).is_ok());
        assert!(ours(&context, &"x".repeat(257).into()).is_err());
    }
}
