//! Which path leads where: the fleet's own addresses, and other names for those of its members.

use chancery_sdk::protocol::Principal;
use chancery_sdk::{Routes, Way};
use http::Method;
use http::request::Parts;

use super::{FLEET, Formation};

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
        let path = head.uri.path();
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        if is_read && is_card(path) {
            return Some(self.fleet_card());
        }
        if is_read && (path == "/agents" || path == "/agents/") {
            return Some(self.catalogue());
        }
        if let Some(rest) = path.strip_prefix("/agents/") {
            return self.member(is_read, rest);
        }
        let rest = path.strip_prefix("/a2a/")?;
        let (name, below) = split(rest);
        if name == "tasks" {
            let below = task_path(&head.method, below)?;
            return Some(Way::Agent { name: FLEET.into(), below, skill: None, plain: true });
        }
        let below = if below == "/card" { "/extendedAgentCard" } else { below };
        let plain = below == "/extendedAgentCard";
        Some(Way::Agent { name: name.into(), below: below.to_owned(), skill: None, plain })
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
    fn member(&self, is_read: bool, rest: &str) -> Option<Way> {
        let (name, below) = split(rest);
        // What the root answers is not to be found here.
        let Some(member) = self.0.regime.roster.get(name).cloned() else { return Some(Way::Nowhere) };
        if below == "/_active" && is_read && member.exposed {
            let fleet = self.0.clone();
            return Some(Way::answer(
                move |visitor| async move { fleet.show_active(&visitor, &member).await },
            ));
        }
        let (skill, below) = split(below.strip_prefix("/skills/")?);
        let skill = percent_decoded(skill)?;
        if !self.0.has_skill(&member.name, &skill) {
            return Some(Way::Nowhere);
        }
        if is_read && is_card(below) && member.exposed {
            let fleet = self.0.clone();
            return Some(Way::answer(
                move |visitor| async move { fleet.show_skill(&visitor, &member, &skill) },
            ));
        }
        Some(Way::Agent {
            name: member.name,
            below: below.to_owned(),
            skill: Some(skill.as_str().into()),
            plain: false,
        })
    }
}

fn is_card(path: &str) -> bool {
    matches!(path, "/.well-known/agent-card.json" | "/.well-known/agent.json")
}

/// The first segment, and the rest with its slash.
fn split(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

/// A segment as it was meant, if it is text.
fn percent_decoded(segment: &str) -> Option<String> {
    percent_encoding::percent_decode_str(segment).decode_utf8().ok().map(|text| text.into_owned())
}

/// The path in HTTP+JSON of what a plain path below `/a2a/tasks` asks for.
fn task_path(method: &Method, below: &str) -> Option<String> {
    let below = below.strip_suffix('/').unwrap_or(below);
    if below.is_empty() {
        let path = if *method == Method::POST { "/message:send" } else { "/tasks" };
        return Some(path.to_owned());
    }
    let (id, action) = split(&below[1..]);
    match action {
        "" => Some(format!("/tasks/{id}")),
        "/cancel" | "/subscribe" => Some(format!("/tasks/{id}:{}", &action[1..])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_stand_for_operations() {
        let (get, post) = (&Method::GET, &Method::POST);
        for (method, below, path) in [
            (post, "", "/message:send"),
            (post, "/", "/message:send"),
            (get, "", "/tasks"),
            (get, "/t1", "/tasks/t1"),
            (post, "/t1/cancel", "/tasks/t1:cancel"),
            (get, "/t1/subscribe", "/tasks/t1:subscribe"),
            (post, "/t1:cancel", "/tasks/t1:cancel"),
        ] {
            assert_eq!(task_path(method, below).as_deref(), Some(path), "{method} {below}");
        }
        assert_eq!(task_path(get, "/t1/other"), None);
    }

    #[test]
    fn what_is_reserved_is_in_order_and_could_be_a_name() {
        assert!(RESERVED[1..].is_sorted());
        assert!(RESERVED.iter().all(|name| chancery_sdk::is_agent_name(name)));
    }
}
