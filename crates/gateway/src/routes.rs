//! Every path that is served beside the agents' own: one list for each part that answers, by which it finds what a request
//! asks for. It needs nothing else of this crate, so that the test of who may ask for what reads the same lists.

use http::Method;

/// A path, and what it is for.
#[derive(Debug)]
pub(crate) struct Row<R: 'static> {
    pub(crate) route: R,
    pub(crate) verb: Verb,
    /// `{agent}` and the like stand for a segment; `{*below}` at the end stands for all that is left, with its slash, or for
    /// nothing.
    pub(crate) path: &'static str,
}

/// What a path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It is read; for other verbs it is not there.
    Read,
    /// A GET; whoever answers says so to other verbs.
    Get,
    /// A POST; whoever answers says so to other verbs.
    Post,
    /// Whatever stands behind it says.
    Any,
}

/// What a request asks for, and what stands for the variables of its path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<'a, R> {
    pub(crate) route: R,
    pub(crate) verb: Verb,
    variables: [Option<&'a str>; 2],
    below: &'a str,
}

/// The fleet: `fleet/address.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FleetRoute {
    /// The card of the fleet.
    Card,
    /// Its members.
    Catalogue,
    /// The caller's open tasks at a member.
    Active,
    /// The card of a skill.
    SkillCard,
    /// A member with one skill.
    Skill,
    /// A member.
    Member,
    /// The operations of the fleet by plain paths: its tasks, or a message to it.
    Tasks,
    /// A task of the fleet's.
    Task,
    /// To cancel one.
    CancelTask,
    /// To watch one.
    SubscribeToTask,
    /// The extended card of a member.
    ExtendedCard,
    /// A member by another path.
    MemberAlias,
}

#[rustfmt::skip]
pub(crate) static FLEET: [Row<FleetRoute>; 20] = [
    row(FleetRoute::Card, Verb::Read, "/.well-known/agent-card.json"),
    row(FleetRoute::Card, Verb::Read, "/.well-known/agent.json"),
    row(FleetRoute::Catalogue, Verb::Read, "/agents"),
    row(FleetRoute::Catalogue, Verb::Read, "/agents/"),
    row(FleetRoute::Active, Verb::Read, "/agents/{agent}/_active"),
    row(FleetRoute::SkillCard, Verb::Read, "/agents/{agent}/skills/{skill}/.well-known/agent-card.json"),
    row(FleetRoute::SkillCard, Verb::Read, "/agents/{agent}/skills/{skill}/.well-known/agent.json"),
    row(FleetRoute::Skill, Verb::Any, "/agents/{agent}/skills/{skill}{*below}"),
    row(FleetRoute::Member, Verb::Any, "/agents/{agent}{*below}"),
    row(FleetRoute::Tasks, Verb::Any, "/a2a/tasks"),
    row(FleetRoute::Tasks, Verb::Any, "/a2a/tasks/"),
    row(FleetRoute::Task, Verb::Any, "/a2a/tasks/{task}"),
    row(FleetRoute::Task, Verb::Any, "/a2a/tasks/{task}/"),
    row(FleetRoute::CancelTask, Verb::Any, "/a2a/tasks/{task}/cancel"),
    row(FleetRoute::CancelTask, Verb::Any, "/a2a/tasks/{task}/cancel/"),
    row(FleetRoute::SubscribeToTask, Verb::Any, "/a2a/tasks/{task}/subscribe"),
    row(FleetRoute::SubscribeToTask, Verb::Any, "/a2a/tasks/{task}/subscribe/"),
    row(FleetRoute::ExtendedCard, Verb::Any, "/a2a/{agent}/card"),
    row(FleetRoute::ExtendedCard, Verb::Any, "/a2a/{agent}/extendedAgentCard"),
    row(FleetRoute::MemberAlias, Verb::Any, "/a2a/{agent}{*below}"),
];

/// The plain profile, of the fleet and of an agent: `plain/mod.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainRoute {
    Card,
    Health,
    Negotiate,
    Invoke,
    Stream,
}

#[rustfmt::skip]
pub(crate) static PLAIN: [Row<PlainRoute>; 10] = [
    row(PlainRoute::Card, Verb::Read, "/card"),
    row(PlainRoute::Health, Verb::Read, "/healthz"),
    row(PlainRoute::Negotiate, Verb::Post, "/negotiate"),
    row(PlainRoute::Invoke, Verb::Post, "/invoke"),
    row(PlainRoute::Stream, Verb::Post, "/invoke/stream"),
    row(PlainRoute::Card, Verb::Read, "/agents/{agent}/card"),
    row(PlainRoute::Health, Verb::Read, "/agents/{agent}/healthz"),
    row(PlainRoute::Negotiate, Verb::Post, "/agents/{agent}/negotiate"),
    row(PlainRoute::Invoke, Verb::Post, "/agents/{agent}/invoke"),
    row(PlainRoute::Stream, Verb::Post, "/agents/{agent}/invoke/stream"),
];

