//! Judging the signatures of a card.

use std::cell::LazyCell;

use serde_json::Value;

use super::agent_id::AgentId;
use super::canonical::{NotCanonical, parse};
use super::form::{Form, Received};
use super::jwk::JwkSet;
use super::jws::{self, Header};
use super::public_key::{Algorithm, PublicKey};
use crate::card::AgentCardSignature;
use crate::time::Timestamp;

/// The keys whose signatures count, by what headers call them, and the agents whose do, by their ids.
#[derive(Clone, Debug, Default)]
pub struct TrustedKeys {
    keys: Vec<TrustedKey>,
    agents: Vec<AgentId>,
}

/// What is asked of a signature.
#[derive(Clone, Debug)]
pub struct CardPolicy {
    /// The forms in which a card may have been signed. With [`Form::Spec`] alone, nothing at all can be changed in a
    /// card unnoticed; the others are what the SDKs sign that are around.
    pub forms: Vec<Form>,
    /// The algorithms that are good enough.
    pub algorithms: Vec<Algorithm>,
}

/// Somebody who is trusted has signed the card.
///
/// What was signed are the fields that the specification knows; others are not to be relied upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The key that it was signed with, as the header calls it.
    pub kid: String,
    /// The key itself.
    pub key: PublicKey,
    /// What of the card was signed.
    pub form: Form,
}

/// Why a card is not to be trusted. Of several signatures, it is about the one that came closest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardRefusal {
    /// It is not JSON, or not JSON that all readers read alike.
    #[error("the card cannot be read")]
    Unreadable(#[source] NotCanonical),
    /// It has no signature.
    #[error("the card is not signed")]
    Unsigned,
    /// It has more signatures than anybody needs.
    #[error("the card has more than {MAX_SIGNATURES} signatures")]
    TooManySignatures,
    /// No signature has a header that can be read.
    #[error("the card has no signature that can be read")]
    Malformed,
    /// The signature is by somebody whose key is not trusted.
    #[error("the card is signed with a key that is not trusted: {kid}")]
    UnknownKey {
        /// What the header calls the key.
        kid: String,
    },
    /// The signature is of a kind that is not allowed, or that the key is not for.
    #[error("the card is signed with {algorithm}, which is not allowed for this key")]
    Algorithm {
        /// As the header names it.
        algorithm: String,
    },
    /// The key is not to be used any more.
    #[error("the card is signed with a key that has expired: {kid}")]
    Expired {
        /// What the header calls the key.
        kid: String,
    },
    /// The signature is not over this card: one of the two has been changed.
    #[error("the card is not what was signed with the key {kid}")]
    Altered {
        /// What the header calls the key.
        kid: String,
    },
}

/// The most signatures that are looked at. A change of keys needs four.
const MAX_SIGNATURES: usize = 16;

#[derive(Clone, Debug)]
struct TrustedKey {
    kid: String,
    key: PublicKey,
    until: Option<Timestamp>,
}

/// Whether somebody who is trusted has signed this card, as it came: its text, not what a parser has made of it. One
/// good signature is enough. Keys that the card itself names are not asked for.
pub fn verify_card(
    text: &str,
    keys: &TrustedKeys,
    policy: &CardPolicy,
    now: Timestamp,
) -> Result<Verified, CardRefusal> {
    let mut whole = parse(text).map_err(CardRefusal::Unreadable)?;
    let signatures = take_signatures(&mut whole);
    if signatures.is_empty() {
        return Err(CardRefusal::Unsigned);
    }
    if signatures.len() > MAX_SIGNATURES {
        return Err(CardRefusal::TooManySignatures);
    }
    let received = Received::new(text, whole);
    // Each form is made at most once, and only if a signature may be over it.
    let payloads: Vec<_> =
        policy.forms.iter().map(|form| (*form, LazyCell::new(|| received.form(*form)))).collect();
    let mut closest = CardRefusal::Malformed;
    for signature in signatures {
        match judge(&signature, &payloads, keys, policy, now) {
            Ok(verified) => return Ok(verified),
            Err(refusal) if refusal.closeness() > closest.closeness() => closest = refusal,
            Err(_) => {}
        }
    }
    Err(closest)
}

/// Takes the signatures out of a card. One that is no signature is kept as an empty one, to be refused as such.
fn take_signatures(card: &mut Value) -> Vec<AgentCardSignature> {
    let signatures = card.as_object_mut().and_then(|card| card.remove("signatures"));
    let Some(Value::Array(signatures)) = signatures else { return Vec::new() };
    let text = |signature: &Value, name| signature[name].as_str().unwrap_or_default().to_owned();
    signatures
        .iter()
        .map(|signature| AgentCardSignature {
            protected: text(signature, "protected"),
            signature: text(signature, "signature"),
            header: None,
        })
        .collect()
}

