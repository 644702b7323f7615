//! The members of other fleets, found by the cards or catalogues of those and taken for agents that nobody trusts. They come
//! and go as they do there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_sdk::egress::{Egress, Web};
use chancery_sdk::{Client, WELL_KNOWN_CARD, is_agent_name};
use http::{HeaderMap, HeaderValue, Uri};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::card::FLEET_EXTENSION;
use super::{RESERVED, Reloader};
use crate::config::{AgentKind, AgentSection, Config, DiscoverSection, OutboundSection, Trust};

/// How large a card or a page of a catalogue may be, and how many pages are read.
const LARGEST: usize = 8 << 20;
const MOST_PAGES: usize = 100;
/// How often to look whether it is time to ask anybody.
const LOOK: Duration = Duration::from_millis(250);

/// How much of a name or a reason is told that another fleet has written.
const MOST_TOLD: usize = 300;

/// Who was found in other fleets.
#[derive(Default)]
pub(crate) struct Discovered {
    /// Where each member is, by the URL that was asked and its name there.
    found: Mutex<HashMap<String, BTreeMap<String, String>>>,
    left_out: Mutex<Vec<LeftOut>>,
}

/// A member of another fleet that cannot be one here, and why. It harms neither the others nor the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeftOut {
    discovered_in: String,
    /// Its name there.
    name: String,
    reason: String,
}

/// A member as another fleet lists it.
#[derive(Deserialize)]
struct Listed {
    name: String,
    url: String,
    /// Whether that fleet has found it in another.
    #[serde(default)]
    discovered: bool,
}

/// A page of a catalogue.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    agents: Vec<Listed>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl Discovered {
    /// The agents that were found, as though the configuration had them. Whoever cannot be one is left out.
    pub(super) fn agents(&self, config: &Config) -> Vec<AgentSection> {
        let mut taken: BTreeSet<String> = config.agent.iter().map(|agent| agent.name.clone()).collect();
        let found = self.found.lock();
        let (mut agents, mut left_out) = (Vec::new(), Vec::new());
        for section in &config.discover {
            let there = found.get(&section.url).map_or(0, BTreeMap::len);
            if there > section.max_agents {
                let (url, most) = (&section.url, section.max_agents);
                tracing::warn!(url, "{there} agents are there, of which {most} are taken: `max_agents`");
            }
            for (name, url) in found.get(&section.url).into_iter().flatten().take(section.max_agents) {
                let ours = format!("{}-{name}", section.prefix);
                if let Some(reason) = unfit(&ours, url, &taken) {
                    let (name, reason) = (told(name), told(&reason));
                    left_out.push(LeftOut { discovered_in: section.url.clone(), name, reason });
                    continue;
                }
                agents.push(agent(section, &ours, url));
                taken.insert(ours);
            }
        }
        drop(found);
        self.leave_out(left_out);
        agents
    }

    /// Those that cannot be members here.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.lock().clone()
    }

    /// Writes down who cannot be a member. Each is logged when it is first seen so.
    fn leave_out(&self, left_out: Vec<LeftOut>) {
        let mut known = self.left_out.lock();
        for LeftOut { discovered_in, name, reason } in left_out.iter().filter(|one| !known.contains(one)) {
            tracing::warn!(
                url = discovered_in,
                name,
                "`{name}` of the fleet at {discovered_in} is left out: {reason}"
            );
        }
        *known = left_out;
    }

    /// Writes down who is there, and says whether that is anything new.
    fn note(&self, url: &str, members: BTreeMap<String, String>) -> bool {
        let mut found = self.found.lock();
        let known = found.entry(url.to_owned()).or_default();
        let is_new = *known != members;
        *known = members;
        is_new
    }

    /// Forgets fleets that are asked no more.
    fn retain(&self, sections: &[DiscoverSection]) {
        self.found.lock().retain(|url, _| sections.iter().any(|section| section.url == *url));
    }
}

/// Why somebody who was found cannot be an agent of this name at this URL.
fn unfit(name: &str, url: &str, taken: &BTreeSet<String>) -> Option<String> {
    if !is_agent_name(name) || RESERVED.contains(&name) {
        return Some(format!("`{name}` cannot be the name of an agent here"));
    }
    if taken.contains(name) {
        return Some(format!("there is another agent `{name}` here"));
    }
    Client::builder().connect_later(url).err().map(|error| error.to_string())
}

