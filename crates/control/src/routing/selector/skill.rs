//! Whoever can do it.

use super::{Choice, NOBODY, PeerSelector, Wanted, at_leisure};
use crate::Millis;
use crate::routing::Snapshot;

/// Of those that declare the skill that the call is for, whoever has least to do. For a call that names no skill, all do.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapabilityMatch;

impl PeerSelector for CapabilityMatch {
    fn name(&self) -> &str {
        "capability_match"
    }

    fn select(&self, candidates: &[Snapshot], wanted: &Wanted<'_>, _: Millis) -> Choice {
        let can = |one: &Snapshot| wanted.skill.is_none_or(|skill| one.peer.has_skill(skill));
        let able = candidates.iter().enumerate().filter(|(_, one)| can(one));
        let idlest = able.min_by_key(|(_, one)| (one.open, at_leisure(one)));
        match (idlest, wanted.skill) {
            (Some((place, _)), Some(_)) => Choice::of(place, "declares the skill, and has least to do"),
            (Some((place, _)), None) => Choice::of(place, "no skill is asked for, and it has least to do"),
            (None, Some(skill)) if !candidates.is_empty() => {
                Choice::none(format!("nobody declares the skill `{skill}`"))
            }
            (None, _) => Choice::none(NOBODY),
        }
    }
}
