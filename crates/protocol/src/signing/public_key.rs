//! The public half of a key, and what it can verify.

use ed25519_dalek as ed25519;
use p256::ecdsa::signature::Verifier as _;
use sha2::{Digest as _, Sha256};

use super::agent_id::AgentId;
use super::jws;

/// How a signature is made. There are no others here: neither `none` nor anything with a shared secret can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Ed25519 (RFC 8037).
    EdDsa,
    /// ECDSA on P-256 with SHA-256 (RFC 7518).
    Es256,
}

/// A key that signatures are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// For [`Algorithm::EdDsa`].
    Ed25519(ed25519::VerifyingKey),
    /// For [`Algorithm::Es256`].
    P256(p256::ecdsa::VerifyingKey),
}

// === impl Algorithm ===

impl Algorithm {
    /// The algorithm as headers name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
        }
    }

    /// Reads the name of an algorithm; `Ed25519` is what RFC 9864 calls EdDSA on that curve.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// What signatures by this key are made with. A header that names another algorithm does not change it.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    /// The id of the agent that has the secret half; none if that is not an agent's key.
    pub fn agent_id(&self) -> Option<AgentId> {
        match self {
            Self::Ed25519(key) => Some(AgentId::of(key.as_bytes())),
            Self::P256(_) => None,
        }
    }

    /// The thumbprint of the key (RFC 7638), by which it is known in headers.
    pub fn kid(&self) -> String {
        jws::encode(&Sha256::digest(self.to_jwk().required_members()))
    }

    /// Whether the secret half of this key has signed the message.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => ed25519::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            Self::P256(key) => p256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}
