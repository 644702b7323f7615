//! Other gateways that lineage is shared with, and the key that they know this one by.

use std::sync::Arc;

use anyhow::Context as _;
use chancery_control::lineage::Federation;
use chancery_protocol::signing::AgentId;

use super::files;
use super::signing::SigningKeys;
use crate::config::Config;

/// As the configuration has it; none if nobody is listed and this gateway is known by no key.
pub(crate) fn federation(config: &Config) -> anyhow::Result<Option<Arc<Federation>>> {
    let identity = &config.identity;
    if identity.gateway.is_empty() && !config.cards.sign {
        return Ok(None);
    }
    let (path, keys) = SigningKeys::open(&config.store.data)?;
    let id =
        |id: &str, of: &str| AgentId::parse(id).with_context(|| format!("the id of `{of}` cannot be read"));
    let gateways =
        identity.gateway.iter().map(|known| Ok((id(&known.id, &known.name)?, known.name.as_str().into())));
    let gateways = gateways.collect::<anyhow::Result<Vec<_>>>()?;
    let is_ours = |name: &str| config.agent.iter().any(|agent| agent.name == name);
    let agents = identity.agent.iter().filter(|known| is_ours(&known.name));
    let agents = agents.map(|known| Ok((known.name.as_str().into(), id(&known.id, &known.name)?)));
    let agents = agents.collect::<anyhow::Result<Vec<_>>>()?;
    let federation = Arc::new(Federation::new(keys.to_own_key()?, gateways, agents));
    let watched = federation.clone();
    tokio::spawn(files::watch(path.clone(), move || {
        watched.change_key(SigningKeys::read(&path)?.to_own_key()?);
        Ok(())
    }));
    Ok(Some(federation))
}
