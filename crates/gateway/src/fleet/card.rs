//! The cards that no agent writes itself: that of the fleet, and that of a single skill.

use std::collections::BTreeMap;

use chancery_protocol::{AgentCard, AgentExtension, AgentSkill, Caller, ErrorCode, JsonObject};
use chancery_sdk::{Body, Refused, Visitor};
use http::Response;
use serde_json::json;

use super::sight::Seen;
use super::{Formation, Member};
use crate::config::FleetSection;

/// The extension by which a card says that it is a fleet's, and who is in the fleet.
pub(crate) const FLEET_EXTENSION: &str = "urn:chancery:ext:fleet:v1";

/// The card of the fleet for somebody who may see these members.
pub(super) fn of_fleet(about: &FleetSection, url: &str, seen: &[Seen]) -> AgentCard {
    let mut card = AgentCard::new(&*about.name, &*about.description, &*about.version);
    card.capabilities.streaming = Some(true);
    card.capabilities.push_notifications = Some(true);
    card.capabilities.extended_agent_card = Some(true);
    card.capabilities.extensions.push(directory(url, seen));
    let mut skills: BTreeMap<&str, AgentSkill> = BTreeMap::new();
    for skill in seen.iter().flat_map(|seen| &seen.believed) {
        skills.entry(&skill.id).or_insert_with(|| skill.clone());
    }
    card.skills = skills.into_values().collect();
    card
}

fn directory(url: &str, seen: &[Seen]) -> AgentExtension {
    let members: Vec<_> = seen
        .iter()
        .map(|Seen { member, .. }| {
            let url = format!("{url}/agents/{}", member.name);
            let card = format!("{url}/.well-known/agent-card.json");
            let mut entry = json!({"name": member.name, "url": url, "card": card});
            if member.discovered {
                // Whoever discovers this fleet is to find it where it is.
                entry["discovered"] = json!(true);
            }
            entry
        })
        .collect();
    let mut extension = AgentExtension::new(FLEET_EXTENSION);
    extension.description =
        "Who is in the fleet. A message to the fleet goes to whoever has the skill that it names under urn:chancery:ext:skill:v1"
            .to_owned();
    let params = json!({"catalogue": format!("{url}/agents/"), "members": members});
    extension.params = JsonObject::from_value(&params).ok();
    extension
}

impl Formation {
    /// The fleet's card for whoever asks. Somebody who does not say who they are sees what nobody in particular may see.
    pub(crate) fn show_card(&self, visitor: &Visitor) -> Result<Response<Body>, Refused> {
        let says_who =
            ["authorization", "x-api-key"].iter().any(|name| visitor.head().headers.contains_key(*name));
        let seen = match visitor.caller() {
            Ok(caller) => self.seen_by(&caller),
            Err(refused) if refused.error.code() == ErrorCode::Unauthenticated && !says_who => Vec::new(),
            Err(refused) => return Err(refused),
        };
        Ok(visitor.show_card("", "", of_fleet(&self.regime.about, &self.url(""), &seen))?)
    }

    /// The same as an answer to a call.
    pub(super) fn card_for(&self, caller: &Caller) -> AgentCard {
        let seen = self.seen_by(caller);
        let mut card = of_fleet(&self.regime.about, &self.url(""), &seen);
        if let Some(service) = self.service.get() {
            service.complete_card("", "", &mut card);
        }
        self.regime.extend_card(&mut card, caller);
        card
    }

    /// Whether an agent has a skill.
    pub(super) fn has_skill(&self, agent: &str, skill: &str) -> bool {
        self.regime.card(agent).is_some_and(|card| card.skills.iter().any(|known| known.id == skill))
    }

    /// The card of one skill of an agent, as though it were an agent of its own.
    pub(super) fn show_skill(
        &self,
        visitor: &Visitor,
        member: &Member,
        skill: &str,
    ) -> Result<Response<Body>, Refused> {
        let gone = || Refused::from(chancery_protocol::Error::new(ErrorCode::TaskNotFound));
        let mut card = AgentCard::clone(&*self.regime.card(&member.name).ok_or_else(gone)?);
        card.skills.retain(|known| known.id == skill);
        let Some(only) = card.skills.first() else { return Err(gone()) };
        card.name = format!("{}: {}", card.name, only.name);
        card.description.clone_from(&only.description);
        let segment = percent_encoding::utf8_percent_encode(skill, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("/agents/{}/skills/{segment}", member.name);
        Ok(visitor.show_card(&path, "", card)?)
    }
}
