//! What lineage tokens are sealed with that nobody but this gateway reads: keyed MACs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use crate::Millis;

/// The `typ` of a lineage token.
pub(super) const TOKEN_TYPE: &str = "lineage+jwt";
/// What a gateway seals the tokens with that it will read itself.
pub(super) const OWN_ALGORITHM: &str = "HS256";

/// The fewest bytes that a secret may have: as many as the MAC has.
pub const MIN_SECRET_BYTES: usize = 32;

/// How many earlier keys are kept at a time.
const MAX_EARLIER: usize = 8;

/// The keys of this gateway's own tokens: one that seals, and earlier ones that are still believed for a while.
#[derive(Clone)]
pub struct Keyring {
    current: MacKey,
    earlier: Vec<(MacKey, Millis)>,
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret could be guessed.
    #[error("a secret for lineage tokens needs at least {MIN_SECRET_BYTES} random bytes, this one has {0}")]
    TooShort(usize),
    /// Two keys could not be told apart.
    #[error(
        "there is a key for lineage tokens with this id already; give the new one an id of its own: `{0}`"
    )]
    SameId(String),
}

/// The head of a token as JSON.
#[derive(Serialize)]
struct Head<'a> {
    alg: &'a str,
    typ: &'a str,
    kid: &'a str,
}

/// A secret, together with the head of the tokens that it seals: that pins the algorithm, since a token with any
/// other head is not this key's.
#[derive(Clone)]
pub(super) struct MacKey {
    key_id: String,
    head: String,
    mac: Hmac<Sha256>,
}

// === impl Keyring ===

impl Keyring {
    /// With one key.
    pub fn try_new(key_id: &str, secret: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { current: MacKey::try_new(key_id, secret)?, earlier: Vec::new() })
    }

    /// With a new key in place of the current one, which is believed until then: at least for as long as the tokens live
    /// that it has sealed.
    pub fn rotated(
        &self,
        key_id: &str,
        secret: &[u8],
        now: Millis,
        believed_until: Millis,
    ) -> Result<Self, KeyError> {
        let current = MacKey::try_new(key_id, secret)?;
        let known = self.earlier.iter().filter(|(_, until)| *until > now).cloned();
        let earlier: Vec<_> =
            std::iter::once((self.current.clone(), believed_until)).chain(known).take(MAX_EARLIER).collect();
        if earlier.iter().any(|(key, _)| key.key_id == key_id) {
            return Err(KeyError::SameId(key_id.to_owned()));
        }
        Ok(Self { current, earlier })
    }

    pub(super) fn current(&self) -> &MacKey {
        &self.current
    }

    /// The key whose tokens have this head, if it is believed.
    pub(super) fn find(&self, head: &str, now: Millis) -> Option<&MacKey> {
        let earlier = self.earlier.iter().filter(|(_, until)| *until > now).map(|(key, _)| key);
        std::iter::once(&self.current).chain(earlier).find(|key| key.head == head)
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("current", &self.current.key_id).finish_non_exhaustive()
    }
}

// === impl MacKey ===

impl MacKey {
    fn try_new(key_id: &str, secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeyError::TooShort(secret.len()));
        }
        let mac = Hmac::new_from_slice(secret).map_err(|_| KeyError::TooShort(secret.len()))?;
        Ok(Self { key_id: key_id.to_owned(), head: head(key_id), mac })
    }

    /// The first part of a token.
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    pub(super) fn seal(&self, message: &[u8]) -> [u8; 32] {
        self.mac.clone().chain_update(message).finalize().into_bytes().into()
    }

    /// Takes the same time wherever they differ.
    pub(super) fn holds(&self, message: &[u8], seal: &[u8]) -> bool {
        self.mac.clone().chain_update(message).verify_slice(seal).is_ok()
    }
}

/// The first part of a token.
fn head(key_id: &str) -> String {
    let head = Head { alg: OWN_ALGORITHM, typ: TOKEN_TYPE, kid: key_id };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&head).expect("three strings are always JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_secret_is_refused() {
        assert_eq!(Keyring::try_new("k", &[7; 31]).unwrap_err(), KeyError::TooShort(31));
    }

    #[test]
    fn an_earlier_key_is_believed_until_its_time_is_over() {
        let one = Keyring::try_new("1", &[1; 32]).unwrap();
        let head = one.current().head().to_owned();
        let two = one.rotated("2", &[2; 32], Millis(0), Millis(100)).unwrap();
        assert!(two.find(&head, Millis(99)).is_some());
        assert!(two.find(&head, Millis(100)).is_none());
        let three = two.rotated("3", &[3; 32], Millis(100), Millis(900)).unwrap();
        assert_eq!(three.earlier.len(), 1);
    }

    #[test]
    fn two_keys_cannot_have_one_id() {
        let one = Keyring::try_new("1", &[1; 32]).unwrap();
        let again = one.rotated("1", &[2; 32], Millis(0), Millis(100));
        assert_eq!(again.unwrap_err(), KeyError::SameId("1".into()));
    }

    #[test]
    fn keys_are_not_printed() {
        let ring = Keyring::try_new("1", b"a secret of thirty-two characters").unwrap();
        assert_eq!(format!("{ring:?}"), r#"Keyring { current: "1", .. }"#);
    }
}
