//! Lineage tokens: compact JWS that say of which call their bearer is the agent.
//!
//! A token for this gateway is sealed with a keyed MAC and points at a call that must be open: what it says besides is
//! for its reader. A token for another trust domain is signed, and its claims are all that is known there.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_protocol::{Denied, HopId, write_json};
use serde::{Deserialize, Serialize};

use super::keys::{self, Keyring, Signer, Verifier};
use super::open::{Allowance, OpenHop};
use super::rules::invalid;
use super::trace::TraceId;
use crate::Millis;

/// The extension under which a token stands in the metadata of a message.
pub const LINEAGE_EXTENSION: &str = "urn:chancery:ext:lineage:v1";

/// Nothing longer is looked at.
pub const MAX_TOKEN_BYTES: usize = 4096;

/// So much of a token names the agents on the way: the last ones, if there are more.
const MAX_PATH_BYTES: usize = 1800;

/// Stands between a gateway and its agent where gateways read each other's tokens. No agent's name has it.
const OF_DOMAIN: char = '#';

/// Makes lineage tokens and reads them.
#[derive(Clone)]
pub struct Tokens {
    name: Arc<str>,
    keys: Keyring,
    trusted: Vec<(Arc<str>, Arc<dyn Verifier>)>,
}

/// What a token says. Names and forms are those of JWT where it has any; the rest is spelt like all our extension data.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claims<'a> {
    /// The gateway that made it.
    #[serde(borrow)]
    iss: Cow<'a, str>,
    /// The gateway that it is for.
    #[serde(borrow)]
    aud: Cow<'a, str>,
    /// The agent that it was given to.
    #[serde(borrow)]
    sub: Cow<'a, str>,
    /// When it ends, in seconds since 1970.
    exp: u64,
    #[serde(borrow)]
    realm: Cow<'a, str>,
    root: HopId,
    /// The call that the bearer answers: the parent of those that it makes.
    parent: HopId,
    depth: u16,
    #[serde(borrow)]
    path: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    root_agent: Cow<'a, str>,
    #[serde(borrow)]
    trace_id: Cow<'a, str>,
    /// What was held for the call.
    reserved: Figures,
    /// What was left for it, and for all that goes on from it, when the token was made.
    allowance: Figures,
}

/// What is read of a token of our own: the open call that it points at says the rest.
#[derive(Deserialize)]
struct Pointer<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
    #[serde(borrow)]
    aud: Cow<'a, str>,
    exp: u64,
    #[serde(borrow)]
    realm: Cow<'a, str>,
    root: HopId,
    parent: HopId,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
}

/// The head of a token that is not sealed with a key of ours.
#[derive(Deserialize)]
struct ForeignHead<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    typ: Cow<'a, str>,
    #[serde(borrow)]
    kid: Cow<'a, str>,
}

/// A token that holds.
#[derive(Debug)]
pub(super) enum Proven {
    /// It is ours, and points at this call of this root.
    Own { root: HopId, hop: HopId },
    /// Another trust domain made it.
    Foreign(Foreign),
    /// Another gateway made it for itself, and sealed it so that nobody else can tell: it says nothing here.
    Elsewhere,
}

/// What another trust domain says about a call.
#[derive(Clone, Debug)]
pub(super) struct Foreign {
    pub(super) issuer: Arc<str>,
    pub(super) depth: u16,
    pub(super) path: Vec<Arc<str>>,
    pub(super) root_agent: Arc<str>,
    pub(super) trace: Option<TraceId>,
    pub(super) allowance: Allowance,
}

// === impl Tokens ===

impl Tokens {
    /// For the gateway of this name, which is what other trust domains know it by: its public URL.
    pub fn new(name: impl Into<Arc<str>>, keys: Keyring) -> Self {
        Self { name: name.into(), keys, trusted: Vec::new() }
    }

    /// Believes the tokens that another gateway signs for this one.
    #[must_use]
    pub fn trusting(mut self, issuer: impl Into<Arc<str>>, verifier: Arc<dyn Verifier>) -> Self {
        self.trusted.push((issuer.into(), verifier));
        self
    }

