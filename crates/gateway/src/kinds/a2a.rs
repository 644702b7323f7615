//! Agents elsewhere that speak A2A: one that may not be there yet, or a pool of several, of which one at least must be.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use chancery_control::routing::Pool;
use chancery_sdk::{Client, Relay};

use crate::config::{AgentSection, Trust};
use crate::identity::CardTrust;

/// How many streams from one agent are open at a time, and how many calls to it are under way.
const STREAMS: usize = 4096;
const CALLS: usize = 1024;

pub(super) async fn build(section: &AgentSection, pool: Option<&Arc<Pool>>) -> anyhow::Result<Relay> {
    let name = section.name.as_str();
    let trust = CardTrust::of(section)?.map(Arc::new);
    let client = |url: &str| {
        let mut client = Client::builder().max_streams(STREAMS).max_concurrent_calls(CALLS);
        if let Some(trust) = trust.clone() {
            client = client.check_card(move |card| trust.judge(card));
        }
        client.connect_later(url).with_context(|| format!("`{url}` of agent `{name}` cannot be used"))
    };
    let relayed = match (&section.url, pool) {
        (_, Some(pool)) => {
            let members =
                section.members.iter().map(|member| Ok((member.name.as_str(), client(&member.url)?)));
            let members: Vec<_> = members.collect::<anyhow::Result<_>>()?;
            Relay::pool(name, members).await.map(|relay| relay.watched_by(pool.clone()))
        }
        (Some(url), None) => Relay::of_absent(client(url)?, name).await,
        (None, None) => bail!("agent `{name}` has neither a URL nor members"),
    };
    let relay = relayed.with_context(|| format!("agent `{name}` cannot be relayed to"))?;
    Ok(if section.trust == Trust::Untrusted { relay.untrusted() } else { relay })
}
