//! Credentials in, a caller out.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_protocol::{
    AgentCard, Caller, Error, ErrorCode, HttpAuthSecurityScheme, SecurityRequirement, SecurityScheme,
};

use super::agent_ring::{AgentRing, TokenRefusal};
use super::agent_token::BodyBinding;
use super::api_key;
use super::key_ring::{KeyRefusal, KeyRing};
use crate::Millis;

/// The header in which an API key may come, besides `Authorization`.
pub const API_KEY_HEADER: &str = "X-API-Key";

/// Finds out who is calling, in the ways that are switched on; by default in none, so nobody gets in.
#[derive(Clone, Default)]
pub struct Authenticator {
    keys: Option<Arc<KeyRing>>,
    agents: Option<Arc<AgentRing>>,
    allows_anonymous: bool,
}

/// What came with a call, as it came.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    /// The header [`API_KEY_HEADER`].
    pub api_key: Option<&'a str>,
}

/// Somebody has proven who it is, or need not; perhaps for one body only. So the caller is had by saying which body
/// there is: [`for_body`](Self::for_body), or [`for_any_body`](Self::for_any_body) by those who do not look.
#[derive(Clone, Debug)]
#[must_use = "the caller is not known until the body has been checked"]
pub struct Authenticated {
    caller: Caller,
    binding: Option<BodyBinding>,
}

/// Nobody knows who is calling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// It did not say.
    #[error("authentication is required: send a credential of a scheme that the agent card lists")]
    Missing,
    /// It said so in two ways, which could be two callers.
    #[error("send either `Authorization` or `X-API-Key`, not both")]
    Twice,
    /// It said so in a way that is not understood here.
    #[error("the credential is of no scheme that the agent card lists")]
    Scheme,
    /// By an API key that does not do.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
    /// By a token that does not do.
    #[error(transparent)]
    Token(#[from] TokenRefusal),
}

const API_KEY_SCHEME: &str = "apiKey";
const BEARER_SCHEME: &str = "bearer";
const AGENT_SCHEME: &str = "agentToken";

// === impl Authenticator ===

impl Authenticator {
    /// Takes API keys, as a bearer token or in [`API_KEY_HEADER`].
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<KeyRing>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Takes tokens that agents have signed, as bearer tokens.
    #[must_use]
    pub fn with_agents(mut self, agents: Arc<AgentRing>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// Lets callers in who send no credential. Who sends one has to send a good one.
    #[must_use]
    pub fn with_anonymous(mut self) -> Self {
        self.allows_anonymous = true;
        self
    }

    /// Whether there is any way to prove who one is.
    pub fn has_scheme(&self) -> bool {
        self.keys.is_some() || self.agents.is_some()
    }

    /// Who is calling.
    pub fn authenticate(
        &self,
        said: &Credentials<'_>,
        now: Millis,
    ) -> Result<Authenticated, Unauthenticated> {
        match (said.authorization, said.api_key) {
            (None, None) if self.allows_anonymous => Ok(Caller::anonymous().into()),
            (None, None) => Err(Unauthenticated::Missing),
            (Some(_), Some(_)) => Err(Unauthenticated::Twice),
            (None, Some(key)) => self.by_key(key, now),
            (Some(authorization), None) => {
                let token = bearer(authorization).ok_or(Unauthenticated::Scheme)?;
                if token.starts_with(api_key::PREFIX) {
                    self.by_key(token, now)
                } else {
                    self.by_token(token, now)
                }
            }
        }
    }

    fn by_key(&self, key: &str, now: Millis) -> Result<Authenticated, Unauthenticated> {
        let keys = self.keys.as_ref().ok_or(Unauthenticated::Scheme)?;
        Ok(keys.verify(key, now)?.into())
    }

    fn by_token(&self, token: &str, now: Millis) -> Result<Authenticated, Unauthenticated> {
        let agents = self.agents.as_ref().ok_or(Unauthenticated::Scheme)?;
        let proof = agents.verify(token, now)?;
        Ok(Authenticated { caller: proof.caller, binding: proof.binding })
    }

    /// The schemes that are on, by the names that a card gives to them.
    pub fn schemes(&self) -> BTreeMap<String, SecurityScheme> {
        let mut schemes = BTreeMap::new();
        if self.keys.is_some() {
            schemes.insert(API_KEY_SCHEME.to_owned(), SecurityScheme::api_key_header(API_KEY_HEADER));
            schemes.insert(BEARER_SCHEME.to_owned(), SecurityScheme::bearer());
        }
        if self.agents.is_some() {
            let scheme = SecurityScheme::HttpAuth(HttpAuthSecurityScheme {
                description: "A JWT that the calling agent signs with its own Ed25519 key".to_owned(),
                scheme: "Bearer".to_owned(),
                bearer_format: "JWT".to_owned(),
            });
            schemes.insert(AGENT_SCHEME.to_owned(), scheme);
        }
        schemes
    }

    /// Writes into a card how callers have to authenticate, in place of what it said. Nothing is required where
    /// anonymous callers are let in.
    pub fn describe(&self, card: &mut AgentCard) {
        card.security_schemes = self.schemes();
        card.security_requirements = if self.allows_anonymous {
            Vec::new()
        } else {
            let one = |name: &String| SecurityRequirement::default().and(name.as_str(), &[]);
            card.security_schemes.keys().map(one).collect()
        };
    }
}

/// The token of an `Authorization` header of the scheme `Bearer`, in any letter case.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

// === impl Authenticated ===

impl Authenticated {
    /// Who is calling with this body.
    pub fn for_body(self, body: &[u8]) -> Result<Caller, Unauthenticated> {
        match self.binding {
            Some(binding) if !binding.fits(body) => Err(TokenRefusal::Body.into()),
            _ => Ok(self.caller),
        }
    }

