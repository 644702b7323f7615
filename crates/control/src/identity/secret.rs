//! The secret of the gateway, from which hashes of keys get their key.

use std::fmt;

use chancery_protocol::signing::KeyError;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Thirty-two random bytes that only this gateway knows. Who has the records of its keys, but not this, can neither
/// find the keys nor make any.
pub struct ServerSecret(Zeroizing<[u8; 32]>);

/// A keyed hash, ready for use.
pub(super) type Keyed = Hmac<Sha256>;

// === impl ServerSecret ===

impl ServerSecret {
    /// A new secret.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut()).map_err(KeyError::Random)?;
        Ok(Self(bytes))
    }

    /// Reads a secret as it was written: 64 hexadecimal digits. White space around them does not matter.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        let length = base16ct::mixed::decode(text.trim(), bytes.as_mut()).ok()?.len();
        (length == 32).then_some(Self(bytes))
    }

    /// The secret as text, to be kept where nobody else reads it.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(base16ct::lower::encode_string(self.0.as_ref()))
    }

    /// A keyed hash for one purpose. Hashes for different purposes have nothing to do with each other.
    pub(super) fn keyed(&self, purpose: &str) -> Keyed {
        let derived = Self::keyed_with(self.0.as_ref()).chain_update(purpose).finalize().into_bytes();
        Self::keyed_with(&derived)
    }

    fn keyed_with(key: &[u8]) -> Keyed {
        Keyed::new_from_slice(key).expect("HMAC takes keys of any length")
    }
}

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_and_read_back_and_never_printed() {
        let secret = ServerSecret::generate().unwrap();
        let text = secret.to_text();
        let read = ServerSecret::from_text(&format!("{}\n", &*text)).unwrap();
        assert_eq!(read.0, secret.0);
        assert!(!format!("{secret:?}").contains(&text[..8]));
        for wrong in ["", "00", &text[1..], &format!("{}00", &*text), "g"] {
            assert!(ServerSecret::from_text(wrong).is_none());
        }
    }

    #[test]
    fn purposes_do_not_share_hashes() {
        let secret = ServerSecret::generate().unwrap();
        let hash = |purpose| secret.keyed(purpose).chain_update("x").finalize().into_bytes();
        assert_eq!(hash("a"), hash("a"));
        assert_ne!(hash("a"), hash("b"));
    }
}
