//! What is wrong with the way a server was put together.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::ServerBuilder;

impl ServerBuilder {
    /// Everything, at once, in words for the one who wrote it.
    pub(super) fn problems(&self, address: Option<SocketAddr>) -> Vec<String> {
        let extends = self.authenticate.is_some() || self.anonymous_extended_card;
        let mut problems: Vec<_> =
            self.agents.iter().flat_map(|offer| offer.problems(extends, &self.versions)).collect();
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
        problems.extend(clashes(self.agents.iter().map(|offer| (offer.path(), offer.name()))));
        problems.extend(self.limits.problems().into_iter().chain(self.versions.problem()));
        problems
    }
}

/// What two agents of a site may not have in common. Tasks are kept by the name of their agent.
pub(super) fn clashes<'a>(agents: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let (paths, names) = (agents.clone().map(|agent| agent.0), agents.map(|agent| agent.1));
    let paths = twice(paths).map(|path| format!("two agents are mounted at `{path}`"));
    paths.chain(twice(names).map(|name| format!("two agents are called `{name}`"))).collect()
}

fn twice<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut seen = BTreeSet::new();
    names.filter(move |name| !seen.insert(*name))
}
