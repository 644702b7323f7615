//! May this caller come in? Asked of every call, before anything is looked up.

use std::collections::HashSet;

use chancery_protocol::{CallContext, Caller, Denied, DeniedKind, Identity, Operation, Principal};
use parking_lot::RwLock;

use super::{GATE, NOT_ALLOWED};

/// Who wants to do what with which agent.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Who it is.
    pub principal: &'a Principal,
    /// What else was proven about it.
    pub identity: &'a Identity,
    /// The agent that is called; nobody has looked yet whether there is one.
    pub agent: &'a str,
    /// What is asked of it.
    pub operation: Operation,
}

/// Says whether a caller may come in. [`AllowAll`] and [`AllowList`](super::AllowList) are given; an application may
/// have its own, for one by asking a directory that it keeps in memory. It is asked within every call, so it must not
/// wait for anything.
///
/// ```
/// use chancery_control::identity::{Access, IdentityResolver};
/// use chancery_protocol::{Denied, Operation};
///
/// /// Nobody but operators may cancel.
/// struct Operators;
///
/// impl IdentityResolver for Operators {
///     fn resolve(&self, access: &Access<'_>) -> Result<(), Denied> {
///         let is_operator = access.identity.groups.iter().any(|group| &**group == "operators");
///         if access.operation != Operation::CancelTask || is_operator { Ok(()) } else { Err(access.denied()) }
///     }
/// }
/// ```
pub trait IdentityResolver: Send + Sync + 'static {
    /// Nothing if it may, and the refusal if not. An agent that is not there is refused like one that is.
    fn resolve(&self, access: &Access<'_>) -> Result<(), Denied>;
}

/// Lets everybody in that could be identified, and says so in the log, once for each.
#[derive(Debug, Default)]
pub struct AllowAll(RwLock<HashSet<Principal>>);

/// How many callers [`AllowAll`] remembers to have named.
const MAX_NAMED: usize = 1024;

// === impl Access ===

impl<'a> Access<'a> {
    /// A caller that wants to do something with an agent.
    pub fn new(caller: &'a Caller, agent: &'a str, operation: Operation) -> Self {
        Self { principal: &caller.principal, identity: &caller.identity, agent, operation }
    }

    /// What a call is about.
    pub fn of(context: &'a CallContext, operation: Operation) -> Self {
        Self { principal: &context.principal, identity: &context.identity, agent: &context.agent, operation }
    }

    /// The refusal. It says nothing about the agent.
    pub fn denied(&self) -> Denied {
        let Principal { realm, id } = self.principal;
        Denied {
            observed: Some(format!("caller {id} of realm {realm}, operation {}", self.operation.method())),
            hint: Some("ask the operator to let this caller in, or call as somebody who may".to_owned()),
            ..Denied::new(GATE, DeniedKind::Forbidden, NOT_ALLOWED)
        }
    }
}

// === impl AllowAll ===

impl IdentityResolver for AllowAll {
    fn resolve(&self, access: &Access<'_>) -> Result<(), Denied> {
        if self.is_new(access.principal) {
            let Principal { realm, id } = access.principal;
            tracing::warn!(caller = %id, %realm, "letting caller {id} in, as no list says who may come in");
        }
        Ok(())
    }
}

impl AllowAll {
    fn is_new(&self, principal: &Principal) -> bool {
        let known = self.0.read();
        if known.contains(principal) || known.len() >= MAX_NAMED {
            return false;
        }
        drop(known);
        self.0.write().insert(principal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_let_in_and_named_once() {
        let all = AllowAll::default();
        let caller = Caller::from(Principal::new("default", "alice"));
        assert!(all.is_new(&caller.principal));
        assert!(!all.is_new(&caller.principal));
        assert!(all.resolve(&Access::new(&caller, "any", Operation::SendMessage)).is_ok());
        for number in 0..2 * MAX_NAMED {
            all.is_new(&Principal::new("default", number.to_string()));
        }
        assert_eq!(all.0.read().len(), MAX_NAMED);
    }
}
