//! What is known not to work, because of the other side: `interop/known.toml`.

use std::cell::Cell as Flag;

use serde::Deserialize;

use crate::cell::{Cell, Findings, Side, Upstream};
use crate::peer::{Peer, folder};
use crate::scenario::{Outcome, Scenario};
use crate::wire::Wire;

/// All reasons there are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    #[serde(default)]
    pub(crate) known: Vec<Reason>,
}

/// Why a scenario fails, and how it is seen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    peer: String,
    side: String,
    /// Every binding, if there is none.
    #[serde(default)]
    bindings: Vec<String>,
    scenario: String,
    /// Part of what the failure says, so that this excuses no other failure.
    shows: String,
    pub(crate) reason: String,
    pub(crate) evidence: String,
    /// Whether anything has failed for this reason.
    #[serde(skip)]
    seen: Flag<bool>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Known {
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(folder().join("known.toml")).expect("interop/known.toml");
        toml::from_str(&text).unwrap_or_else(|error| panic!("interop/known.toml: {error}"))
    }

    /// The place of the reason for a failure, if there is one.
    pub(crate) fn reason(&self, cell: &Cell, scenario: Scenario, outcome: &Outcome) -> Option<usize> {
        let Outcome::Failed(detail) = outcome else { return None };
        self.known.iter().position(|reason| reason.is_for(cell, scenario) && detail.contains(&reason.shows))
    }

    /// Tells of every cell, and counts.
    pub(crate) fn judge(&self, met: &[Findings]) -> Counts {
        let mut counts = Counts::default();
        for findings in met {
            println!("\n{}", findings.cell.name());
            for (scenario, outcome) in findings.each() {
                let verdict = match (outcome, self.reason(&findings.cell, scenario, outcome)) {
                    (Outcome::NotThere, _) => continue,
                    (Outcome::Ok, _) => "ok".to_owned(),
                    (Outcome::Failed(detail), Some(index)) => {
                        self.known[index].seen.set(true);
                        format!("known: {detail}")
                    }
                    (Outcome::Failed(detail), None) => {
                        counts.failed += 1;
                        println!("  {:<15} FAILED: {detail}", scenario.name());
                        continue;
                    }
                };
                counts.passed += 1;
                println!("  {:<15} {verdict}", scenario.name());
            }
        }
        counts
    }

    /// Tells of reasons that nothing failed for, after every cell was judged.
    pub(crate) fn complain_of_idle(&self, peers: &[&Peer]) -> usize {
        let took_part = |reason: &&Reason| peers.iter().any(|peer| peer.key == reason.peer);
        let idle = self.known.iter().filter(|reason| !reason.seen.get()).filter(took_part);
        let complain = |reason: &Reason| {
            let Reason { peer, side, scenario, .. } = reason;
            println!(
                "\nFAILED: interop/known.toml excuses {scenario} of {peer} as {side}, which does not fail so"
            );
        };
        idle.inspect(|reason| complain(reason)).count()
    }
}

impl Reason {
    /// Whether it is about one of those who take part, in its part.
    fn is_for(&self, cell: &Cell, scenario: Scenario) -> bool {
        let takes_part = |peer: &Peer, side: Side, wire: Wire| {
            self.peer == peer.key
                && self.side == side.as_str()
                && (self.bindings.is_empty() || self.bindings.iter().any(|one| one == wire.binding.as_str()))
        };
        let upstream = |there: &Upstream| takes_part(there.peer, Side::Server, there.wire);
        self.scenario == scenario.name()
            && (takes_part(cell.peer, cell.side, cell.wire) || cell.upstream.as_ref().is_some_and(upstream))
    }
}
