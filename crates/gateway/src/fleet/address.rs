//! Which path leads where: the fleet's own addresses, and other names for those of its members.

use chancery_sdk::protocol::Principal;
use chancery_sdk::{Routes, WELL_KNOWN_CARD, Way};
use http::Method;
use http::request::Parts;

use super::{FLEET, Formation};
use crate::routes::{self, FleetRoute, Found};

/// What no agent of any kind can be called: the first segments of paths that are served here, the names that lead elsewhere, and
/// whom nobody knows.
pub(crate) const RESERVED: [&str; 22] = [
    FLEET,
    "a2a",
    "admin",
    "agents",
    Principal::ANONYMOUS,
    "card",
    "console",
    "extendedagentcard",
    "healthz",
    "invoke",
    "jsonrpc",
    "livez",
    "message",
    "metrics",
    "negotiate",
    "readyz",
    "rpc",
    "schemas",
    "tasks",
    "v1",
    "well-known",
    "whoami",
];

/// The fleet, as the server asks it where requests lead.
pub(crate) struct Addresses(pub(crate) Formation);

impl Routes for Addresses {
    fn find(&self, head: &Parts) -> Option<Way> {
        let found = routes::find(&routes::FLEET, &head.method, head.uri.path())?;
        let name = found.first().unwrap_or_default();
        let alias = |below: String, plain| Way::Agent { name: name.into(), below, skill: None, plain };
        let of_fleet = |below| Way::Agent { name: FLEET.into(), below, skill: None, plain: true };
        match found.route {
            FleetRoute::Card => Some(self.fleet_card()),
            FleetRoute::Catalogue => Some(self.catalogue()),
            FleetRoute::Active | FleetRoute::SkillCard | FleetRoute::Skill | FleetRoute::Member => {
                self.member(name, &found)
            }
            FleetRoute::Tasks if head.method == Method::POST => Some(of_fleet("/message:send".to_owned())),
            FleetRoute::Tasks => Some(of_fleet("/tasks".to_owned())),
            FleetRoute::Task => Some(of_fleet(format!("/tasks/{name}"))),
            FleetRoute::CancelTask => Some(of_fleet(format!("/tasks/{name}:cancel"))),
            FleetRoute::SubscribeToTask => Some(of_fleet(format!("/tasks/{name}:subscribe"))),
            FleetRoute::ExtendedCard => Some(alias("/extendedAgentCard".to_owned(), true)),
            FleetRoute::MemberAlias => Some(alias(found.below().to_owned(), false)),
        }
    }
}

impl Addresses {
    fn fleet_card(&self) -> Way {
        let fleet = self.0.clone();
        Way::answer(move |visitor| async move { fleet.show_card(&visitor) })
    }

    fn catalogue(&self) -> Way {
        let fleet = self.0.clone();
        Way::answer(move |visitor| async move { fleet.show_catalogue(&visitor) })
    }

    /// What is below `/agents/`.
    fn member(&self, name: &str, found: &Found<'_, FleetRoute>) -> Option<Way> {
        // What the root answers is not to be found here.
        let Some(member) = self.0.regime.roster.get(name).cloned() else { return Some(Way::Nowhere) };
        let fleet = self.0.clone();
        if found.route == FleetRoute::Active && member.exposed {
            return Some(Way::answer(
                move |visitor| async move { fleet.show_active(&visitor, &member).await },
            ));
        }
        let skill = percent_decoded(found.second()?)?;
        if !self.0.has_skill(&member.name, &skill) {
            return Some(Way::Nowhere);
        }
        if found.route == FleetRoute::SkillCard && member.exposed {
            return Some(Way::answer(
                move |visitor| async move { fleet.show_skill(&visitor, &member, &skill) },
            ));
        }
        let of_whole = (found.route == FleetRoute::SkillCard).then_some(WELL_KNOWN_CARD);
        Some(Way::Agent {
            name: member.name,
            below: of_whole.unwrap_or(found.below()).to_owned(),
            skill: Some(skill.as_str().into()),
            plain: false,
        })
    }
}

/// A segment as it was meant, if it is text.
fn percent_decoded(segment: &str) -> Option<String> {
    percent_encoding::percent_decode_str(segment).decode_utf8().ok().map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_in_order_and_could_be_a_name() {
        assert!(RESERVED[1..].is_sorted());
        assert!(RESERVED.iter().all(|name| chancery_sdk::is_agent_name(name)));
    }
}
