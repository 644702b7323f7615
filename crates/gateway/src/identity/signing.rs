//! The keys that cards are signed with: made at the first start, changed by `chancery key rotate`, also while a gateway
//! runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chancery_control::identity::KeySet;
use chancery_control::lineage::OwnKey;
use chancery_protocol::signing::{
    AgentKey, Jwk, P256Key, PublicKey, Signing, SigningKey, sign_as_served, sign_card,
};
use chancery_protocol::{AgentCard, AgentCardSignature, Error, Timestamp};
use chancery_sdk::{CardSigner, Service, WELL_KNOWN_KEYS};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{files, millis, now};
use crate::config::Config;

const FILE: &str = "signing-keys.json";
/// How often it is looked whether keys from before a change are over.
const LOOK: Duration = Duration::from_secs(1);

/// The keys that sign, of a gateway that runs.
pub(crate) struct Signatory {
    path: PathBuf,
    keys: RwLock<KeySet>,
    public_url: Option<String>,
    for_readers_without_empties: bool,
}

/// The keys as they are kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SigningKeys {
    /// Those that sign, as PEM.
    current: Vec<String>,
    /// Those from before a change, and until when what they sign counts.
    previous: Vec<Retired>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retired {
    key: Jwk,
    until: Timestamp,
    /// The key itself, with which cards are signed as well until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pem: Option<String>,
}

// === impl Signatory ===

impl Signatory {
    /// Reads the keys, and makes them if there are none; none if cards are not to be signed.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Arc<Self>>> {
        if !config.cards.sign {
            return Ok(None);
        }
        let (path, kept) = SigningKeys::open(&config.store.data)?;
        Ok(Some(Arc::new(Self {
            path,
            keys: RwLock::new(kept.to_key_set()?),
            public_url: config.server.public_url.clone(),
            for_readers_without_empties: config.cards.for_readers_without_empties,
        })))
    }

    /// Takes over keys that are changed while the gateway runs, and has its cards signed again.
    pub(crate) fn watch(self: &Arc<Self>, service: Service) {
        tokio::spawn(self.clone().let_end(service.clone()));
        let signatory = self.clone();
        tokio::spawn(files::watch(self.path.clone(), move || {
            *signatory.keys.write() = SigningKeys::read(&signatory.path)?.to_key_set()?;
            service.sign_cards_again();
            Ok(())
        }));
    }

    /// Has the cards signed again when the keys from before a change are over.
    async fn let_end(self: Arc<Self>, service: Service) {
        let mut end = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = now();
            if end.is_some_and(|end| end <= now) {
                service.sign_cards_again();
            }
            end = self.keys.read().next_end(now);
        }
    }

    fn signing(&self, card: &AgentCard) -> Signing {
        Signing { jku: self.jku(card), for_readers_without_empties: self.for_readers_without_empties }
    }

    /// Where the keys are, by what the card says of where the agent is.
    fn jku(&self, card: &AgentCard) -> Option<String> {
        if let Some(url) = &self.public_url {
            return Some(format!("{}{WELL_KNOWN_KEYS}", url.trim_end_matches('/')));
        }
        let uri: http::Uri = card.supported_interfaces.first()?.url.parse().ok()?;
        Some(format!("{}://{}{WELL_KNOWN_KEYS}", uri.scheme_str()?, uri.authority()?))
    }
}

impl CardSigner for Signatory {
    fn sign(&self, card: &mut AgentCard) -> Result<(), Error> {
        let signing = self.signing(card);
        sign_card(card, &self.keys.read().signing(now()), &signing).map_err(Error::internal)
    }

    fn sign_served(&self, card: &AgentCard, json: &str) -> Result<Vec<AgentCardSignature>, Error> {
        let signing = self.signing(card);
        sign_as_served(json, &self.keys.read().signing(now()), &signing).map_err(Error::internal)
    }

    fn published(&self) -> Vec<u8> {
        serde_json::to_vec(&self.keys.read().published(now())).unwrap_or_default()
    }
}

