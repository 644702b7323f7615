//! What is wrong with a configuration although each of its values is of the right kind.

use std::collections::BTreeSet;

use chancery_control::identity::check_name;
use chancery_control::routing::Selectors;
use chancery_protocol::OPERATIONS;
use chancery_protocol::signing::AgentId;
use chancery_sdk::egress::Prefix;
use chancery_sdk::is_agent_name;

use super::document::{Node, Origin};
use super::file::Config;
use super::problem::{Problem, nearest};
use super::section::{
    AgentKind, AgentSection, CardSection, CommandSection, CredentialSection, DEFAULT_PATIENCE_MS, Exchange,
    HealthSection, Listen, ModelSection, SignatureMode, SpokenBinding, SpokenVersion, Trust, names_user,
};
use crate::demo;
use crate::fleet::RESERVED;
use crate::govern::LOCAL;

/// How long a prefix may be, so that there is room for names.
const LONGEST_PREFIX: usize = 31;

/// Everything that does not make sense.
pub(super) fn problems(config: &Config, node: &Node) -> Vec<Problem> {
    let mut sense = Sense { node, problems: Vec::new() };
    for (key, what) in config.server.complaints() {
        sense.complain(&["server", key], what);
    }
    for (key, what) in config.fleet.complaints() {
        sense.complain(&["fleet", key], what);
    }
    for (place, folder) in config.markdown.iter().enumerate() {
        for (key, what) in folder.complaints() {
            sense.complain(&["markdown", &place.to_string(), key], what);
        }
    }
    sense.agents(&config.agent);
    sense.left_out(config);
    sense.discoveries(config);
    sense.selector(&["routing", "default_selector"], &config.routing.default_selector);
    if let Some(fallback) = config.routing.fallback.as_ref().filter(|fallback| *fallback != LOCAL) {
        sense.selector(&["routing", "fallback"], fallback);
    }
    if let Some(url) = &config.store.url
        && !["sqlite:", "memory:"].iter().any(|known| url.starts_with(known))
    {
        let what = format!("`{url}` is no store that there is");
        sense.complain(&["store", "url"], what).hint = Some("write `sqlite:PATH` or `memory:`".to_owned());
    }
    sense.stand_ins(config);
    sense.prices(config);
    if config.admin.enabled && !config.admin.listen.ip().is_loopback() {
        let hint = "use an address of this machine, such as 127.0.0.1:9090, and a tunnel or a proxy to reach it from elsewhere";
        sense.complain(&["admin", "listen"], "others than this machine could reach it").hint =
            Some(hint.to_owned());
    }
    sense.admin_apart(config);
    sense.ranges("push", &config.push.allow_egress);
    sense.ranges("outbound", &config.outbound.allow_egress);
    sense.allow_list(&config.identity.allow);
    sense.policies(config);
    sense.known_agents(config);
    sense.known_gateways(config);
    sense.problems
}

/// Problems as they are found.
pub(super) struct Sense<'a> {
    pub(super) node: &'a Node,
    pub(super) problems: Vec<Problem>,
}