fn judge<F: FnOnce() -> Option<String>>(
    signature: &AgentCardSignature,
    payloads: &[(Form, LazyCell<Option<String>, F>)],
    keys: &TrustedKeys,
    policy: &CardPolicy,
    now: Timestamp,
) -> Result<Verified, CardRefusal> {
    let header = Header::parse(&signature.protected).ok_or(CardRefusal::Malformed)?;
    let bytes = jws::decode(&signature.signature).ok_or(CardRefusal::Malformed)?;
    let kid = header.kid.clone().ok_or(CardRefusal::Malformed)?;
    if !Algorithm::parse(&header.alg).is_some_and(|algorithm| policy.algorithms.contains(&algorithm)) {
        return Err(CardRefusal::Algorithm { algorithm: header.alg });
    }
    let mut refusal = CardRefusal::UnknownKey { kid: kid.clone() };
    let of_agent = keys.key_of_agent(&header, &kid);
    for trusted in keys.keys.iter().filter(|trusted| trusted.kid == kid).chain(&of_agent) {
        if !header.fits(&trusted.key) {
            refusal = CardRefusal::Algorithm { algorithm: header.alg.clone() };
        } else if trusted.until.is_some_and(|until| until <= now) {
            refusal = CardRefusal::Expired { kid: kid.clone() };
        } else if let Some(form) = signed_form(&header, &signature.protected, &bytes, &trusted.key, payloads)
        {
            return Ok(Verified { kid, key: trusted.key.clone(), form });
        } else {
            refusal = CardRefusal::Altered { kid: kid.clone() };
        }
    }
    Err(refusal)
}

/// The form of the card that was signed, if any was. A signature that says which one it is over is over no other.
fn signed_form<F: FnOnce() -> Option<String>>(
    header: &Header,
    protected: &str,
    signature: &[u8],
    key: &PublicKey,
    payloads: &[(Form, LazyCell<Option<String>, F>)],
) -> Option<Form> {
    let said = header.form.as_deref();
    let is_signed =
        |payload: &String| key.has_signed(jws::message(protected, payload.as_bytes()).as_bytes(), signature);
    payloads
        .iter()
        .filter(|(form, _)| said.is_none_or(|said| said == form.as_str()))
        .find(|(_, payload)| payload.as_ref().is_some_and(is_signed))
        .map(|(form, _)| *form)
}

// === impl TrustedKeys ===

impl TrustedKeys {
    /// Trusts a key under its thumbprint.
    pub fn trust(&mut self, key: PublicKey) {
        self.trust_as(key.kid(), key, None);
    }

    /// Trusts a key under a name that its owner has given to it, until some time.
    pub fn trust_as(&mut self, kid: impl Into<String>, key: PublicKey, until: Option<Timestamp>) {
        self.keys.push(TrustedKey { kid: kid.into(), key, until });
    }

    /// Trusts an agent by its id, of which its key is not known. The key comes with the signature, and is believed because
    /// the id is a digest of it.
    pub fn trust_agent(&mut self, id: AgentId) {
        self.agents.push(id);
    }

    /// The key that a signature carries, if it is that of an agent that is trusted.
    fn key_of_agent(&self, header: &Header, kid: &str) -> Option<TrustedKey> {
        let key = header.jwk.as_ref()?.to_public_key()?;
        let id = key.agent_id()?;
        self.agents.contains(&id).then(|| TrustedKey { kid: kid.to_owned(), key, until: None })
    }

    /// Trusts what somebody publishes. What is not known or not meant for signatures is left out.
    pub fn trust_set(&mut self, set: &JwkSet, until: Option<Timestamp>) {
        for jwk in &set.keys {
            if let Some(key) = jwk.to_public_key() {
                self.trust_as(jwk.kid.clone().unwrap_or_else(|| key.kid()), key, until);
            }
        }
    }
}

// === impl CardPolicy ===

impl Default for CardPolicy {
    fn default() -> Self {
        Self { forms: Form::ALL.to_vec(), algorithms: vec![Algorithm::EdDsa, Algorithm::Es256] }
    }
}

// === impl CardRefusal ===

impl CardRefusal {
    /// How much of a signature was right.
    fn closeness(&self) -> u8 {
        match self {
            Self::Unreadable(_) | Self::Unsigned | Self::TooManySignatures | Self::Malformed => 0,
            Self::Algorithm { .. } => 1,
            Self::UnknownKey { .. } => 2,
            Self::Expired { .. } => 3,
            Self::Altered { .. } => 4,
        }
    }
}
