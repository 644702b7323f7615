//! Secret keys. What is secret is wiped from memory when it is dropped, and never printed.

use std::fmt;

use ed25519_dalek as ed25519;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};
use zeroize::Zeroizing;

use super::agent_id::AgentId;
use super::public_key::{Algorithm, PublicKey};

/// The Ed25519 key that an agent is known by.
pub struct AgentKey {
    secret: ed25519::SigningKey,
    kid: String,
}

/// A P-256 key, for readers of cards who know no Ed25519.
pub struct P256Key {
    secret: p256::ecdsa::SigningKey,
    kid: String,
}

/// A key of either kind.
#[derive(Debug)]
pub enum SigningKey {
    /// Signs with [`Algorithm::EdDsa`].
    Ed25519(AgentKey),
    /// Signs with [`Algorithm::Es256`].
    P256(P256Key),
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The operating system gave no random bytes.
    #[error("no key can be made without random bytes from the operating system")]
    Random(#[source] getrandom::Error),
    /// The text is not a key.
    #[error("expected a private key in PKCS#8, as PEM: `-----BEGIN PRIVATE KEY-----`, Ed25519 or P-256")]
    NotAKey,
    /// The key cannot be written.
    #[error("the key cannot be written as PKCS#8")]
    Unwritable,
}

// === impl AgentKey ===

impl AgentKey {
    /// A new key.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(KeyError::Random)?;
        Ok(Self::from_seed(&seed))
    }

    /// The key that grows from these random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self::new(ed25519::SigningKey::from_bytes(seed))
    }

    /// Reads a private key in PKCS#8, as PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        ed25519::SigningKey::from_pkcs8_pem(text).map(Self::new).map_err(|_| KeyError::NotAKey)
    }

    /// The private key in PKCS#8, as PEM. In the first version of that format, which everybody reads.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        let secret = ed25519::pkcs8::KeypairBytes { secret_key: self.secret.to_bytes(), public_key: None };
        secret.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Unwritable)
    }

    /// What the agent is known by.
    pub fn id(&self) -> AgentId {
        AgentId::of(self.secret.verifying_key().as_bytes())
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey::Ed25519(self.secret.verifying_key())
    }

    /// The thumbprint of the key, by which it is known in headers.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Signs a message. The same message gets the same signature.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.secret.sign(message).to_bytes()
    }

    fn new(secret: ed25519::SigningKey) -> Self {
        let kid = PublicKey::Ed25519(secret.verifying_key()).kid();
        Self { secret, kid }
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

// === impl P256Key ===

impl P256Key {
    /// A new key.
    pub fn generate() -> Result<Self, KeyError> {
        let mut secret = Zeroizing::new([0; 32]);
        loop {
            getrandom::fill(secret.as_mut()).map_err(KeyError::Random)?;
            // Of 2^32 draws, one is no scalar of the curve.
            if let Ok(key) = p256::ecdsa::SigningKey::from_slice(secret.as_ref()) {
                return Ok(Self::new(key));
            }
        }
    }

    /// Reads a private key in PKCS#8, as PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        p256::ecdsa::SigningKey::from_pkcs8_pem(text).map(Self::new).map_err(|_| KeyError::NotAKey)
    }

    /// The private key in PKCS#8, as PEM.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.secret.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Unwritable)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey::P256(*self.secret.verifying_key())
    }

    fn new(secret: p256::ecdsa::SigningKey) -> Self {
        let kid = PublicKey::P256(*secret.verifying_key()).kid();
        Self { secret, kid }
    }
}

impl fmt::Debug for P256Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("P256Key").field("kid", &self.kid).finish_non_exhaustive()
    }
}

// === impl SigningKey ===

impl SigningKey {
    /// Reads a private key of either kind in PKCS#8, as PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        AgentKey::from_pem(text).map(Self::Ed25519).or_else(|_| P256Key::from_pem(text).map(Self::P256))
    }

    /// The private key in PKCS#8, as PEM.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        match self {
            Self::Ed25519(key) => key.to_pem(),
            Self::P256(key) => key.to_pem(),
        }
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Ed25519(key) => key.public(),
            Self::P256(key) => key.public(),
        }
    }

    /// The thumbprint of the key, by which it is known in headers.
    pub fn kid(&self) -> &str {
        match self {
            Self::Ed25519(key) => key.kid(),
            Self::P256(key) => &key.kid,
        }
    }

    /// What it signs with.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::EdDsa,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    /// Signs a message. The same message gets the same signature.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        match self {
            Self::Ed25519(key) => key.sign(message),
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = key.secret.sign(message);
                signature.to_bytes().into()
            }
        }
    }
}

impl From<AgentKey> for SigningKey {
    fn from(key: AgentKey) -> Self {
        Self::Ed25519(key)
    }
}

impl From<P256Key> for SigningKey {
    fn from(key: P256Key) -> Self {
        Self::P256(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_read_back() {
        let kinds: [SigningKey; 2] =
            [AgentKey::generate().unwrap().into(), P256Key::generate().unwrap().into()];
        for key in kinds {
            let pem = key.to_pem().unwrap();
            assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
            let read = SigningKey::from_pem(&pem).unwrap();
            assert_eq!(
                (read.kid(), read.public(), read.algorithm()),
                (key.kid(), key.public(), key.algorithm())
            );
            let signature = read.sign(b"message");
            assert!(key.public().has_signed(b"message", &signature));
            assert!(!key.public().has_signed(b"massage", &signature));
            assert!(!key.public().has_signed(b"message", &signature[1..]));
        }
        for text in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(matches!(SigningKey::from_pem(text), Err(KeyError::NotAKey)));
        }
    }

    #[test]
    fn the_signature_of_rfc_8032() {
        // Section 7.1, test 2.
        let hex = |text: &str| base16ct::lower::decode_vec(text).unwrap();
        let seed = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let key = SigningKey::from(AgentKey::from_seed(&seed.try_into().unwrap()));
        let signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
        assert_eq!(key.sign(b"\x72").as_slice(), hex(signature));
    }

    #[test]
    fn the_secret_is_not_printed() {
        let key = AgentKey::from_seed(&[0x41; 32]);
        let printed = format!("{:?}", SigningKey::from(key));
        assert!(
            printed.contains("kid") && !printed.contains("65, 65") && !printed.contains("4141"),
            "{printed}"
        );
    }
}
