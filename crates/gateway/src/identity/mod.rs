//! Who may come in, and by what they are known: the secrets and keys in the data directory.
//!
//! | file | holds |
//! |---|---|
//! | `secret` | what keys are hashed and lineage tokens sealed with; made at the first start |
//! | `keys.json` | the records of API keys; written by `chancery key`, read again when it changes |
//! | `key-uses.json` | when each of them was last used; written while a gateway runs |
//! | `signing-keys.json` | the keys that cards are signed with, and lineage tokens for other gateways; made at the first start, read again when it changes |

mod federation;
pub(crate) mod files;
mod keys;
mod refused;
mod revoked;
mod signing;
mod trust;

use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_control::identity::{
    API_KEY_HEADER, AgentRing, AllowList, AllowRule, Authenticated, Authenticator, Credentials,
    IdentityResolver, KeyRefusal, ServerSecret, TokenRules, TrustedAgent, Unauthenticated, Who, is_reserved,
};
use chancery_control::{Millis, Plane};
use chancery_protocol::signing::AgentId;
use chancery_protocol::{Caller, Error, Timestamp};
use chancery_sdk::ServerBuilder;
use http::request::Parts;

use crate::config::{BadConfig, Config, KnownAgent, Origin, Problem};
use crate::gateway::public_name;
use crate::kinds::TaskKeys;

pub(crate) use federation::federation;
pub(crate) use keys::{KeyFile, KeyUses, LiveKeys, key_records};
use refused::Refusal;
pub(crate) use refused::RefusedCredentials;
use revoked::Revoked;
pub(crate) use signing::{Signatory, SigningKeys};
pub(crate) use trust::CardTrust;

/// Who may come in.
pub(crate) struct Identities {
    secret: ServerSecret,
    keys: Arc<LiveKeys>,
    authenticator: Arc<Authenticator>,
    anonymous: bool,
}

impl Identities {
    /// Reads keys and secrets, makes the secret if there is none, and decides who may come in at all. Callers without a
    /// credential may only if the configuration says so, and if nobody could call it cannot be used.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        let (keys, secret) = LiveKeys::open(&config.store.data)?;
        let anonymous = config.server.anonymous;
        if !anonymous && keys.ring.is_empty() && config.identity.agent.is_empty() {
            let data = config.store.data.display();
            let what = "nobody could call: there is no key, no agent is known by a key of its own, and \
                        anonymous callers are not let in";
            let problem = Problem::new(Origin::Default, "server.anonymous", what).hint(format!(
                "make a key with `chancery key create --data {data} --caller NAME`, or let everybody in with \
                 `anonymous = true` under `[server]`"
            ));
            return Err(BadConfig(vec![problem]).into());
        }
        let mut authenticator = Authenticator::default().with_keys(keys.ring.clone());
        if !config.identity.agent.is_empty() {
            authenticator = authenticator.with_agents(Arc::new(agent_ring(config)?));
        }
        if anonymous {
            authenticator = authenticator.with_anonymous();
        }
        tokio::spawn(keys.clone().follow());
        Ok(Self { secret, keys, authenticator: Arc::new(authenticator), anonymous })
    }

    /// The keys, which are followed while the gateway runs.
    pub(crate) fn keys(&self) -> &Arc<LiveKeys> {
        &self.keys
    }

    /// What lineage tokens are sealed with.
    pub(crate) fn lineage_secret(&self) -> Vec<u8> {
        self.secret.to_text().as_bytes().to_vec()
    }

    /// Has the server ask who is calling, and its cards say how that is shown.
    pub(crate) fn guard(
        &self,
        server: ServerBuilder,
        turns: Arc<TaskKeys>,
        plane: Arc<Plane>,
        refusals: RefusedCredentials,
    ) -> ServerBuilder {
        let (authenticator, keys) = (self.authenticator.clone(), self.keys.clone());
        let mut server = server.authenticate(move |head| {
            let found = match of_a_turn(&turns, head) {
                Ok(None) => authenticate(&authenticator, &keys, head),
                Ok(Some(caller)) => Ok(caller),
                Err(refusal) => Err(refusal),
            };
            found.inspect_err(|refusal| refusals.write_down(head, refusal)).map_err(Error::from)
        });
        let revoked = Revoked::of(&self.keys, plane);
        server = server.revocation(move |caller| revoked.when(caller));
        for (name, scheme) in self.authenticator.schemes() {
            server = server.security_scheme(name, scheme);
        }
        if self.anonymous { server.allow_anonymous() } else { server }
    }
}

/// An agent that runs here, in the middle of a turn.
fn of_a_turn(turns: &TaskKeys, head: &Parts) -> Result<Option<Caller>, Refusal> {
    let caller = only(head, "authorization")?.and_then(|said| turns.caller(said));
    if caller.is_some() && head.headers.contains_key(API_KEY_HEADER) {
        return Err(Unauthenticated::Twice.into());
    }
    Ok(caller)
}

fn authenticate(authenticator: &Authenticator, keys: &LiveKeys, head: &Parts) -> Result<Caller, Refusal> {
    let credentials =
        Credentials { authorization: only(head, "authorization")?, api_key: only(head, API_KEY_HEADER)? };
    let mut found = authenticator.authenticate(&credentials, now());
    // A key may be so new that nobody has looked yet.
    if matches!(found, Err(Unauthenticated::Key(KeyRefusal::Unknown))) {
        // Somebody else may have read it again just now.
        keys.refresh();
        found = authenticator.authenticate(&credentials, now());
    }
    // A token that was made for one body is of no use here: who is calling is asked before the body is read.
    Ok(found.and_then(Authenticated::for_any_body)?)
}

/// A header that may be there once. What cannot be read is not taken for nothing: that would be somebody anonymous.
fn only<'a>(head: &'a Parts, name: &'static str) -> Result<Option<&'a str>, Refusal> {
    let mut values = head.headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(Refusal::Unreadable(name)),
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
    if is_reserved(&known.name) {
        bail!("no agent can have a name that begins with `call:` or `unattributed/`: {}", known.name);
    }
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
