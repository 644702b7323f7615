//! Whose cards are believed: the keys that an agent elsewhere is known by.

use std::path::Path;

use anyhow::{Context, bail};
use chancery_protocol::Timestamp;
use chancery_protocol::signing::{
    AgentId, CardPolicy, CardRefusal, Jwk, JwkSet, TrustedKeys, Verified, verify_card,
};

use super::files::read_named;
use crate::config::{AgentSection, PinnedKeys, SignatureMode};

/// How long a file of keys may be.
const LARGEST: u64 = 1 << 20;

/// Judges the card of an agent, as it came.
pub(crate) struct CardTrust {
    keys: TrustedKeys,
    may_be_unsigned: bool,
}

impl CardTrust {
    /// As the configuration of the agent has it; none if whatever it says of itself is believed.
    pub(crate) fn of(agent: &AgentSection) -> anyhow::Result<Option<Self>> {
        let may_be_unsigned = match agent.signature {
            SignatureMode::Off => return Ok(None),
            SignatureMode::VerifyIfPresent => true,
            SignatureMode::Require => false,
        };
        let keys = trusted(&agent.trusted_keys)
            .with_context(|| format!("the keys of agent `{}` cannot be used", agent.name))?;
        Ok(Some(Self { keys, may_be_unsigned }))
    }

    /// The name of the key that it is signed with, or why it is not believed.
    pub(crate) fn judge(&self, card: &[u8]) -> Result<Option<String>, String> {
        let text = std::str::from_utf8(card).map_err(|_| "the card is not UTF-8".to_owned())?;
        match verify_card(text, &self.keys, &CardPolicy::default(), Timestamp::now()) {
            Ok(Verified { kid, .. }) => Ok(Some(kid)),
            Err(CardRefusal::Unsigned) if self.may_be_unsigned => Ok(None),
            Err(refusal) => Err(refusal.to_string()),
        }
    }
}

fn trusted(pinned: &PinnedKeys) -> anyhow::Result<TrustedKeys> {
    let mut trusted = TrustedKeys::default();
    for id in &pinned.agent_ids {
        trusted.trust_agent(AgentId::parse(id).with_context(|| format!("`{id}` is no agent id"))?);
    }
    for jwk in &pinned.jwks {
        trust(&mut trusted, &jwk.to_jwk())?;
    }
    for file in &pinned.files {
        for jwk in &read(file)? {
            trust(&mut trusted, jwk)?;
        }
    }
    Ok(trusted)
}

fn trust(trusted: &mut TrustedKeys, jwk: &Jwk) -> anyhow::Result<()> {
    let named = jwk.kid.clone().unwrap_or_else(|| jwk.x.clone());
    let key = jwk.to_public_key().with_context(|| format!("`{named}` is no Ed25519 or P-256 key"))?;
    trusted.trust_as(jwk.kid.clone().unwrap_or_else(|| key.kid()), key, None);
    Ok(())
}

/// A file holds one key, or what somebody publishes.
fn read(path: &Path) -> anyhow::Result<Vec<Jwk>> {
    // The operator's own path, which may lead elsewhere.
    let text = read_named(path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
    let damaged = || format!("{} is neither a JWK nor a set of them", path.display());
    if let Ok(set) = serde_json::from_slice::<JwkSet>(&text) {
        if set.keys.is_empty() {
            bail!("{} has no key that can be used", path.display());
        }
        return Ok(set.keys);
    }
    Ok(vec![serde_json::from_slice(&text).with_context(damaged)?])
}
