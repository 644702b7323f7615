//! API keys: what a caller is given, and what is kept of it.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::Timestamp;
use chancery_protocol::signing::KeyError;
use hmac::Mac as _;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::secret::{Keyed, ServerSecret};

/// A key as its owner has it: `chk_<id>_<secret>`. It is shown when it is made, and kept nowhere.
pub struct ApiKey(Zeroizing<String>);

/// What is kept of a key: whose it is, and by what it is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRecord {
    /// Names the key; it is a part of it, and no secret.
    pub id: String,
    /// A hash of the whole key, with a key of its own: HMAC-SHA-256 in hexadecimal digits.
    pub hash: String,
    /// What isolates.
    pub realm: Arc<str>,
    /// Who it is that calls with this key.
    pub caller: Arc<str>,
    /// The groups that the caller belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Arc<str>>,
    /// The agent of this fleet that the key stands for, if it stands for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<str>>,
    /// When the key was made.
    pub created: Timestamp,
    /// From when on the key is not good any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When the key was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

/// What every key begins with, so that people and scanners for leaked secrets know one when they see it.
pub(super) const PREFIX: &str = "chk_";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const ID_LENGTH: usize = ID_BYTES * 2;
const LENGTH: usize = PREFIX.len() + ID_LENGTH + 1 + SECRET_BYTES * 2;

/// What the hash of a key is keyed for.
pub(super) const PURPOSE: &str = "chancery api key v1";

// === impl ApiKey ===

impl ApiKey {
    /// A new key, with 256 bits that nobody can guess.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; ID_BYTES + SECRET_BYTES]);
        getrandom::fill(bytes.as_mut()).map_err(KeyError::Random)?;
        let (id, secret) = bytes.split_at(ID_BYTES);
        let mut text = Zeroizing::new(String::with_capacity(LENGTH));
        text.push_str(PREFIX);
        text.push_str(&base16ct::lower::encode_string(id));
        text.push('_');
        text.push_str(&Zeroizing::new(base16ct::lower::encode_string(secret)));
        Ok(Self(text))
    }

    /// The key itself: for its owner, and for nobody else.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What the key is called in records.
    pub fn id(&self) -> &str {
        api_key_id(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({PREFIX}{}_..)", self.id())
    }
}

/// The id of a key, in a text that has the form of one. It is no secret.
pub fn api_key_id(text: &str) -> Option<&str> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    (id.len() == ID_LENGTH && secret.len() == SECRET_BYTES * 2).then_some(id)
}

/// The hash by which a key is recognised.
pub(super) fn hash(keyed: &Keyed, text: &str) -> [u8; 32] {
    keyed.clone().chain_update(text).finalize().into_bytes().into()
}

// === impl KeyRecord ===

impl KeyRecord {
    /// The record of a key that has just been made, for a caller without groups, without an end.
    pub fn new(
        key: &ApiKey,
        secret: &ServerSecret,
        realm: impl Into<Arc<str>>,
        caller: impl Into<Arc<str>>,
        created: Timestamp,
    ) -> Self {
        let hash = hash(&secret.keyed(PURPOSE), key.text());
        Self {
            id: key.id().to_owned(),
            hash: base16ct::lower::encode_string(&hash),
            realm: realm.into(),
            caller: caller.into(),
            groups: Vec::new(),
            agent: None,
            created,
            expires: None,
            revoked: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_form_and_is_not_printed() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(key.text().len(), LENGTH);
        assert_eq!(key.text().split('_').nth(1), Some(key.id()));
        assert_eq!(api_key_id(key.text()), Some(key.id()));
        let secret = key.text().rsplit('_').next().unwrap();
        assert!(!format!("{key:?}").contains(&secret[..8]));
        assert_ne!(key.text(), ApiKey::generate().unwrap().text());
    }

    #[test]
    fn a_record_is_kept_as_json_without_the_key() {
        let (key, secret) = (ApiKey::generate().unwrap(), ServerSecret::generate().unwrap());
        let created = Timestamp::from_millis(1_800_000_000_000);
        let mut record = KeyRecord::new(&key, &secret, "default", "alice", created);
        record.groups = vec!["staff".into()];
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains(r#""created":"2027-01-15T08:00:00.000Z""#), "{text}");
        assert!(!text.contains(key.text().rsplit('_').next().unwrap()));
        assert_eq!(serde_json::from_str::<KeyRecord>(&text).unwrap(), record);
        let misspelt = text.replace(r#""groups""#, r#""revokd""#);
        assert!(serde_json::from_str::<KeyRecord>(&misspelt).is_err());
    }
}
