//! The agents whose tokens are believed, and the tokens that have been verified already.
//!
//! A token carries its public key. That proves nothing by itself; but an [`AgentId`] is a digest of the key, so a key
//! whose digest is the id of a trusted agent is that agent's. Nothing but ids has to be configured.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_protocol::signing::jws::Token;
use chancery_protocol::signing::{AgentId, Jwk};
use chancery_protocol::{Caller, Identity, Principal, Proof};
use foldhash::fast::RandomState;
use parking_lot::RwLock;

use super::agent_token::{BodyBinding, Claims, MAX_LIFETIME, TOKEN_TYPE};
use super::spent::{Spending, Spent};
use crate::Millis;

#[cfg(test)]
mod tests;

/// Verifies the tokens of agents. One that is used again is verified once; agents can be replaced at any time, and
/// nothing that was verified before outlives that.
pub struct AgentRing {
    rules: TokenRules,
    trust: ArcSwap<Trust>,
    spent: Spent,
}

/// An agent whose tokens are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedAgent {
    /// Its id.
    pub id: AgentId,
    /// What isolates.
    pub realm: Arc<str>,
    /// Who it is within the realm. Two ids may have one name, while an agent changes its key.
    pub name: Arc<str>,
    /// The groups that it belongs to.
    pub groups: Vec<Arc<str>>,
    /// The agent of this fleet that it is, if it is one.
    pub agent: Option<Arc<str>>,
}

/// What is asked of tokens.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// What this gateway is called in tokens that are for it: its public URLs.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub clock_skew: Duration,
    /// How many verified tokens are remembered for each agent.
    pub remembered_per_agent: usize,
    /// How many tokens that count only once an agent may use within their time.
    pub once_per_agent: usize,
}

/// A token has proven who somebody is.
#[derive(Clone, Debug)]
pub struct AgentProof {
    /// Who it is.
    pub caller: Caller,
    /// The one body that the token is for, if it is for one.
    pub binding: Option<BodyBinding>,
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// It is no token, or none of this kind.
    #[error("the token is not an agent's: expected an EdDSA JWT with kid and jwk, and iss, aud, iat and exp")]
    Malformed,
    /// It is by an agent that nobody here trusts.
    #[error("the token is by an agent that is not known here")]
    UnknownAgent,
    /// It is for somebody else.
    #[error("the token is for another audience")]
    Audience,
    /// It is too late, or too early, or good for longer than a minute.
    #[error("the token is not good at this time, or for longer than 60 s")]
    Time,
    /// It was not signed with the agent's key.
    #[error("the token is not signed with the key of its agent")]
    Signature,
    /// It is for another body, or for one where none is looked at.
    #[error("the token is for another body; send one without `urn:chancery:body`")]
    Body,
    /// It counts once, and has been used.
    #[error("the token has been used before")]
    Used,
    /// The agent uses more of those than can be remembered.
    #[error("the agent has used too many tokens that count only once; wait a minute")]
    TooMany,
}

/// Why agents are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// An id stands for two agents.
    #[error("an agent is trusted twice; remove one entry: {0}")]
    Twice(AgentId),
    /// The agent is somebody that everybody is.
    #[error("the caller name `anonymous` is reserved; give the agent another name: {0}")]
    Anonymous(AgentId),
}

/// The longest token that is looked at.
const MAX_TOKEN_BYTES: usize = 4096;
/// The longest name of a token that counts only once.
const MAX_NAME_BYTES: usize = 128;

/// The agents of one configuration, with what has been verified under it.
#[derive(Default)]
struct Trust {
    agents: HashMap<AgentId, Caller>,
    verified: RwLock<Verified>,
}

/// Tokens that have been verified. Only such come here, and each agent has only so many places.
#[derive(Default)]
struct Verified {
    tokens: HashMap<Arc<str>, (Caller, Millis), RandomState>,
    places: HashMap<AgentId, VecDeque<Arc<str>>>,
}

// === impl AgentRing ===

impl AgentRing {
    /// A ring without agents.
    pub fn new(rules: TokenRules) -> Self {
        Self { rules, trust: ArcSwap::default(), spent: Spent::default() }
    }

    /// Trusts these agents and no others from now on. If one entry is wrong, everything stays as it was.
    pub fn replace(
        &self,
        trusted: impl IntoIterator<Item = TrustedAgent>,
        now: Millis,
    ) -> Result<(), AgentError> {
        let mut agents = HashMap::new();
        for agent in trusted {
            let (id, caller) = (agent.id, agent.into_caller());
            if caller.principal.is_anonymous() {
                return Err(AgentError::Anonymous(id));
            }
            if agents.insert(id, caller).is_some() {
                return Err(AgentError::Twice(id));
            }
        }
        self.trust.store(Arc::new(Trust { agents, verified: RwLock::default() }));
        self.spent.forget(now);
        Ok(())
    }

