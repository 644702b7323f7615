//! Who may come in, and by what they are known: the secrets and keys in the data directory.
//!
//! | file | holds |
//! |---|---|
//! | `secret` | what keys are hashed and lineage tokens sealed with; made at the first start |
//! | `keys.json` | the records of API keys; written by `chancery key`, read again when it changes |
//! | `signing-keys.json` | the keys that cards are signed with, and lineage tokens for other gateways; made at the first start, read again when it changes |

mod federation;
pub(crate) mod files;
mod signing;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_control::Millis;
use chancery_control::identity::{
    API_KEY_HEADER, AgentRing, AllowList, AllowRule, Authenticator, Credentials, IdentityResolver, KeyRecord,
    KeyRing, ServerSecret, TokenRules, TrustedAgent, Who,
};
use chancery_protocol::signing::AgentId;
use chancery_protocol::{Caller, Error, ErrorCode, Timestamp};
use chancery_sdk::ServerBuilder;
use http::request::Parts;

use crate::config::{Config, KnownAgent};
use crate::gateway::public_name;
use crate::kinds::TaskKeys;

pub(crate) use federation::federation;
pub(crate) use signing::{Signatory, SigningKeys};
pub(crate) use trust::CardTrust;

const SECRET: &str = "secret";
const KEYS: &str = "keys.json";

/// Who may come in.
pub(crate) struct Identities {
    secret: ServerSecret,
    authenticator: Arc<Authenticator>,
    anonymous: bool,
}

/// The records of API keys, in their file.
pub(crate) struct KeyFile {
    path: PathBuf,
    pub(crate) secret: ServerSecret,
    pub(crate) records: Vec<KeyRecord>,
}

impl Identities {
    /// Reads keys and secrets, makes the secret if there is none, and decides who may come in at all.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        let file = KeyFile::open(&config.store.data)?;
        let ring = Arc::new(KeyRing::new(&file.secret));
        ring.replace(&file.records)?;
        let has_scheme = !ring.is_empty() || !config.identity.agent.is_empty();
        let ports = config.agent.iter().filter_map(|agent| agent.grpc_listen);
        let mut ports = ports.chain(config.server.grpc_listen);
        let is_local = config.server.listen.is_local() && ports.all(|address| address.ip().is_loopback());
        let anonymous = config.server.anonymous.unwrap_or(is_local && !has_scheme);
        if !anonymous && !has_scheme {
            bail!(
                "nobody could call: {} can be reached from elsewhere and no key has been made; make one with `chancery key create`, or let everyone in with `server.anonymous = true`",
                config.server.listen
            );
        }
        let mut authenticator = Authenticator::default().with_keys(ring.clone());
        if !config.identity.agent.is_empty() {
            authenticator = authenticator.with_agents(Arc::new(agent_ring(config)?));
        }
        if anonymous {
            authenticator = authenticator.with_anonymous();
        }
        let path = file.path.clone();
        tokio::spawn(files::watch(file.path, move || Ok(ring.replace(&read_records(&path)?)?)));
        Ok(Self { secret: file.secret, authenticator: Arc::new(authenticator), anonymous })
    }

    /// What lineage tokens are sealed with.
    pub(crate) fn lineage_secret(&self) -> Vec<u8> {
        self.secret.to_text().as_bytes().to_vec()
    }

    /// Has the server ask who is calling, and its cards say how that is shown.
    pub(crate) fn guard(&self, server: ServerBuilder, turns: Arc<TaskKeys>) -> ServerBuilder {
        let authenticator = self.authenticator.clone();
        let mut server = server.authenticate(move |head| match of_a_turn(&turns, head) {
            Some(caller) => Ok(caller),
            None => authenticate(&authenticator, head),
        });
        for (name, scheme) in self.authenticator.schemes() {
            server = server.security_scheme(name, scheme);
        }
        if self.anonymous { server.allow_anonymous() } else { server }
    }
}

