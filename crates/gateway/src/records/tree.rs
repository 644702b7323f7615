//! The calls of a root, as the tree that they are.

use std::collections::{BTreeMap, BTreeSet};

use chancery_protocol::{Edge, HopId};

use super::table::{millis_between, usd};

/// One line a call, each below the one on whose behalf it was made. A call whose own has been forgotten stands by
/// itself.
pub(crate) fn tree(edges: &[Edge]) -> Vec<String> {
    let known: BTreeSet<HopId> = edges.iter().map(|edge| edge.hop).collect();
    let mut below: BTreeMap<Option<HopId>, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        // One that were its own parent would never be reached.
        let parent = edge.parent.filter(|parent| known.contains(parent) && *parent < edge.hop);
        below.entry(parent).or_default().push(edge);
    }
    let mut lines = Vec::new();
    // Not by recursion: how deep it goes is not ours to say.
    let mut waiting: Vec<(&Edge, String, &'static str)> = Vec::new();
    for root in below.get(&None).into_iter().flatten().rev() {
        waiting.push((root, String::new(), ""));
    }
    while let Some((edge, before, branch)) = waiting.pop() {
        lines.push(format!("{before}{branch}{}", line(edge)));
        let before = match branch {
            "├─ " => before + "│  ",
            "└─ " => before + "   ",
            _ => before,
        };
        let children = below.get(&Some(edge.hop)).map_or(&[][..], Vec::as_slice);
        for (place, child) in children.iter().enumerate().rev() {
            let is_last = place + 1 == children.len();
            waiting.push((child, before.clone(), if is_last { "└─ " } else { "├─ " }));
        }
    }
    lines
}

fn line(edge: &Edge) -> String {
    let peer = edge.peer.as_ref().map(|peer| format!("/{peer}")).unwrap_or_default();
    let outcome = match &edge.settled {
        None => format!("open, holds {} USD", usd(edge.reserved.micro_usd)),
        Some(settled) => {
            let state = settled.state.map_or("no task", |state| state.as_str());
            let (source, over) = (settled.source.as_str(), settled.overrun);
            let overrun = match over.is_zero() {
                true => String::new(),
                false => format!("  overrun {} USD, {} tokens", usd(over.micro_usd), over.tokens),
            };
            format!(
                "{state}  {} ms  {} USD, {} tokens ({source}){overrun}",
                millis_between(edge.opened, settled.at),
                usd(settled.charged.micro_usd),
                settled.charged.tokens,
            )
        }
    };
    let task = edge.task.as_ref().map(|task| format!("  task {}", task.as_str())).unwrap_or_default();
    format!("{} -> {}{peer}  {outcome}{task}", edge.caller, edge.agent)
}

#[cfg(test)]
mod tests {
    use chancery_protocol::{Amount, CostSource, Settled, TaskState, Timestamp};

    use super::*;

    fn hop(number: u8) -> HopId {
        HopId::from_bytes([number; 16])
    }

    fn edge(number: u8, parent: Option<u8>, caller: &str, agent: &str) -> Edge {
        Edge {
            hop: hop(number),
            root: hop(1),
            parent: parent.map(hop),
            depth: 0,
            trace: None,
            realm: "default".into(),
            caller: caller.into(),
            payer: None,
            groups: Vec::new(),
            used: chancery_protocol::Usage::default(),
            agent: agent.into(),
            skill: None,
            peer: None,
            task: None,
            opened: Timestamp::from_millis(1_000),
            reserved: Amount { micro_usd: 50_000, ..Amount::default() },
            limits: chancery_protocol::CallLimits::default(),
            origin: None,
            settled: Some(Settled {
                at: Timestamp::from_millis(1_250),
                charged: Amount { micro_usd: 10_000, tokens: 7, tasks: 1 },
                overrun: Amount::default(),
                source: CostSource::Declared,
                state: Some(TaskState::Completed),
            }),
        }
    }

    #[test]
    fn each_call_stands_below_the_one_that_it_was_made_for() {
        let open = Edge { settled: None, ..edge(4, Some(2), "search", "north") };
        let edges = [
            edge(1, None, "alice", "plan"),
            edge(2, Some(1), "plan", "search"),
            edge(3, Some(1), "plan", "write"),
            open,
            edge(6, Some(5), "lost", "found"),
        ];
        let done = "TASK_STATE_COMPLETED  250 ms  0.010000 USD, 7 tokens (declared)";
        assert_eq!(
            tree(&edges),
            [
                format!("alice -> plan  {done}"),
                format!("├─ plan -> search  {done}"),
                "│  └─ search -> north  open, holds 0.050000 USD".to_owned(),
                format!("└─ plan -> write  {done}"),
                format!("lost -> found  {done}"),
            ]
        );
    }
}
