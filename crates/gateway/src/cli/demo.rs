//! `chancery demo`: a small fleet to talk to, governed as `chancery serve` governs; or one agent of it alone, with nothing in
//! front of it, as the conformance kits want it.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_protocol::{AgentExtension, Version, is_absolute_url};
use chancery_sdk::egress::{Egress, Prefix};
use chancery_sdk::{AgentSpec, Server};
use clap::Args;
use serde_json::Value;

use crate::config::{BadConfig, Flag, Loaded, Origin, Problem, StoreSection};
use crate::demo;
use crate::gateway::{Gateway, open_store, store_url};

/// The agents that can be served alone.
const ALONE: [&str; 4] = ["echo", "stream", "ask", "conformance"];

/// Start a small fleet of agents to talk to
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// The address to listen on
    #[arg(long, env = "CHANCERY_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDR")]
    listen: SocketAddr,

    /// The URL under which the world sees this server, if not the address
    #[arg(long, env = "CHANCERY_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,

    /// The directory that everything is kept in; made if it is not there
    #[arg(long, env = "CHANCERY_DATA", default_value = "chancery-data", value_name = "DIR")]
    data: PathBuf,

    /// Where tasks are kept, if not in the data directory: `memory:`, `sqlite:PATH` or `sqlite:PATH?durability=power`
    #[arg(long, env = "CHANCERY_STORE", value_name = "URL")]
    store: Option<String>,

    /// Serve this agent alone, at the root, with no gates in front of it
    #[arg(long, env = "CHANCERY_AGENT", value_name = "NAME", value_parser = ALONE)]
    agent: Option<String>,

    /// What it alone can do: `all`, `none`, or a list of `streaming`, `push-notifications` and `extended-card`
    #[arg(
        long,
        env = "CHANCERY_CAPABILITIES",
        default_value = "all",
        value_name = "all|none|LIST",
        requires = "agent"
    )]
    capabilities: Capabilities,

    /// Listen on an address that others reach, too, although the demo lets everybody in
    #[arg(long, env = "CHANCERY_ALLOW_ANONYMOUS")]
    allow_anonymous: bool,

    /// Addresses that push notifications may be posted to, besides those that the whole world can reach, such as
    /// `127.0.0.0/8`; may be repeated
    #[arg(long, env = "CHANCERY_ALLOW_EGRESS", value_name = "CIDR")]
    allow_egress: Vec<Prefix>,

    /// A version of the protocol that it alone does not speak, of `1.0`, `0.3` and `0.1`; may be repeated. Without the older two,
    /// every reader gets the pure card of 1.0
    #[arg(long, env = "CHANCERY_WITHOUT_VERSION", value_name = "VERSION", value_delimiter = ',', value_parser = spoken, requires = "agent")]
    without_version: Vec<Version>,

    /// An extension that every call to it alone must activate; may be repeated
    #[arg(long, env = "CHANCERY_REQUIRE_EXTENSION", value_name = "URI", requires = "agent")]
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
        match self.agent.clone() {
            Some(name) => self.run_alone(&name).await,
            None => self.run_fleet().await,
        }
    }

    /// All agents, governed.
    async fn run_fleet(self) -> anyhow::Result<()> {
        if !self.listen.ip().is_loopback() && !self.allow_anonymous {
            let what =
                format!("{} can be reached from elsewhere, and the demo lets everybody in", self.listen);
            let problem = Problem::new(Origin::Flag("--listen"), "server.listen", what);
            return Err(BadConfig(vec![problem.hint("if that is meant, say `--allow-anonymous`")]).into());
        }
        let kept = store_url(&self.section())?;
        let load = move || Ok(Loaded::read_own(demo::CONFIG, self.flags()).map_err(BadConfig)?.config);
        let gateway = Gateway::start(Arc::new(load), None).await?;
        let paths: Vec<_> = demo::NAMES.map(|name| (name, format!("/agents/{name}"))).into();
        let mut text = welcome(gateway.url(), &paths);
        text.push_str(&try_planner(gateway.url()));
        text.push_str(&format!("Tasks are kept in {kept}\n{}", gateway.recovered()));
        std::io::stdout().write_all(text.as_bytes())?;
        gateway.run().await;
        Ok(())
    }

    /// Where things are kept.
    fn section(&self) -> StoreSection {
        StoreSection { url: self.store.clone(), data: self.data.clone(), ..StoreSection::default() }
    }

    /// What the configuration of the fleet is told by the command line.
    fn flags(&self) -> Vec<Flag> {
        let data = self.data.display().to_string();
        let egress: Vec<_> = self.allow_egress.iter().map(ToString::to_string).collect();
        let all: [(&'static str, &'static [&'static str], Option<Value>); 5] = [
            ("--listen", &["server", "listen"], Some(self.listen.to_string().into())),
            ("--public-url", &["server", "public_url"], self.public_url.clone().map(Value::from)),
            ("--data", &["store", "data"], Some(data.into())),
            ("--store", &["store", "url"], self.store.clone().map(Value::from)),
            ("--allow-egress", &["push", "allow_egress"], Some(egress.into())),
        ];
        all.into_iter().filter_map(|(flag, path, value)| Some((flag, path, value?))).collect()
    }

    async fn run_alone(self, name: &str) -> anyhow::Result<()> {
        let store = Arc::new(open_store(&self.section())?);
        let egress = self.allow_egress.iter().fold(Egress::default(), |egress, range| egress.allow(*range));
        let mut server = Server::builder().store(store.clone()).egress(egress).anonymous_extended_card();
        if self.allow_anonymous {
            server = server.allow_anonymous();
        }
        server = self.without_version.iter().fold(server, |server, version| server.without_version(*version));
        if let Some(url) = &self.public_url {
            server = server.public_url(url);
        }
        let agent = demo::agents(&Arc::default()).find(|agent| agent.name() == name);
        server = server.agent(self.equip(agent.with_context(|| format!("there is no agent `{name}`"))?)?);
        let server =
            server.bind(self.listen).await.with_context(|| format!("cannot serve on {}", self.listen))?;
        let shown = welcome(server.url(), &[(name, String::new())]);
        std::io::stdout().write_all(format!("{shown}{}", self.kept(server.recovered())?).as_bytes())?;
        server.run().await;
        store.close();
        Ok(())
    }

    /// Where tasks are kept, and what was found there.
    fn kept(&self, recovered: usize) -> anyhow::Result<String> {
        let mut text = format!("Tasks are kept in {}\n", store_url(&self.section())?);
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

/// What shows that calls lead to calls, what that costs, and that a loop is refused.
fn try_planner(url: &str) -> String {
    let place = url.trim_start_matches("http://");
    format!(
        "  chancery send {place}/agents/planner 'echo hello; stream 3 100; planner echo again'\n  \
         chancery spend roots                  # what each call from outside has cost, with all it led to\n  \
         chancery trace show ROOT              # one of them as a tree\n\n"
    )
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
