//! A list of those who may come in. Who is not on it stays out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chancery_protocol::{Denied, Operation, Proof};

use super::resolver::{Access, IdentityResolver};

/// Lets in whom one of its rules lets in.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    callers: HashMap<Arc<str>, Vec<AllowRule>>,
    groups: HashMap<Arc<str>, Vec<AllowRule>>,
    agent_ids: HashMap<Arc<str>, Vec<AllowRule>>,
    proven: Vec<AllowRule>,
    anyone: Vec<AllowRule>,
}

/// Lets somebody in: by default from every realm, to every agent, for every operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowRule {
    /// Who.
    pub who: Who,
    /// From which realm; from any if none.
    pub realm: Option<Arc<str>>,
    /// To which agents; to all if none.
    pub agents: Option<BTreeSet<Arc<str>>>,
    /// For which operations; for all if none.
    pub operations: Option<Vec<Operation>>,
}

/// Whom a rule lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The caller of this name.
    Caller(Arc<str>),
    /// Whoever belongs to this group.
    Group(Arc<str>),
    /// The agent that signs with the key that has this id.
    AgentId(Arc<str>),
    /// Whoever has proven who it is.
    Proven,
    /// Everybody, anonymous callers included.
    Anyone,
}

// === impl AllowList ===

impl AllowList {
    /// A list of these rules. Their order does not matter.
    pub fn new(rules: impl IntoIterator<Item = AllowRule>) -> Self {
        let mut list = Self::default();
        for rule in rules {
            match &rule.who {
                Who::Caller(name) => list.callers.entry(name.clone()).or_default(),
                Who::Group(name) => list.groups.entry(name.clone()).or_default(),
                Who::AgentId(id) => list.agent_ids.entry(id.clone()).or_default(),
                Who::Proven => &mut list.proven,
                Who::Anyone => &mut list.anyone,
            }
            .push(rule);
        }
        list
    }

    /// The rule that lets this in, if there is one.
    pub fn rule_for(&self, access: &Access<'_>) -> Option<&AllowRule> {
        let identity = access.identity;
        let proven = if identity.proof == Proof::Anonymous { &[] } else { self.proven.as_slice() };
        let agent_id = identity.agent_id.as_ref().and_then(|id| self.agent_ids.get(id));
        let callers = self.callers.get(&access.principal.id).into_iter().flatten();
        let groups = identity.groups.iter().filter_map(|group| self.groups.get(group)).flatten();
        callers
            .chain(groups)
            .chain(agent_id.into_iter().flatten())
            .chain(proven)
            .chain(&self.anyone)
            .find(|rule| rule.allows(access))
    }
}

impl IdentityResolver for AllowList {
    fn resolve(&self, access: &Access<'_>) -> Result<(), Denied> {
        if self.rule_for(access).is_some() { Ok(()) } else { Err(access.denied()) }
    }
}

// === impl AllowRule ===

impl AllowRule {
    /// Lets somebody in everywhere.
    pub fn new(who: Who) -> Self {
        Self { who, realm: None, agents: None, operations: None }
    }

    /// Lets it in from this realm only.
    #[must_use]
    pub fn realm(mut self, realm: impl Into<Arc<str>>) -> Self {
        self.realm = Some(realm.into());
        self
    }

    /// Lets it in to these agents only.
    #[must_use]
    pub fn agents<A: Into<Arc<str>>>(mut self, agents: impl IntoIterator<Item = A>) -> Self {
        self.agents = Some(agents.into_iter().map(Into::into).collect());
        self
    }

    /// Lets it in for these operations only.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = Some(operations.into_iter().collect());
        self
    }

    fn allows(&self, access: &Access<'_>) -> bool {
        self.realm.as_ref().is_none_or(|realm| *realm == access.principal.realm)
            && self.agents.as_ref().is_none_or(|agents| agents.contains(access.agent))
            && self.operations.as_ref().is_none_or(|operations| operations.contains(&access.operation))
    }
}

#[cfg(test)]
mod tests {
    use chancery_protocol::{Caller, DeniedKind, Identity, Principal};

    use super::*;

    fn caller(id: &str, groups: &[&str], agent_id: Option<&str>) -> Caller {
        let identity = Identity {
            proof: Proof::ApiKey,
            groups: groups.iter().map(|group| Arc::from(*group)).collect(),
            agent_id: agent_id.map(Arc::from),
            ..Identity::default()
        };
        Caller { principal: Principal::new("default", id), identity: Arc::new(identity) }
    }

    fn allows(rule: AllowRule, caller: &Caller, agent: &str, operation: Operation) -> bool {
        AllowList::new([rule]).resolve(&Access::new(caller, agent, operation)).is_ok()
    }

    #[test]
    fn nobody_is_let_in_who_is_not_on_the_list() {
        let access =
            |caller: &Caller| AllowList::default().resolve(&Access::new(caller, "a", Operation::GetTask));
        let denied = access(&caller("alice", &["staff"], Some("id"))).unwrap_err();
        assert_eq!(
            (&*denied.gate, denied.kind, &*denied.reason),
            ("identity", DeniedKind::Forbidden, "CALLER_NOT_ALLOWED")
        );
        assert!(access(&Caller::anonymous()).is_err());
    }

    #[test]
    fn a_rule_lets_in_whom_it_names_and_nobody_else() {
        let alice = caller("alice", &["staff", "ops"], Some("id-a"));
        let bob = caller("bob", &["guests"], None);
        let anonymous = Caller::anonymous();
        for (who, expected) in [
            (Who::Caller("alice".into()), [true, false, false]),
            (Who::Caller("anonymous".into()), [false, false, true]),
            (Who::Group("ops".into()), [true, false, false]),
            (Who::AgentId("id-a".into()), [true, false, false]),
            (Who::Proven, [true, true, false]),
            (Who::Anyone, [true, true, true]),
        ] {
            let allowed = [&alice, &bob, &anonymous]
                .map(|caller| allows(AllowRule::new(who.clone()), caller, "a", Operation::SendMessage));
            assert_eq!(allowed, expected, "{who:?}");
        }
    }

    #[test]
    fn a_rule_holds_for_its_realm_agents_and_operations() {
        let alice = caller("alice", &[], None);
        let rule = || AllowRule::new(Who::Caller("alice".into()));
        assert!(!allows(rule().realm("other"), &alice, "a", Operation::GetTask));
        assert!(allows(rule().realm("default"), &alice, "a", Operation::GetTask));
        assert!(!allows(rule().agents(["b"]), &alice, "a", Operation::GetTask));
        assert!(allows(rule().agents(["a", "b"]), &alice, "a", Operation::GetTask));
        assert!(!allows(rule().operations([Operation::SendMessage]), &alice, "a", Operation::GetTask));
        assert!(allows(rule().operations([Operation::GetTask]), &alice, "a", Operation::GetTask));
        // Nothing named is not the same as everything.
        assert!(!allows(rule().agents([""; 0]), &alice, "a", Operation::GetTask));
    }

    #[test]
    fn an_agent_that_is_not_there_is_refused_alike() {
        let alice = caller("alice", &[], None);
        let list = AllowList::new([AllowRule::new(Who::Caller("alice".into())).agents(["mine"])]);
        let refusal = |agent| list.resolve(&Access::new(&alice, agent, Operation::SendMessage)).unwrap_err();
        assert_eq!(refusal("theirs"), refusal("nobody's"));
    }
}
