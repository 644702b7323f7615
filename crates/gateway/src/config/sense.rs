//! What is wrong with a configuration although each of its values is of the right kind.

use std::collections::BTreeSet;

use chancery_control::routing::Selectors;
use chancery_protocol::OPERATIONS;
use chancery_protocol::signing::AgentId;
use chancery_sdk::is_agent_name;

use super::document::{Node, Origin};
use super::file::Config;
use super::problem::{Problem, nearest};
use super::section::{AgentKind, AgentSection, CardSection, CommandSection, ModelSection, SignatureMode};
use crate::demo;
use crate::fleet::RESERVED;

/// Everything that does not make sense.
pub(super) fn problems(config: &Config, node: &Node) -> Vec<Problem> {
    let mut sense = Sense { node, problems: Vec::new() };
    sense.agents(&config.agent);
    sense.selector(&["routing", "default_selector"], &config.routing.default_selector);
    if let Some(fallback) = &config.routing.fallback {
        sense.selector(&["routing", "fallback"], fallback);
    }
    if config.admin.enabled && !config.admin.listen.ip().is_loopback() {
        let hint = "use an address of this machine, such as 127.0.0.1:9090, and a tunnel or a proxy to reach it from elsewhere";
        sense.complain(&["admin", "listen"], "others than this machine could reach it").hint =
            Some(hint.to_owned());
    }
    sense.allow_list(&config.identity.allow);
    sense.policies(config);
    sense.known_agents(config);
    sense.problems
}

struct Sense<'a> {
    node: &'a Node,
    problems: Vec<Problem>,
}