impl Sense<'_> {
    /// The addresses that a section allows.
    fn ranges(&mut self, section: &str, ranges: &[String]) {
        for (place, range) in ranges.iter().enumerate() {
            if range.parse::<Prefix>().is_err() {
                let what = format!("`{range}` is no range of addresses");
                self.complain(&[section, "allow_egress", &place.to_string()], what).hint =
                    Some("write it as 10.0.0.0/8".to_owned());
            }
        }
    }

    pub(super) fn complain(&mut self, path: &[&str], what: impl Into<String>) -> &mut Problem {
        // A value that nobody wrote stands where its section does.
        let written = (0..=path.len()).rev().find_map(|length| self.node.at(&path[..length]));
        let place = written.map_or(Origin::Default, |node| node.origin.clone());
        self.problems.push(Problem::new(place, path.join("."), what));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    pub(super) fn one_of(&mut self, path: &[&str], typed: &str, what: &str, known: &[&str]) {
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

    /// Something of the protocol must be left.
    fn left_out(&mut self, config: &Config) {
        let all = &config.server;
        let is_none = |versions: &[SpokenVersion], bindings: &[SpokenBinding]| {
            let is_spoken = |version| !all.without_versions.contains(version) && !versions.contains(version);
            let is_there = |binding| !all.without_bindings.contains(binding) && !bindings.contains(binding);
            (!SpokenVersion::ALL.iter().any(is_spoken), !SpokenBinding::ALL.iter().any(is_there))
        };
        let agents = config.agent.iter().enumerate().map(|(place, agent)| {
            (
                vec!["agent".to_owned(), place.to_string()],
                is_none(&agent.without_versions, &agent.without_bindings),
            )
        });
        let server = (vec!["server".to_owned()], is_none(&[], &[]));
        for (section, (no_version, no_binding)) in std::iter::once(server).chain(agents).collect::<Vec<_>>() {
            let section: Vec<_> = section.iter().map(String::as_str).collect();
            if no_version {
                self.complain(
                    &[&section[..], &["without_versions"]].concat(),
                    "no version of the protocol is left",
                );
            }
            if no_binding {
                self.complain(
                    &[&section[..], &["without_bindings"]].concat(),
                    "no binding of the protocol is left",
                );
            }
        }
    }

    fn selector(&mut self, path: &[&str], name: &str) {
        let selectors = Selectors::default();
        let known: Vec<_> = selectors.names().collect();
        self.one_of(path, name, "selector", &known);
    }

    /// Where US dollars are limited, every agent needs a price, or it is said what to do without one.
    fn prices(&mut self, config: &Config) {
        if config.budget.unknown_cost.is_some() {
            return;
        }
        for (place, agent) in
            config.agent.iter().enumerate().filter(|(_, agent)| agent.declared_price().is_none())
        {
            let Some(limit) = config.budget.usd_limit_on(&agent.name) else { continue };
            let what = format!("`{}` has no price, and `budget.{limit}` limits what it may cost", agent.name);
            self.complain(&["agent", &place.to_string(), "price"], what).hint = Some(
                "add `price = { per_call = AMOUNT }`, where 0 is a price, or say `unknown_cost = \"deny\"` or \
                 `unknown_cost = \"hold:AMOUNT\"` under `[budget]`"
                    .to_owned(),
            );
        }
    }

    /// Whoever answers for a pool runs here, and there is one for each if there is one for any.
    fn stand_ins(&mut self, config: &Config) {
        let is_wanted = config.routing.fallback.as_deref() == Some(LOCAL);
        let runs_here = |agent: &&AgentSection| agent.kind != AgentKind::A2a;
        let here: Vec<_> = config.agent.iter().filter(runs_here).map(|agent| agent.name.as_str()).collect();
        for (place, agent) in config.agent.iter().enumerate() {
            let place = place.to_string();
            let at = ["agent", place.as_str(), "stand_in"];
            match &agent.stand_in {
                None if is_wanted && !agent.members.is_empty() => {
                    self.complain(&at, "`routing.fallback = \"local\"` needs somebody who answers here")
                        .hint = Some("name an agent that runs here: `stand_in = \"NAME\"`".to_owned());
                }
                None => {}
                Some(_) if agent.members.is_empty() => {
                    self.complain(&at, "only a pool has somebody who answers in its place");
                }
                Some(_) if !is_wanted => {
                    self.complain(&at, "it is asked for with `routing.fallback = \"local\"` alone");
                }
                Some(name) if agent.members.iter().any(|member| member.name == *name) => {
                    self.complain(&at, format!("a member of the pool is called `{name}`, too"));
                }
                Some(name) => self.one_of(&at, name, "agent that runs here", &here),
            }
        }
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
                let what = format!("`{}` is reserved, and is no name for an agent", agent.name);
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
            self.exchange(agent, &at);
            self.trust(agent, &at);
            self.sections(agent, &place);
        }
    }

    fn exchange<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        const NOT_CALLED: &str = "only an agent elsewhere is called over the network; leave it out";
        if agent.kind == AgentKind::A2a {
            return;
        }
        if agent.exchange != Exchange::default() {
            self.complain(&at("exchange"), NOT_CALLED);
        }
        if agent.patience_ms != DEFAULT_PATIENCE_MS {
            self.complain(&at("patience_ms"), NOT_CALLED);
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

    /// What can be said only of an agent that is called elsewhere.
    fn trust<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        if agent.kind == AgentKind::A2a {
            return;
        }
        if agent.trust == Trust::Untrusted {
            self.complain(&at("trust"), "only an agent that is called elsewhere can be untrusted");
        }
        if !agent.skills.is_empty() {
            self.complain(&at("skills"), "only of an agent elsewhere; other cards say theirs under `card`");
        }
    }

    /// Fleets whose members are members here too.
    fn discoveries(&mut self, config: &Config) {
        let mut prefixes = BTreeSet::new();
        for (place, discover) in config.discover.iter().enumerate() {
            let place = place.to_string();
            let at = |key| ["discover", place.as_str(), key];
            if !is_agent_name(&discover.prefix) || discover.prefix.len() > LONGEST_PREFIX {
                let what = format!("`{}` is nothing that names of agents can begin with", discover.prefix);
                self.complain(&at("prefix"), what).hint = Some(format!(
                    "use 1 to {LONGEST_PREFIX} lower-case letters, digits and dashes, not beginning with a dash"
                ));
            } else if !prefixes.insert(&discover.prefix) {
                self.complain(&at("prefix"), format!("two fleets have the prefix `{}`", discover.prefix));
            }
            self.url(&at("url"), &discover.url);
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
            (
                "credential",
                agent.credential.as_ref().map(CredentialSection::complaints),
                agent.kind == AgentKind::A2a,
            ),
            ("health", agent.health.as_ref().map(HealthSection::complaints), agent.kind == AgentKind::A2a),
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
                (Some(url), true) => self.url(&at("url"), url),
                (None, false) => self.members(agent, at),
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

    fn members<'a>(&mut self, agent: &AgentSection, at: &dyn Fn(&'a str) -> [&'a str; 3]) {
        let [list, index, members] = at("members");
        let mut names = BTreeSet::new();
        for (place, member) in agent.members.iter().enumerate() {
            let place = place.to_string();
            if !names.insert(&member.name) {
                let path = [list, index, members, &place, "name"];
                self.complain(&path, format!("there are two members `{}`", member.name));
            }
            self.url(&[list, index, members, &place, "url"], &member.url);
        }
    }

    /// Callers and operators have listeners of their own.
    fn admin_apart(&mut self, config: &Config) {
        let admin = config.admin.listen;
        let Listen::Tcp(server) = config.server.listen else { return };
        let is_same = server.ip() == admin.ip() || server.ip().is_unspecified();
        if config.admin.enabled && admin.port() != 0 && server.port() == admin.port() && is_same {
            self.complain(&["admin", "listen"], format!("`server.listen` is {server}, too")).hint =
                Some("choose another port, or leave it out for any free one".to_owned());
        }
    }

    /// Where an agent elsewhere, or another fleet, is.
    fn url(&mut self, path: &[&str], url: &str) {
        if names_user(url) {
            self.complain(path, "a user or a password stands in it").hint =
                Some("take them out; what an agent wants stands in `[agent.credential]`".to_owned());
        } else if let Err(error) = chancery_sdk::Client::builder().connect_later(url) {
            self.complain(path, error.to_string());
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
        for (name, policy) in &config.policy {
            for (place, operation) in policy.operations.iter().enumerate() {
                let place = place.to_string();
                self.one_of(&["policy", name, "operations", &place], operation, "operation", &operations);
            }
            if name == "default" && !(policy.callers.is_empty() && policy.groups.is_empty()) {
                self.complain(&["policy", "default"], "the default policy is for everyone");
            }
        }
    }

    fn known_gateways(&mut self, config: &Config) {
        let mut ids = BTreeSet::new();
        for (place, gateway) in config.identity.gateway.iter().enumerate() {
            let place = place.to_string();
            let at = |key| ["identity", "gateway", place.as_str(), key];
            if AgentId::parse(&gateway.id).is_err() {
                let what = format!("`{}` is no agent id", gateway.id);
                self.complain(&at("id"), what).hint =
                    Some("`chancery key signing` says it at the other gateway".to_owned());
            } else if !ids.insert(&gateway.id) {
                self.complain(&at("id"), "the gateway is listed twice").hint =
                    Some("leave one of them out".to_owned());
            }
        }
    }

    fn known_agents(&mut self, config: &Config) {
        let mut names = BTreeSet::new();
        for (place, agent) in config.identity.agent.iter().enumerate() {
            let place = place.to_string();
            let at = |key| ["identity", "agent", place.as_str(), key];
            if !names.insert(&agent.name) {
                self.complain(&at("name"), format!("there are two agents `{}`", agent.name));
            }
            let groups = agent.groups.iter().map(|group| ("groups", group));
            for (key, name) in [("name", &agent.name), ("realm", &agent.realm)].into_iter().chain(groups) {
                if let Err(wrong) = check_name(name) {
                    self.complain(&at(key), wrong.to_string());
                }
            }
        }
    }
}