/// The schemas of its bodies: all of them, or one.
pub(crate) static SCHEMAS: [Row<()>; 2] =
    [row((), Verb::Read, "/schemas"), row((), Verb::Read, "/schemas/{name}")];

/// An inbox: `kinds/inbox/routes.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboxRoute {
    Stream,
    Events,
    Result,
}

#[rustfmt::skip]
pub(crate) static INBOX: [Row<InboxRoute>; 3] = [
    row(InboxRoute::Stream, Verb::Get, "/agents/{agent}/inbox/stream"),
    row(InboxRoute::Events, Verb::Post, "/agents/{agent}/inbox/tasks/{task}/events"),
    row(InboxRoute::Result, Verb::Post, "/agents/{agent}/inbox/tasks/{task}/result"),
];

/// Probes beside the agents: `ready.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeRoute {
    Live,
    Ready,
}

pub(crate) static PROBES: [Row<ProbeRoute>; 2] =
    [row(ProbeRoute::Live, Verb::Read, "/livez"), row(ProbeRoute::Ready, Verb::Read, "/readyz")];

/// The address of `chancery admin`: `admin/mod.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminRoute {
    Live,
    Ready,
    Agents,
    Contain,
    Release,
    Breakers,
    Calls,
    Tree,
    CancelTask,
    Budgets,
    Explain,
    Config,
    Reload,
    Metrics,
}

#[rustfmt::skip]
pub(crate) static ADMIN: [Row<AdminRoute>; 14] = [
    row(AdminRoute::Live, Verb::Get, "/livez"),
    row(AdminRoute::Ready, Verb::Get, "/readyz"),
    row(AdminRoute::Agents, Verb::Get, "/agents"),
    row(AdminRoute::Contain, Verb::Post, "/agents/{name}/contain"),
    row(AdminRoute::Release, Verb::Post, "/agents/{name}/release"),
    row(AdminRoute::Breakers, Verb::Get, "/breakers"),
    row(AdminRoute::Calls, Verb::Get, "/calls"),
    row(AdminRoute::Tree, Verb::Get, "/calls/{root}/tree"),
    row(AdminRoute::CancelTask, Verb::Post, "/tasks/{task}/cancel"),
    row(AdminRoute::Budgets, Verb::Get, "/budgets"),
    row(AdminRoute::Explain, Verb::Post, "/explain"),
    row(AdminRoute::Config, Verb::Get, "/config"),
    row(AdminRoute::Reload, Verb::Post, "/reload"),
    row(AdminRoute::Metrics, Verb::Get, "/metrics"),
];

/// Finds what a request asks for. The first row that fits decides.
pub(crate) fn find<'a, R: Copy>(rows: &[Row<R>], verb: &Method, path: &'a str) -> Option<Found<'a, R>> {
    rows.iter().filter(|row| row.verb.takes(verb)).find_map(|row| row.found(path))
}

/// The same whatever the verb is.
pub(crate) fn find_path<'a, R: Copy>(rows: &[Row<R>], path: &'a str) -> Option<Found<'a, R>> {
    rows.iter().find_map(|row| row.found(path))
}

const fn row<R>(route: R, verb: Verb, path: &'static str) -> Row<R> {
    Row { route, verb, path }
}

// === impl Row ===

impl<R: Copy> Row<R> {
    fn found<'a>(&self, path: &'a str) -> Option<Found<'a, R>> {
        let mut found = Found { route: self.route, verb: self.verb, variables: [None; 2], below: "" };
        let (mut pattern, mut rest, mut count) = (self.path, path, 0);
        while let Some((fixed, after)) = pattern.split_once('{') {
            rest = rest.strip_prefix(fixed)?;
            let (name, after) = after.split_once('}')?;
            if name.starts_with('*') {
                found.below = rest;
                return Some(found);
            }
            let segment;
            (segment, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            *found.variables.get_mut(count)? = Some(segment);
            (pattern, count) = (after, count + 1);
        }
        (pattern == rest).then_some(found)
    }
}

// === impl Verb ===

impl Verb {
    fn takes(self, verb: &Method) -> bool {
        self != Self::Read || *verb == Method::GET || *verb == Method::HEAD
    }

