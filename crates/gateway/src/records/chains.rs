//! How long calls take, by the chain of agents that leads to them: where a tree of calls is slow.

use std::collections::{BTreeMap, HashMap};

use chancery_protocol::{Edge, HopId};

use super::table::millis_between;

/// All calls that came by the same agents.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The agents, from the root on: `plan > search > north`.
    pub(crate) agents: String,
    /// How many calls have ended.
    pub(crate) calls: usize,
    /// Half of them took no longer, in milliseconds.
    pub(crate) p50_ms: u64,
    /// All but one in twenty took no longer.
    pub(crate) p95_ms: u64,
    /// The longest.
    pub(crate) max_ms: u64,
}

/// The longest chain that is written out. What is deeper is not likely to be meant.
const MOST_AGENTS: usize = 64;

/// The slowest first, by what all but one in twenty took. Calls that are open do not count.
pub(crate) fn chains(edges: &[Edge]) -> Vec<Chain> {
    let by_hop: HashMap<HopId, &Edge> = edges.iter().map(|edge| (edge.hop, edge)).collect();
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for edge in edges {
        if let Some(settled) = &edge.settled {
            times.entry(agents(edge, &by_hop)).or_default().push(millis_between(edge.opened, settled.at));
        }
    }
    let mut chains: Vec<_> = times.into_iter().map(|(agents, times)| Chain::of(agents, times)).collect();
    chains.sort_by_key(|chain| std::cmp::Reverse((chain.p95_ms, chain.max_ms)));
    chains
}

fn agents(edge: &Edge, by_hop: &HashMap<HopId, &Edge>) -> String {
    let above = |edge: &&Edge| edge.parent.and_then(|parent| by_hop.get(&parent).copied());
    let mut names: Vec<&str> =
        std::iter::successors(Some(edge), above).take(MOST_AGENTS).map(|edge| &*edge.agent).collect();
    names.reverse();
    names.join(" > ")
}

impl Chain {
    fn of(agents: String, mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        // The smallest that so many of a hundred do not pass.
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).saturating_sub(1)];
        Self { agents, calls: times.len(), p50_ms: at(50), p95_ms: at(95), max_ms: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let chain = Chain::of("a".to_owned(), (1..=100).rev().collect());
        assert_eq!((chain.calls, chain.p50_ms, chain.p95_ms, chain.max_ms), (100, 50, 95, 100));
        let one = Chain::of("a".to_owned(), vec![7]);
        assert_eq!((one.p50_ms, one.p95_ms, one.max_ms), (7, 7, 7));
    }
}
