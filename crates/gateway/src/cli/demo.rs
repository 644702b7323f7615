//! `chancery demo`: a small fleet to talk to.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_protocol::{AgentExtension, Version, is_absolute_url};
use chancery_sdk::egress::{Egress, Prefix};
use chancery_sdk::{AgentSpec, Server};
use clap::Args;

use super::storage::Storage;
use crate::demo;

/// Start a small fleet of agents to talk to
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// The address to listen on
    #[arg(long, env = "CHANCERY_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    listen: SocketAddr,

    /// The URL under which the world sees this server, if not the address
    #[arg(long, env = "CHANCERY_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,

    #[command(flatten)]
    storage: Storage,

    /// Serve this agent alone, at the root
    #[arg(long, env = "CHANCERY_AGENT", value_name = "NAME", value_parser = demo::NAMES)]
    agent: Option<String>,

    /// What the agents can do: `all`, `none`, or a list of `streaming`, `push-notifications` and `extended-card`
    #[arg(long, env = "CHANCERY_CAPABILITIES", default_value = "all", value_name = "all|none|LIST")]
    capabilities: Capabilities,

    /// Let anyone in who can reach the address, although the demo authenticates nobody
    #[arg(long, env = "CHANCERY_ALLOW_ANONYMOUS")]
    allow_anonymous: bool,

    /// Addresses that push notifications may be posted to, besides those that the whole world can reach, such as
    /// `127.0.0.0/8`; may be repeated
    #[arg(long, env = "CHANCERY_ALLOW_EGRESS", value_name = "CIDR")]
    allow_egress: Vec<Prefix>,

    /// A version of the protocol that is not spoken, of `1.0`, `0.3` and `0.1`; may be repeated. Without the older two,
    /// every reader gets the pure card of 1.0
    #[arg(long, env = "CHANCERY_WITHOUT_VERSION", value_name = "VERSION", value_delimiter = ',', value_parser = spoken)]
    without_version: Vec<Version>,

    /// An extension that every call must activate; may be repeated
    #[arg(long, env = "CHANCERY_REQUIRE_EXTENSION", value_name = "URI")]
    require_extension: Vec<String>,
}

/// A version that can be switched off.
fn spoken(text: &str) -> Result<Version, String> {
    let known = [Version::V1_0, Version::V0_3, Version::V0_1];
    let found = Version::parse(text).filter(|version| known.contains(version));
    found.ok_or_else(|| "is none of 1.0, 0.3 and 0.1".to_owned())
}

/// The optional parts of the protocol that are switched on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Capabilities(BTreeSet<&'static str>);

const CAPABILITIES: [&str; 3] = ["streaming", "push-notifications", "extended-card"];

impl FromStr for Capabilities {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self(CAPABILITIES.into())),
            "none" => return Ok(Self(BTreeSet::new())),
            _ => {}
        }
        let known = |name: &str| {
            CAPABILITIES
                .into_iter()
                .find(|known| *known == name)
                .ok_or_else(|| format!("`{name}` is none of: all, none, {}", CAPABILITIES.join(", ")))
        };
        text.split(',').map(|name| known(name.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl Demo {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let store = Arc::new(self.storage.open()?);
        let egress = self.allow_egress.iter().fold(Egress::default(), |egress, range| egress.allow(*range));
        let mut server = Server::builder().store(store.clone()).egress(egress).anonymous_extended_card();
        if self.allow_anonymous {
            server = server.allow_anonymous();
        }
        server = self.without_version.iter().fold(server, |server, version| server.without_version(*version));
        if let Some(url) = &self.public_url {
            server = server.public_url(url);
        }
        let names: Vec<_> = demo::agents().map(|agent| agent.name().to_owned()).collect();
        for agent in demo::agents() {
            server = match &self.agent {
                None => server.fleet_agent(self.equip(agent)?),
                Some(alone) if alone == agent.name() => server.agent(self.equip(agent)?),
                Some(_) => server,
            };
        }
        let server =
            server.bind(self.listen).await.with_context(|| format!("cannot serve on {}", self.listen))?;
        let shown = match &self.agent {
            Some(name) => welcome(server.url(), &[(name.as_str(), String::new())]),
            None => {
                let paths: Vec<_> =
                    names.iter().map(|name| (name.as_str(), format!("/agents/{name}"))).collect();
                welcome(server.url(), &paths)
            }
        };
        std::io::stdout().write_all(format!("{shown}{}", self.kept(server.recovered())?).as_bytes())?;
        server.run().await;
        store.close();
        Ok(())
    }

    /// Where tasks are kept, and what was found there.
    fn kept(&self, recovered: usize) -> anyhow::Result<String> {
        let mut text = format!("Tasks are kept in {}\n", self.storage.url()?);
        if recovered > 0 {
            text.push_str(&format!(
                "The last process had left {recovered} tasks unfinished; they have failed, and say why\n"
            ));
        }
        Ok(text)
    }

    /// Switches capabilities and required extensions on.
    fn equip(&self, mut agent: AgentSpec) -> anyhow::Result<AgentSpec> {
        agent = agent
            .streaming(self.capabilities.0.contains("streaming"))
            .push_notifications(self.capabilities.0.contains("push-notifications"));
        if self.capabilities.0.contains("extended-card") {
            agent = agent.extended_card(|_, mut card| {
                card.description.push_str(" (extended)");
                card
            });
        }
        for uri in &self.require_extension {
            if !is_absolute_url(uri) {
                bail!("`{uri}` is no extension URI");
            }
            agent = agent.extension(AgentExtension::new(uri).required());
        }
        Ok(agent)
    }
}

/// What is served, and three commands to try.
fn welcome(url: &str, agents: &[(&str, String)]) -> String {
    let mut text = format!("Chancery demo at {url}\n\n");
    for (name, path) in agents {
        text.push_str(&format!("  {name:<12} {url}{path}/\n"));
    }
    text.push_str(
        "\nJSON-RPC and HTTP+JSON at these URLs; gRPC on the same port, with the agent's name as tenant\n",
    );
    let path_of = |wanted: &str| {
        let found = agents.iter().find(|(name, _)| *name == wanted).or(agents.first());
        found.map(|(_, path)| path.as_str()).unwrap_or_default()
    };
    let message = |said: &str| {
        format!(r#"{{"message":{{"messageId":"m1","role":"ROLE_USER","parts":[{{"text":"{said}"}}]}}}}"#)
    };
    let headers = "-H 'A2A-Version: 1.0' -H 'Content-Type: application/json'";
    text.push_str(&format!(
        "\nTry:\n\n  curl -s {url}{card}/.well-known/agent-card.json\n\n  curl -s {url}{echo}/message:send {headers} \\\n    -d '{hello}'\n\n  curl -sN {url}{stream}/message:stream {headers} \\\n    -d '{go}'\n\n",
        card = path_of("echo"),
        echo = path_of("echo"),
        stream = path_of("stream"),
        hello = message("hello"),
        go = message("stream 5 300"),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_all_none_or_listed() {
        assert_eq!("none".parse(), Ok(Capabilities(BTreeSet::new())));
        assert_eq!("streaming,push-notifications,extended-card".parse::<Capabilities>(), "all".parse());
        assert!("streaming,flying".parse::<Capabilities>().unwrap_err().contains("`flying`"));
    }
}
