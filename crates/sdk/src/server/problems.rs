//! What is wrong with the way a server was put together.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::ServerBuilder;
use super::offered::Offered;

impl ServerBuilder {
    /// Everything, at once, in words for the one who wrote it.
    pub(super) fn problems(&self, address: Option<SocketAddr>) -> Vec<String> {
        let mut problems: Vec<_> = self.agents.iter().flat_map(|(_, offered)| offered.problems()).collect();
        if tokio::runtime::Handle::try_current().is_err() {
            problems.push("a server runs in a tokio runtime; build it in one".to_owned());
        }
        if self.agents.is_empty() {
            problems.push("no agent is mounted; add one with `agent`".to_owned());
        }
        match &self.public_url {
            None => problems.push(match address {
                Some(address) => format!("{address} is no address to put into a card; set `public_url`"),
                None => "a service without a listener needs `public_url`".to_owned(),
            }),
            Some(url) if !url.starts_with("http://") && !url.starts_with("https://") => {
                problems.push(format!("`{url}` is not an http or https URL"));
            }
            Some(_) => {}
        }
        if let Some(address) = address
            && !address.ip().is_loopback()
            && self.authenticate.is_none()
            && !self.allow_anonymous
        {
            problems.push(format!(
                "{address} can be reached from elsewhere and nobody is authenticated; add `authenticate`, or let everyone in with `allow_anonymous`"
            ));
        }
        if self.security.is_empty() == self.authenticate.is_some() {
            problems.push(match self.security.is_empty() {
                true => "callers are authenticated and no card says how; add `security_scheme`".to_owned(),
                false => "the cards name a security scheme and nobody is authenticated; add `authenticate`"
                    .to_owned(),
            });
        }
        if !self.jsonrpc_path.starts_with('/') {
            problems.push(format!("the JSON-RPC path `{}` does not begin with a slash", self.jsonrpc_path));
        }
        let paths = self.agents.iter().map(|(path, _)| path.as_str());
        problems.extend(twice(paths).map(|path| format!("two agents are mounted at `{path}`")));
        // Tasks are kept by the name of their agent.
        let names = self.agents.iter().map(|(_, offered)| &**offered.name());
        problems.extend(twice(names).map(|name| format!("two agents are called `{name}`")));
        problems.extend(self.limits.problems().into_iter().chain(self.versions.problem()));
        for (path, offered) in &self.agents {
            if !path.is_empty() && (!path.starts_with('/') || path.ends_with('/')) {
                problems.push(format!("the path `{path}` must begin with a slash and not end with one"));
            }
            let extends = matches!(offered, Offered::Agent(spec) if spec.extended_card.is_some());
            if extends && self.authenticate.is_none() && !self.anonymous_extended_card {
                problems.push(format!(
                    "agent `{}` has an extended card and nobody is authenticated; add `authenticate`, or allow it with `anonymous_extended_card`",
                    offered.name()
                ));
            }
        }
        problems
    }
}

fn twice<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut seen = BTreeSet::new();
    names.filter(move |name| !seen.insert(*name))
}
