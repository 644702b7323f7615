//! One meeting of two parties: who plays which part, and on which wire.

use crate::peer::{Peer, Place, Player};
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
    /// Whom our relay calls, if it is between the peer and somebody else.
    pub(crate) upstream: Option<Upstream>,
}

/// A server behind our relay.
#[derive(Clone, Copy)]
pub(crate) struct Upstream {
    pub(crate) peer: &'static Peer,
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
    /// Where it stands in the tables.
    pub(crate) fn place(&self) -> (bool, Side, Place, Option<Place>) {
        let upstream = self.upstream.map(|upstream| upstream.peer.place(upstream.wire));
        (upstream.is_some(), self.side, self.peer.place(self.wire), upstream)
    }

    pub(crate) fn name(&self) -> String {
        let Self { peer, side, wire, upstream } = self;
        let name = format!("{} as {}, {wire}", peer.key, side.as_str());
        match upstream {
            None => name,
            Some(Upstream { peer, wire }) => format!("{name}, of our relay to {}, {wire}", peer.key),
        }
    }

    /// The program that drives the peer.
    pub(crate) fn player(&self) -> &'static Player {
        self.peer.player(self.side).unwrap()
    }

    /// Whether it makes sense to ask for a scenario: whether all who take part can do it.
    pub(crate) fn can(&self, scenario: Scenario) -> bool {
        let there = self.upstream.is_none_or(|upstream| {
            let can = |scenario| upstream.peer.player(Side::Server).unwrap().can(scenario, upstream.wire);
            match scenario {
                // The relay lists and notifies by itself, whether or not there is somebody behind it who can.
                Scenario::List => can(Scenario::Send),
                Scenario::Push => can(Scenario::InputRequired),
                _ => can(scenario),
            }
        });
        there && self.player().can(scenario, self.wire)
    }
}

impl Findings {
    /// Whatever came of what was not to be asked for does not count.
    pub(crate) fn new(cell: Cell, mut outcomes: Outcomes) -> Self {
        for (scenario, outcome) in Scenario::ALL.into_iter().zip(&mut outcomes) {
            if !cell.can(scenario) {
                *outcome = Outcome::NotThere;
            }
        }
        Self { cell, outcomes }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (Scenario, &Outcome)> {
        Scenario::ALL.into_iter().zip(&self.outcomes)
    }
}

/// The same outcome for every scenario.
pub(crate) fn all_failed(why: &str) -> Outcomes {
    Scenario::ALL.map(|_| Outcome::Failed(why.to_owned()))
}