    /// The one that is asked for, if it is one.
    pub(crate) fn method(self) -> Option<Method> {
        match self {
            Self::Read | Self::Get => Some(Method::GET),
            Self::Post => Some(Method::POST),
            Self::Any => None,
        }
    }
}

// === impl Found ===

impl<'a, R> Found<'a, R> {
    /// What stands for the first variable, if there is one: the agent, wherever one is named.
    pub(crate) fn first(&self) -> Option<&'a str> {
        self.variables[0]
    }

    /// What stands for the second.
    pub(crate) fn second(&self) -> Option<&'a str> {
        self.variables[1]
    }

    /// What is left of the path, with its slash.
    pub(crate) fn below(&self) -> &'a str {
        self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet<'a>(verb: &Method, path: &'a str) -> Option<(FleetRoute, &'a str, &'a str, &'a str)> {
        let found = find(&FLEET, verb, path)?;
        let (first, second) = (found.first().unwrap_or_default(), found.second().unwrap_or_default());
        Some((found.route, first, second, found.below()))
    }

    #[test]
    fn the_first_row_that_fits_decides() {
        let (get, post) = (&Method::GET, &Method::POST);
        for (verb, path, route, first, second, below) in [
            (get, "/agents", FleetRoute::Catalogue, "", "", ""),
            (get, "/agents/", FleetRoute::Catalogue, "", "", ""),
            (post, "/agents/", FleetRoute::Member, "", "", ""),
            (get, "/agents/echo", FleetRoute::Member, "echo", "", ""),
            (get, "/agents/echo/_active", FleetRoute::Active, "echo", "", ""),
            (post, "/agents/echo/_active", FleetRoute::Member, "echo", "", "/_active"),
            (post, "/agents/echo/skills/s", FleetRoute::Skill, "echo", "s", ""),
            (post, "/agents/echo/skills/s/rpc/", FleetRoute::Skill, "echo", "s", "/rpc/"),
            (get, "/agents/echo/skills/s/.well-known/agent.json", FleetRoute::SkillCard, "echo", "s", ""),
            (get, "/a2a/tasks/t", FleetRoute::Task, "t", "", ""),
            (post, "/a2a/tasks/t/cancel", FleetRoute::CancelTask, "t", "", ""),
            (get, "/a2a/tasks/t/other", FleetRoute::MemberAlias, "tasks", "", "/t/other"),
            (get, "/a2a/echo/card", FleetRoute::ExtendedCard, "echo", "", ""),
            (post, "/a2a/echo", FleetRoute::MemberAlias, "echo", "", ""),
        ] {
            assert_eq!(fleet(verb, path), Some((route, first, second, below)), "{verb} {path}");
        }
        for path in ["/", "/agent", "/agentss/echo", "/a2a", "/.well-known/agent-card.json/"] {
            assert_eq!(fleet(get, path), None, "{path}");
        }
        assert_eq!(fleet(post, "/.well-known/agent-card.json"), None);
    }

    #[test]
    fn the_plain_profile_has_its_paths_and_no_others() {
        let asked = |path| find_path(&PLAIN, path).map(|found| (found.first(), found.route));
        assert_eq!(asked("/invoke"), Some((None, PlainRoute::Invoke)));
        assert_eq!(asked("/invoke/stream"), Some((None, PlainRoute::Stream)));
        assert_eq!(asked("/agents/echo/negotiate"), Some((Some("echo"), PlainRoute::Negotiate)));
        assert_eq!(asked("/agents/echo/healthz"), Some((Some("echo"), PlainRoute::Health)));
        for other in
            ["/", "/agents/echo", "/agents/echo/", "/agents/echo/x/invoke", "/invoke/", "/agents/card"]
        {
            assert_eq!(asked(other), None, "{other}");
        }
        assert!(find(&PLAIN, &Method::POST, "/card").is_none());
        assert!(find(&PLAIN, &Method::GET, "/invoke").is_some(), "it says that it takes a POST");
    }

    #[test]
    fn every_row_finds_itself() {
        fn check<R: Copy + PartialEq + std::fmt::Debug>(rows: &[Row<R>]) {
            for row in rows {
                let path = row.path.replace("{*below}", "/x").replace(['{', '}'], "");
                let verb = row.verb.method().unwrap_or(Method::POST);
                assert_eq!(find(rows, &verb, &path).map(|found| found.route), Some(row.route), "{path}");
            }
        }
        check(&FLEET);
        check(&PLAIN);
        check(&SCHEMAS);
        check(&INBOX);
        check(&PROBES);
        check(&ADMIN);
    }
}