    /// Who has signed this token.
    pub fn verify(&self, token: &str, now: Millis) -> Result<AgentProof, TokenRefusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenRefusal::Malformed);
        }
        let trust = self.trust.load();
        if let Some((caller, until)) = trust.verified.read().tokens.get(token) {
            let caller = if now < *until { Ok(caller.clone()) } else { Err(TokenRefusal::Time) };
            return Ok(AgentProof { caller: caller?, binding: None });
        }
        self.verify_anew(&trust, token, now)
    }

    /// What is cheap is checked before what is not, so that junk costs no signature.
    fn verify_anew(&self, trust: &Trust, text: &str, now: Millis) -> Result<AgentProof, TokenRefusal> {
        let token = Token::parse(text).ok_or(TokenRefusal::Malformed)?;
        // The same key signs cards and lineage tokens, which are not to be taken for who calls.
        if token.header.typ.as_deref().is_some_and(|typ| !typ.eq_ignore_ascii_case(TOKEN_TYPE)) {
            return Err(TokenRefusal::Malformed);
        }
        let claims: Claims = serde_json::from_slice(&token.payload).map_err(|_| TokenRefusal::Malformed)?;
        let caller = trust.agents.get(&claims.iss).ok_or(TokenRefusal::UnknownAgent)?.clone();
        if !self.rules.audiences.contains(&claims.aud) {
            return Err(TokenRefusal::Audience);
        }
        let until = self.good_until(&claims, now)?;
        let key = token.header.jwk.as_ref().and_then(Jwk::to_public_key).ok_or(TokenRefusal::Malformed)?;
        let is_the_agents = key.agent_id() == Some(claims.iss) && token.header.kid == Some(key.kid());
        if !is_the_agents || !token.is_signed_by(&key) {
            return Err(TokenRefusal::Signature);
        }
        let Some(body) = claims.body else {
            trust.verified.write().remember(
                claims.iss,
                text,
                &caller,
                until,
                self.rules.remembered_per_agent,
            );
            return Ok(AgentProof { caller, binding: None });
        };
        let name = claims.jti.filter(|name| name.len() <= MAX_NAME_BYTES).ok_or(TokenRefusal::Malformed)?;
        match self.spent.spend(claims.iss, &name, until, self.rules.once_per_agent, now) {
            Spending::First => Ok(AgentProof { caller, binding: Some(BodyBinding(body)) }),
            Spending::Again => Err(TokenRefusal::Used),
            Spending::TooMany => Err(TokenRefusal::TooMany),
        }
    }

    /// Until when a token is good, if it is good now.
    fn good_until(&self, claims: &Claims, now: Millis) -> Result<Millis, TokenRefusal> {
        let [begins, ends] = [claims.iat, claims.exp].map(|seconds| Millis(seconds.saturating_mul(1000)));
        let is_short = claims.iat < claims.exp && ends.since(begins) <= MAX_LIFETIME;
        let until = ends + self.rules.clock_skew;
        let not_before =
            claims.nbf.map_or(begins, |seconds| Millis(seconds.saturating_mul(1000)).max(begins));
        let has_begun = not_before <= now + self.rules.clock_skew;
        if is_short && has_begun && now < until { Ok(until) } else { Err(TokenRefusal::Time) }
    }
}

// === impl TokenRules ===

impl Default for TokenRules {
    fn default() -> Self {
        Self {
            audiences: Vec::new(),
            clock_skew: Duration::from_secs(5),
            remembered_per_agent: 16,
            once_per_agent: 4096,
        }
    }
}

// === impl TrustedAgent ===

impl TrustedAgent {
    /// An agent with this name in this realm, without groups.
    pub fn new(id: AgentId, realm: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { id, realm: realm.into(), name: name.into(), groups: Vec::new(), agent: None }
    }

    fn into_caller(self) -> Caller {
        let identity = Identity {
            proof: Proof::AgentToken,
            groups: self.groups,
            agent: self.agent,
            agent_id: Some(self.id.to_string().into()),
            ..Identity::default()
        };
        Caller { principal: Principal { realm: self.realm, id: self.name }, identity: Arc::new(identity) }
    }
}

// === impl Verified ===

impl Verified {
    fn remember(&mut self, agent: AgentId, token: &str, caller: &Caller, until: Millis, most: usize) {
        let token: Arc<str> = token.into();
        if most == 0 || self.tokens.insert(token.clone(), (caller.clone(), until)).is_some() {
            return;
        }
        let places = self.places.entry(agent).or_default();
        places.push_back(token);
        while places.len() > most {
            if let Some(oldest) = places.pop_front() {
                self.tokens.remove(&oldest);
            }
        }
    }
}