// === impl SigningKeys ===

impl SigningKeys {
    /// The keys of a data directory, made if there are none, and the file that they are in.
    pub(crate) fn open(data: &Path) -> anyhow::Result<(PathBuf, Self)> {
        files::make_private(data)?;
        let path = data.join(FILE);
        if files::read_secret(&path)?.is_none() {
            Self { current: new_pair()?, previous: Vec::new() }.save(&path)?;
        }
        let kept = Self::read(&path)?;
        Ok((path, kept))
    }

    /// Signs with new keys from now on. What was signed with those before is good for so long.
    pub(crate) fn rotate(&mut self, overlap: Duration) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let overlap = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(now.as_millis().saturating_add(overlap));
        self.previous.retain(|retired| retired.until > now);
        if until <= now {
            self.previous.clear();
        }
        for pem in std::mem::replace(&mut self.current, new_pair()?) {
            let key = SigningKey::from_pem(&pem)?.public().to_published_jwk();
            // Whoever leaves no overlap does not trust it any more.
            let pem = (until > now).then_some(pem);
            self.previous.push(Retired { key, until, pem });
        }
        Ok(())
    }

    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        files::write_private(path, serde_json::to_string_pretty(self)?.as_bytes())
    }

    /// The keys, for use.
    pub(crate) fn to_key_set(&self) -> anyhow::Result<KeySet> {
        let current = self.current.iter().map(|pem| SigningKey::from_pem(pem));
        let mut keys = KeySet::new(current.collect::<Result<Vec<_>, _>>()?);
        for Retired { key, until, pem } in &self.previous {
            keys = match pem {
                Some(pem) => keys.with_overlapping(SigningKey::from_pem(pem)?, millis(*until)),
                None => {
                    let key = key.to_public_key().context("a key that has signed before is damaged")?;
                    keys.with_previous(key, millis(*until))
                }
            };
        }
        Ok(keys)
    }

    /// What other gateways know this one by.
    pub(super) fn to_own_key(&self) -> anyhow::Result<OwnKey> {
        let key = self.agent_key()?;
        let earlier = self.previous.iter().filter_map(|Retired { key, until, .. }| {
            Some((key.to_public_key()?.agent_id()?, millis(*until)))
        });
        Ok(OwnKey::new(key, earlier))
    }

    /// The key that says who this gateway is.
    pub(crate) fn agent_key(&self) -> anyhow::Result<AgentKey> {
        let key = self.current.iter().find_map(|pem| AgentKey::from_pem(pem).ok());
        key.context("there is no Ed25519 key")
    }

    /// The public halves of all keys that count, those from before a change included.
    pub(crate) fn public_keys(&self) -> anyhow::Result<Vec<PublicKey>> {
        let now = Timestamp::now();
        let current = self.current.iter().map(|pem| Ok(SigningKey::from_pem(pem)?.public()));
        let previous = self.previous.iter().filter(|retired| retired.until > now);
        let previous = previous.filter_map(|retired| retired.key.to_public_key().map(Ok));
        current.chain(previous).collect()
    }

    /// The keys of a data directory, if there are any.
    pub(crate) fn existing(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = data.join(FILE);
        path.exists().then(|| Self::read(&path)).transpose()
    }

    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = files::read_secret(path)?.with_context(|| format!("{} is gone", path.display()))?;
        // What is wrong is not quoted: it could be a piece of a key.
        serde_json::from_slice(&text).map_err(|_| anyhow::anyhow!("{} is damaged", path.display()))
    }
}

/// An Ed25519 key, which is who this gateway is, and one for readers who know no Ed25519.
fn new_pair() -> anyhow::Result<Vec<String>> {
    let pair: [SigningKey; 2] = [AgentKey::generate()?.into(), P256Key::generate()?.into()];
    pair.iter().map(|key| Ok(key.to_pem()?.to_string())).collect()
}