/// An agent that runs here, in the middle of a turn.
fn of_a_turn(turns: &TaskKeys, head: &Parts) -> Option<Caller> {
    turns.caller(only(head, "authorization").ok()??)
}

fn authenticate(authenticator: &Authenticator, head: &Parts) -> Result<Caller, Error> {
    let credentials =
        Credentials { authorization: only(head, "authorization")?, api_key: only(head, API_KEY_HEADER)? };
    // A token that was made for one body is of no use here: who is calling is asked before the body is read.
    Ok(authenticator.authenticate(&credentials, now())?.for_any_body()?)
}

/// A header that may be there once. What cannot be read is not taken for nothing: that would be somebody anonymous.
fn only<'a>(head: &'a Parts, name: &str) -> Result<Option<&'a str>, Error> {
    let mut values = head.headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let unreadable = || {
        Error::with_message(ErrorCode::Unauthenticated, format!("`{name}` cannot be read, or is there twice"))
            .challenge(r#"Bearer error="invalid_request""#)
    };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(unreadable()),
    }
}

fn now() -> Millis {
    millis(Timestamp::now())
}

fn millis(at: Timestamp) -> Millis {
    Millis(u64::try_from(at.as_millis()).unwrap_or_default())
}

fn agent_ring(config: &Config) -> anyhow::Result<AgentRing> {
    let audience = config.identity.audience.clone().unwrap_or_else(|| public_name(config));
    let ring = AgentRing::new(TokenRules { audiences: vec![audience], ..TokenRules::default() });
    let trusted =
        config.identity.agent.iter().map(|agent| trusted(config, agent)).collect::<Result<Vec<_>, _>>()?;
    ring.replace(trusted, now())?;
    Ok(ring)
}

fn trusted(config: &Config, known: &KnownAgent) -> anyhow::Result<TrustedAgent> {
    let id = AgentId::parse(&known.id)
        .with_context(|| format!("the id of agent `{}` cannot be read", known.name))?;
    let mut agent = TrustedAgent::new(id, known.realm.as_str(), known.name.as_str());
    agent.groups = known.groups.iter().map(|group| group.as_str().into()).collect();
    let is_ours = config.agent.iter().any(|ours| ours.name == known.name);
    agent.agent = is_ours.then(|| known.name.as_str().into());
    Ok(agent)
}

pub(crate) fn allow_list(allow: &[String]) -> Option<Arc<dyn IdentityResolver>> {
    let rule = |entry: &String| {
        let (kind, name) = entry.split_once(':')?;
        let who = match kind {
            "caller" => Who::Caller(name.into()),
            "group" => Who::Group(name.into()),
            _ => Who::AgentId(name.into()),
        };
        Some(AllowRule::new(who))
    };
    (!allow.is_empty())
        .then(|| Arc::new(AllowList::new(allow.iter().filter_map(rule))) as Arc<dyn IdentityResolver>)
}

// === impl KeyFile ===

impl KeyFile {
    /// Reads the keys of a data directory; makes its secret if there is none.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(data)
            .with_context(|| format!("cannot make the data directory {}", data.display()))?;
        let path = data.join(KEYS);
        let records = read_records(&path)?;
        Ok(Self { secret: secret(&data.join(SECRET))?, path, records })
    }

    /// Writes the records, as a whole or not at all.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        files::write_private(&self.path, serde_json::to_string_pretty(&self.records)?.as_bytes())
    }
}

fn read_records(path: &Path) -> anyhow::Result<Vec<KeyRecord>> {
    match files::read(path)? {
        Some(text) => serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display())),
        None => Ok(Vec::new()),
    }
}

fn secret(path: &Path) -> anyhow::Result<ServerSecret> {
    let Some(text) = files::read_secret(path)? else {
        let made = ServerSecret::generate()?;
        files::write_private(path, made.to_text().as_bytes())?;
        return Ok(made);
    };
    let text = std::str::from_utf8(&text).unwrap_or_default();
    ServerSecret::from_text(text.trim()).with_context(|| format!("{} is no secret", path.display()))
}