/// What another fleet has written, for a log and a terminal.
fn told(text: &str) -> String {
    text.chars().take(MOST_TOLD).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn agent(section: &DiscoverSection, name: &str, url: &str) -> AgentSection {
    AgentSection {
        url: Some(url.to_owned()),
        trust: Trust::Untrusted,
        skills: section.skills.clone(),
        price: section.price,
        exposed: section.exposed,
        discovered_in: Some(section.url.clone()),
        ..AgentSection::new(name, AgentKind::A2a)
    }
}

/// Asks other fleets who is there, for as long as the process runs. Whoever cannot be asked has the members it had.
pub(super) async fn watch(reloader: Arc<Reloader>) {
    let mut due: HashMap<String, Instant> = HashMap::new();
    loop {
        let config = reloader.config().await;
        due.retain(|url, _| config.discover.iter().any(|section| section.url == *url));
        reloader.discovered().retain(&config.discover);
        let now = Instant::now();
        let is_due = |section: &&DiscoverSection| due.get(&section.url).is_none_or(|due| *due <= now);
        let asked: Vec<_> = config.discover.iter().filter(is_due).collect();
        let answers =
            futures_util::future::join_all(asked.iter().map(|section| ask(section, &config.outbound)));
        let mut is_new = false;
        for (section, answer) in asked.iter().zip(answers.await) {
            match answer {
                Ok(members) => is_new |= reloader.discovered().note(&section.url, members),
                Err(error) => {
                    let url = &section.url;
                    tracing::warn!(url, "who is in the fleet at {url} cannot be found out: {error:#}");
                }
            }
            due.insert(section.url.clone(), Instant::now() + Duration::from_millis(section.refresh_ms));
        }
        if is_new {
            reloader.clone().rediscovered().await;
        }
        sleep(LOOK).await;
    }
}

/// Who is in a fleet: where each member is, by its name there.
async fn ask(
    section: &DiscoverSection,
    outbound: &OutboundSection,
) -> anyhow::Result<BTreeMap<String, String>> {
    // The operator said where it is; what it names in turn is dialled by the rules.
    let egress = outbound.trusting(Egress::unrestricted().connect_timeout(outbound.connect_timeout()))?;
    let web = Web::new(&egress);
    let limit = outbound.connect_timeout() + outbound.read_timeout();
    let listed = timeout(limit, listed(&web, section)).await.context("it takes too long")??;
    // What it has found elsewhere itself is to be found there, or two fleets would find each other for ever.
    let own = listed.into_iter().filter(|member| !member.discovered);
    let members: BTreeMap<_, _> = own.map(|member| (member.name, member.url)).collect();
    if members.len() > section.max_agents {
        let (there, most) = (members.len(), section.max_agents);
        tracing::warn!(
            url = section.url,
            "{there} agents are there, of which {most} are taken: `max_agents`"
        );
    }
    Ok(members)
}

async fn listed(web: &Web, section: &DiscoverSection) -> anyhow::Result<Vec<Listed>> {
    let url = section.url.split(['?', '#']).next().unwrap_or_default();
    if url.ends_with("/agents") || url.ends_with("/agents/") {
        return catalogue(web, url, section.max_agents).await;
    }
    let card = match url.ends_with(".json") {
        true => url.to_owned(),
        false => format!("{}{WELL_KNOWN_CARD}", url.trim_end_matches('/')),
    };
    let card: Value = document(web, &card).await?;
    let extensions = card["capabilities"]["extensions"].as_array();
    let of_fleet = extensions.into_iter().flatten().find(|known| known["uri"] == FLEET_EXTENSION);
    let Some(of_fleet) = of_fleet else { bail!("what is there is not the card of a fleet") };
    serde_json::from_value(of_fleet["params"]["members"].clone()).context("its members cannot be read")
}

async fn catalogue(web: &Web, url: &str, most: usize) -> anyhow::Result<Vec<Listed>> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    for _ in 0..MOST_PAGES {
        let after = percent_encoding::utf8_percent_encode(&cursor, percent_encoding::NON_ALPHANUMERIC);
        let page: Page = document(web, &format!("{url}?limit=500&cursor={after}")).await?;
        all.extend(page.agents);
        match page.next_cursor {
            Some(next) if all.len() <= most => cursor = next,
            _ => break,
        }
    }
    Ok(all)
}

async fn document<T: DeserializeOwned>(web: &Web, url: &str) -> anyhow::Result<T> {
    let url: Uri = url.parse().with_context(|| format!("`{url}` is no URL"))?;
    let version = [(http::HeaderName::from_static("a2a-version"), HeaderValue::from_static("1.0"))];
    let answer = web.get(url, HeaderMap::from_iter(version)).await?;
    if !answer.status().is_success() {
        bail!("it was answered with HTTP status {}", answer.status());
    }
    serde_json::from_slice(&answer.whole(LARGEST).await?).context("the answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_found_takes_nobodys_name_and_is_not_trusted() {
        let section = |prefix: &str| DiscoverSection {
            url: "http://a.example".to_owned(),
            prefix: prefix.to_owned(),
            skills: vec!["translate".to_owned()],
            price: None,
            exposed: true,
            refresh_ms: 1000,
            max_agents: 3,
        };
        let found = Discovered::default();
        let long = "x".repeat(62);
        let there = ["echo", "stream", &long, "too-many"]
            .map(|name| (name.to_owned(), format!("http://a.example/{name}")));
        assert!(found.note("http://a.example", there.clone().into()));
        assert!(!found.note("http://a.example", there.into()));
        let ours = AgentSection::new("far-echo", AgentKind::Builtin);
        let config = Config { agent: vec![ours], discover: vec![section("far")], ..Config::default() };
        let agents = found.agents(&config);
        let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["far-stream", "far-too-many"]);
        assert!(agents.iter().all(|agent| agent.trust == Trust::Untrusted && agent.skills == ["translate"]));
        found.retain(&[]);
        assert!(found.agents(&config).is_empty());
    }
}
