//! The token with which an agent proves who it is: a JWT that it signs with its own key, good for a minute.

use std::time::Duration;

use chancery_protocol::signing::{AgentId, AgentKey, jws};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Millis;

/// The longest that a token may be good for.
pub const MAX_LIFETIME: Duration = Duration::from_secs(60);

/// The `typ` of a token.
pub(super) const TOKEN_TYPE: &str = "JWT";

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    /// Who has signed it.
    pub(super) iss: AgentId,
    /// For whom it is.
    pub(super) aud: String,
    /// Since when, in seconds.
    pub(super) iat: u64,
    /// Until when, in seconds.
    pub(super) exp: u64,
    /// Not before when, in seconds, if it is to be good later than it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nbf: Option<u64>,
    /// Names the token. It is looked at only if the token is for one body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) jti: Option<String>,
    /// The SHA-256 of the one body that the token is for. Such a token counts once.
    #[serde(default, rename = "urn:chancery:body", skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
}

/// The one body that a token was made for. Whoever has read the body has to [check](Self::fits) it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a token for one body must not be believed for another"]
pub struct BodyBinding(pub(super) String);

/// Makes a token for this audience: `body` none for one that can be used for any call until it ends, or the body of
/// the one request that it is for. A lifetime over [`MAX_LIFETIME`] is cut to that.
///
/// ```
/// use chancery_control::Millis;
/// use chancery_control::identity::{MAX_LIFETIME, mint_agent_token};
/// use chancery_protocol::signing::AgentKey;
///
/// let key = AgentKey::generate()?;
/// let token = mint_agent_token(&key, "https://gateway.example", MAX_LIFETIME, None, Millis(1_800_000_000_000))?;
/// assert_eq!(token.split('.').count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn mint_agent_token(
    key: &AgentKey,
    audience: &str,
    lifetime: Duration,
    body: Option<&[u8]>,
    now: Millis,
) -> Result<String, serde_json::Error> {
    let iat = now.0 / 1000;
    let body = body.map(digest);
    let claims = Claims {
        iss: key.id(),
        aud: audience.to_owned(),
        iat,
        exp: iat + lifetime.min(MAX_LIFETIME).as_secs(),
        nbf: None,
        jti: body.is_some().then(|| chancery_protocol::HopId::generate().to_string()),
        body,
    };
    jws::sign_token(key, TOKEN_TYPE, &claims)
}

fn digest(body: &[u8]) -> String {
    jws::encode(&Sha256::digest(body))
}

// === impl BodyBinding ===

impl BodyBinding {
    /// Whether this is the body that the token was made for.
    pub fn fits(&self, body: &[u8]) -> bool {
        digest(body) == self.0
    }
}
