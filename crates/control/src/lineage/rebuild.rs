//! The table of open calls, made again from the records of the journal when a process begins.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use chancery_protocol::{Edge, HopId};

use super::context::{TaskContext, Visit, Visited};
use super::open::{Allowance, Open, OpenHop};
use super::rules::DEEPEST;
use super::trace::{TraceId, Traceparent};

/// What was found in the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Calls that are open again.
    pub open: usize,
    /// Those among them of which some call on the way was not in the records, so that the agents there are not known. They
    /// go on, but nothing more is done on their behalf.
    pub incomplete: usize,
}

/// The records by call, and what has been made of them so far.
struct Records<'a, F> {
    edges: HashMap<HopId, &'a Edge>,
    agent_of: F,
}

impl Open {
    /// Makes the table again. Give it the records of all roots that have open calls, ended calls included: those say
    /// which agents lie on the way. `agent_of` says which agent of the fleet a caller is, by realm and name.
    pub fn rebuild(
        most: usize,
        edges: &[Edge],
        agent_of: impl Fn(&str, &str) -> Option<Arc<str>>,
    ) -> (Self, Rebuilt) {
        let table = Self::new(most);
        let by_hop = edges.iter().map(|edge| (edge.hop, edge)).collect();
        let records = Records { edges: by_hop, agent_of };
        let mut rebuilt = Rebuilt::default();
        for edge in edges.iter().filter(|edge| edge.settled.is_none()) {
            let (hop, complete) = records.open_hop(edge);
            rebuilt.open += 1;
            rebuilt.incomplete += usize::from(!complete);
            table.restore(hop);
        }
        for edge in edges.iter().filter(|edge| edge.settled.is_some() && edge.hop != edge.root) {
            table.count_ended(edge.root, 1);
        }
        (table, rebuilt)
    }
}

// === impl Records ===

impl<F: Fn(&str, &str) -> Option<Arc<str>>> Records<'_, F> {
    /// An open call, and whether all on the way to it is known.
    fn open_hop(&self, edge: &Edge) -> (OpenHop, bool) {
        let (way, complete) = self.way(edge);
        let first = way.last().copied().unwrap_or(edge);
        let caller = (self.agent_of)(&first.realm, &first.caller);
        let mut visited = match (&first.origin, &caller) {
            (Some(origin), caller) => Visited::from_elsewhere(origin, caller.as_ref()),
            (None, Some(caller)) => Visited::default().then(caller.clone().into()),
            (None, None) => Visited::default(),
        };
        let root_agent = first.origin.as_ref().map(|origin| origin.root_agent.clone()).or(caller);
        for step in way.iter().rev() {
            let hop = Some(step.hop);
            visited = visited.then(Visit { agent: step.agent.clone(), peer: step.peer.clone(), hop });
        }
        let trace = edge.trace.as_deref().and_then(trace_in).unwrap_or_else(|| TraceId::of(edge.root));
        let parent_task = edge.parent.and_then(|parent| self.edges.get(&parent)?.task.clone());
        let hop = OpenHop {
            hop: edge.hop,
            root: edge.root,
            parent: edge.parent,
            origin: first.origin.clone(),
            realm: edge.realm.clone(),
            caller: edge.caller.clone(),
            agent: edge.agent.clone(),
            peer: edge.peer.clone(),
            context: TaskContext {
                trace_id: trace,
                parent_task_id: parent_task,
                depth: edge.depth,
                root_agent_id: root_agent.unwrap_or_else(|| first.agent.clone()),
                visited,
            },
            reserved: edge.reserved,
            allowance: Allowance::default(),
            perhaps_for: Box::default(),
            perhaps_for_nobody: AtomicBool::new(false),
            // Who is on a way that is not known might be called again.
            sealed: AtomicBool::new(!complete),
            task: edge.task.clone().map_or_else(OnceLock::new, OnceLock::from),
        };
        (hop, complete)
    }

    /// The calls from this one back to its root, and whether none of them is missing.
    fn way<'b>(&'b self, edge: &'b Edge) -> (Vec<&'b Edge>, bool) {
        let mut way = vec![edge];
        let mut last = edge;
        while let Some(parent) = last.parent {
            let known = self.edges.get(&parent).filter(|_| way.len() <= usize::from(DEEPEST));
            let Some(parent) = known else { return (way, false) };
            way.push(parent);
            last = parent;
        }
        (way, true)
    }
}

/// A record has the trace by its id, or the whole header.
fn trace_in(text: &str) -> Option<TraceId> {
    TraceId::parse(text).or_else(|| Some(Traceparent::parse(text)?.trace))
}