    /// A token that this gateway will verify itself, for the agent of an open call.
    pub fn mint(&self, hop: &OpenHop, expires: Millis) -> String {
        let key = self.keys.current();
        let mut token = self.unsealed(key.head(), &self.name, hop, expires, Cow::Borrowed);
        let seal = key.seal(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(seal, &mut token);
        token
    }

    /// A token that another gateway will verify, for the agent of an open call, which is in that one's trust domain.
    pub fn mint_for(&self, audience: &str, signer: &dyn Signer, hop: &OpenHop, expires: Millis) -> String {
        let head = keys::head("EdDSA", signer.key_id());
        let mut token = self.unsealed(&head, audience, hop, expires, |name| self.name_abroad(name));
        let signature = signer.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// Reads a token, and believes it only if its seal holds, it is for us, it has not expired, and, being ours, is of
    /// this realm.
    pub(super) fn verify(&self, token: &str, realm: &str, now: Millis) -> Result<Proven, Denied> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(invalid("the token is too long"));
        }
        let (message, seal) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (head, body) = message.split_once('.').ok_or_else(malformed)?;
        let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| malformed())?;
        match self.keys.find(head, now) {
            Some(key) if key.holds(message.as_bytes(), &seal) => self.own(body, realm, now),
            Some(_) => Err(forged()),
            None => self.foreign(head, message, body, &seal, now),
        }
    }

    fn own(&self, body: &str, realm: &str, now: Millis) -> Result<Proven, Denied> {
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| malformed())?;
        let pointer: Pointer<'_> = serde_json::from_slice(&json).map_err(|_| malformed())?;
        if *pointer.iss != *self.name {
            return Err(forged());
        }
        self.check_terms(&pointer.aud, pointer.exp, now)?;
        if pointer.realm != realm {
            return Err(invalid("the token is of another realm"));
        }
        Ok(Proven::Own { root: pointer.root, hop: pointer.parent })
    }

    /// What the token says decides only whose key it is tried with.
    fn foreign(
        &self,
        head: &str,
        message: &str,
        body: &str,
        signature: &[u8],
        now: Millis,
    ) -> Result<Proven, Denied> {
        let head = URL_SAFE_NO_PAD.decode(head).map_err(|_| malformed())?;
        let head: ForeignHead<'_> = serde_json::from_slice(&head).map_err(|_| malformed())?;
        if head.alg == keys::OWN_ALGORITHM && head.typ == keys::TOKEN_TYPE {
            return Ok(Proven::Elsewhere);
        }
        if head.alg != "EdDSA" || head.typ != keys::TOKEN_TYPE {
            return Err(forged());
        }
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| malformed())?;
        let claims: Claims<'_> = serde_json::from_slice(&json).map_err(|_| malformed())?;
        let (issuer, verifier) = self
            .trusted
            .iter()
            .find(|(issuer, _)| **issuer == *claims.iss)
            .ok_or_else(|| invalid("nobody here knows who made the token"))?;
        let signature = signature.try_into().map_err(|_| forged())?;
        if !verifier.verify(&head.kid, message.as_bytes(), signature) {
            return Err(forged());
        }
        self.check_terms(&claims.aud, claims.exp, now)?;
        Ok(Proven::Foreign(Foreign {
            issuer: issuer.clone(),
            depth: claims.depth,
            path: claims.path.iter().map(|name| self.name_at_home(name)).collect(),
            root_agent: self.name_at_home(&claims.root_agent),
            trace: TraceId::parse(&claims.trace_id),
            allowance: claims.allowance.into(),
        }))
    }

    fn check_terms(&self, audience: &str, expires_seconds: u64, now: Millis) -> Result<(), Denied> {
        if *audience != *self.name {
            return Err(invalid("the token is for another gateway"));
        }
        if expires_seconds.saturating_mul(1000) <= now.0 {
            return Err(invalid("the token has expired"));
        }
        Ok(())
    }

    /// What other gateways call an agent of this one: theirs may have the same name.
    fn name_abroad<'n>(&self, agent: &'n str) -> Cow<'n, str> {
        let known_abroad = agent.contains(OF_DOMAIN);
        if known_abroad { agent.into() } else { format!("{}{OF_DOMAIN}{agent}", self.name).into() }
    }

    /// The name here of an agent that another gateway names, so that a chain that comes back is seen to.
    fn name_at_home(&self, agent: &str) -> Arc<str> {
        let own = agent.rsplit_once(OF_DOMAIN).filter(|(domain, _)| **domain == *self.name);
        Arc::from(own.map_or(agent, |(_, name)| name))
    }

    fn unsealed<'n>(
        &'n self,
        head: &str,
        audience: &str,
        hop: &'n OpenHop,
        expires: Millis,
        named: impl Fn(&'n str) -> Cow<'n, str>,
    ) -> String {
        let context = &hop.context;
        let mut room = MAX_PATH_BYTES;
        let fits = |name: &Cow<'_, str>| {
            room = room.saturating_sub(name.len() + 3);
            room > 0
        };
        let newest_first = context.visited.iter().map(|visit| named(&visit.agent));
        let mut path: Vec<Cow<'_, str>> = newest_first.take_while(fits).collect();
        path.reverse();
        let trace = context.trace_id.text();
        let claims = Claims {
            iss: Cow::Borrowed(&self.name),
            aud: Cow::Borrowed(audience),
            sub: Cow::Borrowed(hop.bearer()),
            exp: expires.0.div_ceil(1000),
            realm: Cow::Borrowed(&hop.realm),
            root: hop.root,
            parent: hop.hop,
            depth: context.depth,
            path,
            root_agent: named(&context.root_agent_id),
            trace_id: Cow::Borrowed(trace.as_str()),
            reserved: Figures { micro_usd: Some(hop.reserved.micro_usd), tokens: Some(hop.reserved.tokens) },
            allowance: hop.allowance.into(),
        };
        let mut json = Vec::with_capacity(640);
        write_json(&mut json, &claims).expect("strings, numbers and lists of them are always JSON");
        let mut token = String::with_capacity(head.len() + json.len().div_ceil(3) * 4 + 90);
        token.push_str(head);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(&json, &mut token);
        token
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("name", &self.name).field("keys", &self.keys).finish_non_exhaustive()
    }
}

fn malformed() -> Denied {
    invalid("the token is not one of ours")
}

fn forged() -> Denied {
    invalid("the seal of the token does not hold")
}

// === impl Figures ===

impl From<Allowance> for Figures {
    fn from(allowance: Allowance) -> Self {
        Self { micro_usd: allowance.micro_usd, tokens: allowance.tokens }
    }
}

impl From<Figures> for Allowance {
    fn from(figures: Figures) -> Self {
        Self { micro_usd: figures.micro_usd, tokens: figures.tokens }
    }
}