    /// Who is calling, whatever the body is. A token that was made for one body is not enough for that.
    pub fn for_any_body(self) -> Result<Caller, Unauthenticated> {
        if self.binding.is_none() { Ok(self.caller) } else { Err(TokenRefusal::Body.into()) }
    }
}

impl From<Caller> for Authenticated {
    fn from(caller: Caller) -> Self {
        Self { caller, binding: None }
    }
}

// === impl Unauthenticated ===

impl Unauthenticated {
    /// What to answer in `WWW-Authenticate` (RFC 6750): the reason only to those who have tried.
    pub fn challenge(self) -> &'static str {
        match self {
            Self::Missing => "Bearer",
            Self::Twice => r#"Bearer error="invalid_request""#,
            Self::Scheme | Self::Key(_) | Self::Token(_) => r#"Bearer error="invalid_token""#,
        }
    }
}

impl From<Unauthenticated> for Error {
    fn from(failure: Unauthenticated) -> Self {
        Self::with_message(ErrorCode::Unauthenticated, failure.to_string()).challenge(failure.challenge())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chancery_protocol::signing::AgentKey;
    use chancery_protocol::{Principal, Proof, Timestamp};

    use super::super::{ApiKey, KeyRecord, ServerSecret, TokenRules, TrustedAgent, mint_agent_token};
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    struct Stage {
        authenticator: Authenticator,
        key: String,
        token: String,
    }

    fn stage() -> Stage {
        let (secret, key) = (ServerSecret::generate().unwrap(), ApiKey::generate().unwrap());
        let ring = KeyRing::new(&secret);
        let record = KeyRecord::new(&key, &secret, "default", "alice", Timestamp::from_millis(0));
        ring.replace(&[record]).unwrap();
        let agent = AgentKey::generate().unwrap();
        let agents =
            AgentRing::new(TokenRules { audiences: vec!["here".to_owned()], ..TokenRules::default() });
        agents.replace([TrustedAgent::new(agent.id(), "default", "bot")], NOW).unwrap();
        let token = mint_agent_token(&agent, "here", Duration::from_secs(30), None, NOW).unwrap();
        let authenticator = Authenticator::default().with_keys(Arc::new(ring)).with_agents(Arc::new(agents));
        Stage { authenticator, key: key.text().to_owned(), token }
    }

    fn said<'a>(authorization: Option<&'a str>, api_key: Option<&'a str>) -> Credentials<'a> {
        Credentials { authorization, api_key }
    }

    #[test]
    fn each_credential_comes_in_its_way() {
        let Stage { authenticator, key, token } = stage();
        let (as_bearer, of_agent) = (format!("bearer {key}"), format!("Bearer {token}"));
        for (credentials, id, proof) in [
            (said(Some(&as_bearer), None), "alice", Proof::ApiKey),
            (said(None, Some(&key)), "alice", Proof::ApiKey),
            (said(Some(&of_agent), None), "bot", Proof::AgentToken),
        ] {
            let caller = authenticator.authenticate(&credentials, NOW).unwrap().for_any_body().unwrap();
            assert_eq!((caller.principal, caller.identity.proof), (Principal::new("default", id), proof));
        }
    }

    #[test]
    fn a_bad_credential_is_worse_than_none() {
        let Stage { authenticator, key, token } = stage();
        let authenticator = authenticator.with_anonymous();
        let nobody = authenticator.authenticate(&said(None, None), NOW).unwrap().for_any_body();
        assert_eq!(nobody, Ok(Caller::anonymous()));
        let unknown = format!("Bearer {}x", &key[..key.len() - 1]);
        for (credentials, failure) in [
            (said(Some(&unknown), None), Unauthenticated::Key(KeyRefusal::Unknown)),
            (said(None, Some("")), Unauthenticated::Key(KeyRefusal::Unknown)),
            (said(None, Some(&token)), Unauthenticated::Key(KeyRefusal::Unknown)),
            (said(Some("Bearer "), None), Unauthenticated::Token(TokenRefusal::Malformed)),
            (said(Some("Bearer"), None), Unauthenticated::Scheme),
            (said(Some("Basic YTpi"), None), Unauthenticated::Scheme),
            (said(Some(&key), None), Unauthenticated::Scheme),
            (said(Some(&format!("Bearer {key}")), Some(&key)), Unauthenticated::Twice),
        ] {
            assert_eq!(authenticator.authenticate(&credentials, NOW).unwrap_err(), failure);
        }
    }

    #[test]
    fn a_token_for_one_body_is_good_for_no_other() {
        let agent = AgentKey::generate().unwrap();
        let agents =
            AgentRing::new(TokenRules { audiences: vec!["here".to_owned()], ..TokenRules::default() });
        agents.replace([TrustedAgent::new(agent.id(), "default", "bot")], NOW).unwrap();
        let authenticator = Authenticator::default().with_agents(Arc::new(agents));
        let proof = || {
            let token =
                mint_agent_token(&agent, "here", Duration::from_secs(30), Some(b"body"), NOW).unwrap();
            authenticator.authenticate(&said(Some(&format!("Bearer {token}")), None), NOW).unwrap()
        };
        assert_eq!(&*proof().for_body(b"body").unwrap().principal.id, "bot");
        let refused = Err(Unauthenticated::Token(TokenRefusal::Body));
        assert_eq!(proof().for_body(b"other"), refused);
        assert_eq!(proof().for_any_body(), refused);
    }

    #[test]
    fn what_is_off_lets_nobody_in() {
        let Stage { key, token, .. } = stage();
        let off = Authenticator::default();
        assert!(!off.has_scheme());
        assert_eq!(off.authenticate(&said(None, None), NOW).unwrap_err(), Unauthenticated::Missing);
        for credential in [key, token] {
            let failure =
                off.authenticate(&said(Some(&format!("Bearer {credential}")), None), NOW).unwrap_err();
            assert_eq!(failure, Unauthenticated::Scheme);
            assert!(!Error::from(failure).message().contains(&credential));
        }
    }

    #[test]
    fn a_failure_is_an_error_with_a_challenge() {
        assert_eq!(Error::from(Unauthenticated::Missing).code(), ErrorCode::Unauthenticated);
        assert_eq!(Unauthenticated::Missing.challenge(), "Bearer");
        assert!(Unauthenticated::Key(KeyRefusal::Revoked).challenge().contains("invalid_token"));
    }

    #[test]
    fn a_card_says_what_is_on_and_nothing_else() {
        let mut card = AgentCard::new("n", "d", "1");
        card.security_schemes.insert("stale".to_owned(), SecurityScheme::bearer());
        let Stage { authenticator, .. } = stage();
        authenticator.describe(&mut card);
        let names: Vec<_> = card.security_schemes.keys().map(String::as_str).collect();
        assert_eq!(names, ["agentToken", "apiKey", "bearer"]);
        assert_eq!(card.security_requirements.len(), 3);
        for requirement in &card.security_requirements {
            assert!(requirement.schemes.keys().all(|name| card.security_schemes.contains_key(name)));
        }
        authenticator.with_anonymous().describe(&mut card);
        assert_eq!((card.security_schemes.len(), card.security_requirements.len()), (3, 0));
        Authenticator::default().describe(&mut card);
        assert!(card.security_schemes.is_empty() && card.security_requirements.is_empty());
    }
}
