//! Where a call stands in the chain of calls that it belongs to.
//!
//! The agents on the way are a list that its children share: a child costs one small allocation, however deep it is.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{CallOrigin, HopId, TaskId};

use super::trace::TraceId;

/// The place of a call in its chain of calls: who began it, how deep it is, which agents lie on the way.
///
/// ```
/// use chancery_control::lineage::{TaskContext, TraceId};
///
/// let root = TaskContext::root("planner", TraceId::parse("4bf92f3577b34da6a3ce929d0e0e4736").unwrap());
/// let child = root.child("writer");
/// assert_eq!((root.depth, child.depth), (0, 1));
/// assert_eq!(child.visited.names(), ["planner", "writer"]);
/// assert_eq!(&*child.root_agent_id, "planner");
/// ```
#[derive(Clone, Debug)]
pub struct TaskContext {
    /// The W3C trace; the same for the whole chain.
    pub trace_id: TraceId,
    /// The task on whose behalf the call is made; none at the root, and while that has no task yet.
    pub parent_task_id: Option<TaskId>,
    /// How many calls lie between the root and this one, this one included: 0 at the root.
    pub depth: u16,
    /// The agent that the chain begins with.
    pub root_agent_id: Arc<str>,
    /// The agents on the way, the one that is called here included.
    pub visited: Visited,
}

/// The agents that a chain of calls has come through, shared with every chain that goes on from here.
#[derive(Clone, Default)]
pub struct Visited(Option<Arc<Step>>);

/// One agent on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The agent that was called.
    pub agent: Arc<str>,
    /// Which member of it answered, if it is a pool.
    pub peer: Option<Arc<str>>,
    /// The call; none for an agent that was not called but calls by itself.
    pub hop: Option<HopId>,
}

struct Step {
    visit: Visit,
    /// Agents that may lie on the way, where the way is not known exactly.
    kin: Option<Arc<[Arc<str>]>>,
    before: Visited,
}

// === impl TaskContext ===

impl TaskContext {
    /// The context of a call that nobody was called before.
    pub fn root(agent: impl Into<Visit>, trace_id: TraceId) -> Self {
        let visit = agent.into();
        let root_agent_id = visit.agent.clone();
        let visited = Visited::default().then(visit);
        Self { trace_id, parent_task_id: None, depth: 0, root_agent_id, visited }
    }

    /// The context of a call that this one's agent makes. Its parent task is for whoever knows it to fill in.
    pub fn child(&self, agent: impl Into<Visit>) -> Self {
        Self {
            trace_id: self.trace_id,
            parent_task_id: None,
            depth: self.depth.saturating_add(1),
            root_agent_id: self.root_agent_id.clone(),
            visited: self.visited.then(agent.into()),
        }
    }
}

// === impl Visited ===

impl Visited {
    /// This way, and one agent more.
    pub fn then(&self, visit: Visit) -> Self {
        Self(Some(Arc::new(Step { visit, kin: None, before: self.clone() })))
    }

    /// The way of an agent that calls by itself, and may do so for any of these.
    pub(super) fn from_origin(agent: Arc<str>, kin: Vec<Arc<str>>) -> Self {
        let kin = (!kin.is_empty()).then(|| kin.into());
        Self(Some(Arc::new(Step { visit: agent.into(), kin, before: Self::default() })))
    }

    /// The way to a call from another gateway: as far as that says, and then its caller here, if that is an agent.
    pub(super) fn from_elsewhere(origin: &CallOrigin, caller: Option<&Arc<str>>) -> Self {
        let way = origin.path.iter().fold(Self::default(), |way, agent| way.then(agent.clone().into()));
        match caller.filter(|caller| way.count(caller) == 0) {
            Some(caller) => way.then(caller.clone().into()),
            None => way,
        }
    }

    /// How often an agent lies on the way, as an agent or as the member of a pool.
    pub fn count(&self, agent: &str) -> usize {
        self.steps()
            .map(|step| usize::from(step.visit.is_to(agent)) + usize::from(step.may_hold(agent)))
            .sum()
    }

    /// Whether a call lies on the way.
    pub fn passes(&self, hop: HopId) -> bool {
        self.iter().any(|visit| visit.hop == Some(hop))
    }

    /// The agents on the way, the last one first.
    pub fn iter(&self) -> impl Iterator<Item = &Visit> {
        self.steps().map(|step| &step.visit)
    }

    /// The agents before the last one, with those that may be: each name once for every time it counts.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = &Arc<str>> {
        let own = self.0.iter().flat_map(|step| step.kin.iter().flat_map(|kin| kin.iter()));
        let before = self.steps().skip(1).flat_map(|step| {
            let kin = step.kin.iter().flat_map(|kin| kin.iter());
            std::iter::once(&step.visit.agent).chain(step.visit.peer.iter()).chain(kin)
        });
        own.chain(before)
    }

    /// The names of the agents on the way, the first one first.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.iter().map(|visit| &*visit.agent).collect();
        names.reverse();
        names
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        std::iter::successors(self.0.as_deref(), |step| step.before.0.as_deref())
    }
}

impl fmt::Debug for Visited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

// === impl Visit ===

impl Visit {
    /// Whether this is a visit to an agent, by its own name or as the member of a pool.
    pub fn is_to(&self, agent: &str) -> bool {
        *self.agent == *agent || self.peer.as_deref() == Some(agent)
    }
}

impl From<Arc<str>> for Visit {
    fn from(agent: Arc<str>) -> Self {
        Self { agent, peer: None, hop: None }
    }
}

impl From<&str> for Visit {
    fn from(agent: &str) -> Self {
        Self::from(Arc::from(agent))
    }
}

// === impl Step ===

impl Step {
    fn may_hold(&self, agent: &str) -> bool {
        self.kin.as_ref().is_some_and(|kin| kin.iter().any(|name| **name == *agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> TaskContext {
        TaskContext::root("a", TraceId([1; 16]))
    }

    #[test]
    fn a_child_goes_on_from_its_parent_and_leaves_it_alone() {
        let root = root();
        let one = root.child("b");
        let other = root.child("c").child("d");
        assert_eq!(root.visited.names(), ["a"]);
        assert_eq!(one.visited.names(), ["a", "b"]);
        assert_eq!(other.visited.names(), ["a", "c", "d"]);
        assert_eq!((one.depth, other.depth), (1, 2));
        assert_eq!(other.trace_id, root.trace_id);
        assert_eq!(&*other.root_agent_id, "a");
    }

    #[test]
    fn a_member_of_a_pool_is_visited_under_both_names() {
        let visit = Visit { agent: "pool".into(), peer: Some("member".into()), hop: None };
        let visited = root().child(visit).visited;
        assert_eq!((visited.count("pool"), visited.count("member"), visited.count("other")), (1, 1, 0));
    }

    #[test]
    fn an_uncertain_way_holds_all_that_may_lie_on_it() {
        let visited = Visited::from_origin("x".into(), vec!["a".into(), "b".into()]).then("c".into());
        assert_eq!(visited.names(), ["x", "c"]);
        assert_eq!(visited.count("a"), 1);
        let mut ancestors: Vec<&str> = visited.ancestors().map(|name| &**name).collect();
        ancestors.sort_unstable();
        assert_eq!(ancestors, ["a", "b", "x"]);
    }
}
