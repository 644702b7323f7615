//! Agents elsewhere that speak A2A: one, or a pool of several. They may not be there yet.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_sdk::{Client, Relay};

use super::Surroundings;
use super::credential::StoredCredential;
use crate::config::{AgentSection, Exchange, Trust};
use crate::identity::CardTrust;

pub(super) async fn build(section: &AgentSection, surroundings: &Surroundings) -> anyhow::Result<Relay> {
    let name = section.name.as_str();
    let trust = CardTrust::of(section)?.map(Arc::new);
    let outbound = &surroundings.outbound;
    let credential =
        section.credential.as_ref().map(|known| StoredCredential::new(name, known)).transpose()?;
    let egress = outbound.egress()?;
    let client = |url: &str| {
        let mut client = Client::builder()
            .log_name(name)
            .connect_timeout(outbound.connect_timeout())
            .request_timeout(outbound.read_timeout())
            .max_concurrent_calls(outbound.max_calls)
            .max_streams(outbound.max_streams)
            .egress(egress.clone());
        if let Some(credential) = credential.clone() {
            client = client.credentials_from(move || credential.now());
        }
        for host in section.credential.iter().flat_map(|known| &known.hosts) {
            client = client.allow_credentials_to(host);
        }
        if let Some(trust) = trust.clone() {
            client = client.check_card(move |card| trust.judge(card));
        }
        if section.trust == Trust::Untrusted {
            client = client.only_where_named();
        }
        if let Some(fleet) = &section.discovered_in {
            client = client.found_at(fleet);
        }
        client.connect_later(url).with_context(|| format!("`{url}` of agent `{name}` cannot be used"))
    };
    let mut relay = match (&section.url, surroundings.pools.get(name)) {
        (_, Some(pool)) => {
            let members =
                section.members.iter().map(|member| Ok((member.name.as_str(), client(&member.url)?)));
            let members: Vec<_> = members.collect::<anyhow::Result<_>>()?;
            let relay = Relay::pool_of_absent(name, members).await;
            let relay = relay.with_context(|| format!("agent `{name}` cannot be relayed to"))?;
            relay.watched_by(pool.clone())
        }
        (Some(url), None) => Relay::of_absent(client(url)?, name).await,
        (None, None) => bail!("agent `{name}` has neither a URL nor members"),
    };
    relay = relay.patience(Duration::from_millis(section.patience_ms));
    if section.exchange == Exchange::Stream {
        relay = relay.always_stream();
    }
    Ok(if section.trust == Trust::Untrusted { relay.untrusted() } else { relay })
}