impl Sense<'_> {
    fn complain(&mut self, path: &[&str], what: impl Into<String>) -> &mut Problem {
        // A value that nobody wrote stands where its section does.
        let written = (0..=path.len()).rev().find_map(|length| self.node.at(&path[..length]));
        let place = written.map_or(Origin::Default, |node| node.origin.clone());
        self.problems.push(Problem::new(place, path.join("."), what));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    fn one_of(&mut self, path: &[&str], typed: &str, what: &str, known: &[&str]) {
        if known.contains(&typed) {
            return;
        }
        let hint = match nearest(typed, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => format!("there is no {what} at all"),
            None => format!("there are {}", known.join(", ")),
        };
        self.complain(path, format!("there is no {what} `{typed}`")).hint = Some(hint);
    }

    fn selector(&mut self, path: &[&str], name: &str) {
        let selectors = Selectors::default();
        let known: Vec<_> = selectors.names().collect();
        self.one_of(path, name, "selector", &known);
    }

    fn agents(&mut self, agents: &[AgentSection]) {
        let mut names = BTreeSet::new();
        for (place, agent) in agents.iter().enumerate() {
            let place = place.to_string();
            let at = |key| ["agent", place.as_str(), key];
            if !is_agent_name(&agent.name) {
                let what = format!("`{}` is no name for an agent", agent.name);
                self.complain(&at("name"), what).hint = Some(
                    "use 1 to 63 lower-case letters, digits and dashes, not beginning with a dash".to_owned(),
                );
            }
            if RESERVED.contains(&agent.name.as_str()) {
                let what = format!("`{}` leads elsewhere here, and is no name for an agent", agent.name);
                self.complain(&at("name"), what).hint = Some("choose another name".to_owned());
            }
            if !names.insert(&agent.name) {
                self.complain(&at("name"), format!("there are two agents `{}`", agent.name));
            }
            if let Some(selector) = &agent.selector {
                self.selector(&at("selector"), selector);
                if agent.members.is_empty() {
                    self.complain(&at("selector"), "only a pool has members to choose from; add `members`");
                }
            }
            self.kind(agent, &at);
            self.signature(agent, &at);
            self.sections(agent, &place);
        }
    }

    fn signature<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        let is_off = agent.signature == SignatureMode::Off;
        if agent.kind != AgentKind::A2a && !(is_off && agent.trusted_keys.is_empty()) {
            self.complain(&at("signature"), "only the card of an agent elsewhere is looked at");
        } else if !is_off && agent.trusted_keys.is_empty() {
            self.complain(&at("signature"), "nobody's signature is trusted; add `trusted_keys`");
        } else if is_off && !agent.trusted_keys.is_empty() {
            self.complain(&at("trusted_keys"), "nothing is verified; add `signature = \"require\"`");
        }
        for (place, id) in agent.trusted_keys.agent_ids.iter().enumerate() {
            if AgentId::parse(id).is_err() {
                let [list, index, _] = at("trusted_keys");
                let path = [list, index, "trusted_keys", "agent_ids", &place.to_string()];
                self.complain(&path, format!("`{id}` is no agent id")).hint =
                    Some("it has 64 hexadecimal digits in lower case".to_owned());
            }
        }
        for (place, key) in agent.trusted_keys.jwks.iter().enumerate() {
            if key.to_jwk().to_public_key().is_none() {
                let [list, index, _] = at("trusted_keys");
                let path = [list, index, "trusted_keys", "jwks", &place.to_string()];
                self.complain(&path, "this is no public key that could be used").hint =
                    Some("Ed25519 (`kty = \"OKP\"`) and P-256 (`kty = \"EC\"`) can".to_owned());
            }
        }
    }

    /// The sections of an agent that only some kinds have.
    fn sections(&mut self, agent: &AgentSection, place: &str) {
        let is_ours = !matches!(agent.kind, AgentKind::Builtin | AgentKind::A2a);
        let sections = [
            ("card", agent.card.as_ref().map(CardSection::complaints), is_ours),
            (
                "command",
                agent.command.as_ref().map(CommandSection::complaints),
                agent.kind == AgentKind::Command,
            ),
            ("model", agent.model.as_ref().map(ModelSection::complaints), agent.kind == AgentKind::Model),
            ("inbox", agent.inbox.map(|_| Vec::new()), agent.kind == AgentKind::Inbox),
        ];
        for (section, complaints, fits) in sections {
            let path = ["agent", place, section];
            match complaints {
                Some(_) if !fits => {
                    self.complain(&path, "an agent of this kind has none; leave it out");
                }
                Some(complaints) => {
                    for (key, what) in complaints {
                        self.complain(&["agent", place, section, key], what);
                    }
                }
                None => {}
            }
        }
    }

    fn needs_section(&mut self, path: &[&str], name: &str, is_there: bool) {
        if !is_there {
            self.complain(path, format!("an agent of this kind needs a section `{name}`"));
        }
    }

    fn kind<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        match agent.kind {
            AgentKind::Builtin => {
                self.one_of(&at("name"), &agent.name, "builtin agent", &demo::NAMES);
                self.nothing_elsewhere(agent, at);
            }
            AgentKind::A2a => match (&agent.url, agent.members.is_empty()) {
                (None, true) => {
                    self.complain(
                        &at("kind"),
                        "an agent elsewhere needs `url`, or `members` if it is a pool",
                    );
                }
                (Some(_), false) => {
                    self.complain(&at("url"), "an agent has either `url` or `members`");
                }
                _ => {}
            },
            AgentKind::Absent => {}
            AgentKind::Command => {
                self.needs_section(&at("kind"), "command", agent.command.is_some());
                self.nothing_elsewhere(agent, at);
            }
            AgentKind::Inbox => self.nothing_elsewhere(agent, at),
            AgentKind::Model => {
                self.needs_section(&at("kind"), "model", agent.model.is_some());
                self.nothing_elsewhere(agent, at);
            }
        }
    }

    /// An agent that the gateway runs itself is not somewhere else.
    fn nothing_elsewhere<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        if agent.url.is_some() || !agent.members.is_empty() {
            self.complain(&at("kind"), "an agent of this kind has neither `url` nor `members`");
        }
    }

    fn allow_list(&mut self, allow: &[String]) {
        for (place, entry) in allow.iter().enumerate() {
            let named = ["caller:", "group:", "agent:"].iter().find_map(|kind| entry.strip_prefix(kind));
            if named.is_none_or(str::is_empty) {
                let place = place.to_string();
                let what = format!("`{entry}` names nobody");
                self.complain(&["identity", "allow", &place], what).hint =
                    Some("write `caller:NAME`, `group:NAME` or `agent:AGENT-ID`".to_owned());
            }
        }
    }

    fn policies(&mut self, config: &Config) {
        let operations: Vec<_> = OPERATIONS.iter().map(|row| row.method).collect();
        let agents: Vec<_> = config.agent.iter().map(|agent| agent.name.as_str()).collect();
        for (name, policy) in &config.policy {
            for (place, operation) in policy.operations.iter().enumerate() {
                let place = place.to_string();
                self.one_of(&["policy", name, "operations", &place], operation, "operation", &operations);
            }
            for (place, agent) in policy.agents.iter().enumerate() {
                let place = place.to_string();
                self.one_of(&["policy", name, "agents", &place], agent, "agent", &agents);
            }
            if name == "default" && !(policy.callers.is_empty() && policy.groups.is_empty()) {
                self.complain(&["policy", "default"], "the default policy is for everyone");
            }
        }
    }

    fn known_agents(&mut self, config: &Config) {
        let mut names = BTreeSet::new();
        for (place, agent) in config.identity.agent.iter().enumerate() {
            if !names.insert(&agent.name) {
                let place = place.to_string();
                let what = format!("there are two agents `{}`", agent.name);
                self.complain(&["identity", "agent", &place, "name"], what);
            }
        }
    }
}
