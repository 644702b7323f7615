//! One meeting of two parties: who plays which part, and on which wire.

use crate::peer::{PEERS, Peer};
use crate::scenario::{Outcome, Scenario};
use crate::wire::Wire;

/// What the peer is; we are the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) peer: &'static Peer,
    pub(crate) side: Side,
    pub(crate) wire: Wire,
}

/// What came of every scenario, in the order of [`Scenario::ALL`].
#[derive(Clone)]
pub(crate) struct Findings {
    pub(crate) cell: Cell,
    pub(crate) outcomes: Outcomes,
}

pub(crate) type Outcomes = [Outcome; Scenario::ALL.len()];

impl Side {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl Cell {
    /// Where it stands in the table.
    pub(crate) fn place(&self) -> (Side, usize, usize) {
        let row = PEERS.iter().position(|peer| peer.key == self.peer.key).unwrap();
        let wire = self.peer.wires.iter().position(|wire| *wire == self.wire).unwrap();
        (self.side, row, wire)
    }

    pub(crate) fn name(&self) -> String {
        let Self { peer, side, wire } = self;
        format!("{} as {}, v{} {}", peer.key, side.as_str(), wire.version.as_str(), wire.binding.as_str())
    }
}

impl Findings {
    pub(crate) fn each(&self) -> impl Iterator<Item = (Scenario, &Outcome)> {
        Scenario::ALL.into_iter().zip(&self.outcomes)
    }
}

/// The same outcome for every scenario.
pub(crate) fn all_failed(why: &str) -> Outcomes {
    Scenario::ALL.map(|_| Outcome::Failed(why.to_owned()))
}
