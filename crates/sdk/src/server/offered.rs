//! What can be put at a path: an agent of one's own, or one that runs elsewhere.

use std::sync::Arc;

use chancery_protocol::AgentCard;

use super::card::{Place, derive, derive_relayed};
use crate::relay::Relay;
use crate::spec::{AgentSpec, name_problem};

/// What is put at a path.
#[derive(Debug)]
pub(super) enum Offered {
    Agent(Box<AgentSpec>),
    Relay(Box<Relay>),
}

impl Offered {
    pub(super) fn name(&self) -> &Arc<str> {
        match self {
            Self::Agent(spec) => &spec.name,
            Self::Relay(relay) => &relay.name,
        }
    }

    pub(super) fn pushes(&self) -> bool {
        match self {
            Self::Agent(spec) => spec.push_notifications,
            Self::Relay(relay) => relay.push_notifications,
        }
    }

    pub(super) fn card(&self, place: &Place) -> AgentCard {
        match self {
            Self::Agent(spec) => derive(spec, place),
            Self::Relay(relay) => derive_relayed(relay, relay.card.as_deref(), place),
        }
    }

    pub(super) fn problems(&self) -> Vec<String> {
        match self {
            Self::Agent(spec) => spec.problems(),
            Self::Relay(relay) => name_problem(&relay.name).into_iter().collect(),
        }
    }
}
