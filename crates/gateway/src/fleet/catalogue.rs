//! The members of the fleet for people and programs that look for one: filtered, in pages, and only what the caller may see.

use std::borrow::Cow;

use chancery_protocol::Error;
use chancery_sdk::{Body, Refused, Visitor};
use http::Response;
use serde::Serialize;
use serde_json::{Value, json};

use super::sight::Seen;
use super::{Formation, private_json};

/// How many members a page has unless something is said, and at most.
const PAGE: usize = 50;
const LARGEST_PAGE: usize = 500;

/// What is looked for. All that is said must hold.
#[derive(Debug, Default)]
struct Wanted {
    skill: Option<String>,
    tag: Option<String>,
    text: Option<String>,
    health: Option<String>,
    after: String,
    limit: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    agents: Vec<Value>,
    /// What to ask for the next page with; none if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Formation {
    pub(super) fn show_catalogue(&self, visitor: &Visitor) -> Result<Response<Body>, Refused> {
        let caller = visitor.caller()?;
        let wanted = Wanted::parse(visitor.query())?;
        let mut found = self.regime.roster.exposed_after(&wanted.after).filter_map(|member| {
            let health = self.health(member);
            let seen = self.seen(&caller, member)?;
            wanted.matches(&seen, health.status()).then_some((seen, health))
        });
        let mut agents = Vec::new();
        let mut last = String::new();
        for (seen, health) in found.by_ref().take(wanted.limit) {
            last = seen.member.name.to_string();
            agents.push(self.entry(&seen, &health));
        }
        let next_cursor = found.next().map(|_| last);
        private_json(&Page { agents, next_cursor })
    }

    fn entry(&self, seen: &Seen, health: &super::health::Health) -> Value {
        let Seen { member, card, skills, .. } = seen;
        let url = self.url(&format!("/agents/{}", member.name));
        let skills: Vec<_> = skills
            .iter()
            .map(|skill| json!({"id": skill.id, "name": skill.name, "tags": skill.tags}))
            .collect();
        let mut entry = json!({
            "name": member.name,
            "title": card.name,
            "description": card.description,
            "version": card.version,
            "url": url,
            "card": format!("{url}/.well-known/agent-card.json"),
            "kind": member.kind,
            "trust": member.trust,
            "skills": skills,
            "health": health.public(),
        });
        if member.discovered {
            entry["discovered"] = json!(true);
        }
        entry
    }
}

impl Wanted {
    fn parse<'a>(query: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>) -> Result<Self, Error> {
        let mut wanted = Self { limit: PAGE, ..Self::default() };
        for (name, value) in query {
            let value = value.into_owned();
            match &*name {
                "skill" => wanted.skill = Some(value),
                "tag" => wanted.tag = Some(value),
                "text" => wanted.text = Some(value.to_lowercase()),
                "health" => wanted.health = Some(value),
                "cursor" => wanted.after = value,
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit));
                    let wrong = || Error::invalid_field("limit", format!("must be 1 to {LARGEST_PAGE}"));
                    wanted.limit = limit.ok_or_else(wrong)?;
                }
                other => {
                    let text = "is not known here; there are skill, tag, text, health, limit and cursor";
                    return Err(Error::invalid_field(other, text));
                }
            }
        }
        Ok(wanted)
    }

    fn matches(&self, seen: &Seen, health: &str) -> bool {
        let Seen { member, card, skills, .. } = seen;
        let has = |text: &str, part: &str| text.to_lowercase().contains(part);
        self.skill.as_ref().is_none_or(|id| skills.iter().any(|skill| skill.id == *id))
            && self.tag.as_ref().is_none_or(|tag| skills.iter().any(|skill| skill.tags.contains(tag)))
            && self.health.as_ref().is_none_or(|wanted| wanted == health)
            && self.text.as_ref().is_none_or(|part| {
                has(&member.name, part)
                    || has(&card.name, part)
                    || has(&card.description, part)
                    || skills.iter().any(|skill| has(&skill.name, part) || has(&skill.description, part))
            })
    }
}
