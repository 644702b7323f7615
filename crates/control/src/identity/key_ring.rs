//! All API keys that the gateway knows, by what is kept of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use chancery_protocol::{Caller, Identity, Principal, Proof, Timestamp};
use subtle::ConstantTimeEq as _;

use super::api_key::{self, KeyRecord};
use super::secret::{Keyed, ServerSecret};
use super::within::is_reserved;
use crate::Millis;

/// Verifies API keys. Readers take no lock; the records can be replaced at any time, and count from the next call on.
pub struct KeyRing {
    keyed: Keyed,
    keys: ArcSwap<HashMap<Box<str>, Key>>,
}

/// Why a key does not let anybody in. Only its owner is told more than that it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRefusal {
    /// There is no such key.
    #[error("the API key is not known here")]
    Unknown,
    /// It was good once.
    #[error("the API key has expired")]
    Expired,
    /// It has been taken back.
    #[error("the API key has been revoked")]
    Revoked,
}

/// Why records are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The hash cannot be one.
    #[error("the hash of a key has 64 hexadecimal digits; make the key anew, its record is damaged: {id}")]
    Hash {
        /// Of the key.
        id: String,
    },
    /// Two records are about the same key.
    #[error("two records are about the same key; remove one of them: {id}")]
    Twice {
        /// Of the key.
        id: String,
    },
    /// The key is for the caller name of everybody who is anonymous.
    #[error("the caller name `anonymous` is reserved; give the key another name: {id}")]
    Anonymous {
        /// Of the key.
        id: String,
    },
    /// The key is for somebody whose name only calls that are open have.
    #[error(
        "a key cannot be for a caller whose name begins with `call:` or `unattributed/`; give it another name: {id}"
    )]
    Reserved {
        /// Of the key.
        id: String,
    },
}

struct Key {
    hash: [u8; 32],
    caller: Caller,
    expires: Option<Millis>,
    revoked: bool,
    /// When it was last good for a call, in milliseconds; 0 if it never was.
    used: Arc<AtomicU64>,
}

// === impl KeyRing ===

impl KeyRing {
    /// A ring without keys, for keys that were recorded with this secret.
    pub fn new(secret: &ServerSecret) -> Self {
        Self { keyed: secret.keyed(api_key::PURPOSE), keys: ArcSwap::default() }
    }

    /// Knows these keys and no others from now on. If one record is wrong, everything stays as it was.
    pub fn replace(&self, records: &[KeyRecord]) -> Result<(), RecordError> {
        let mut keys = HashMap::with_capacity(records.len());
        let before = self.keys.load();
        for record in records {
            let mut key = Key::read(record)?;
            if let Some(known) = before.get(record.id.as_str()) {
                key.used = known.used.clone();
            }
            if keys.insert(record.id.as_str().into(), key).is_some() {
                return Err(RecordError::Twice { id: record.id.clone() });
            }
        }
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    /// Whose key this is. It takes as long for a key that is not known as for one that is.
    pub fn verify(&self, text: &str, now: Millis) -> Result<Caller, KeyRefusal> {
        let id = api_key::api_key_id(text).ok_or(KeyRefusal::Unknown)?;
        let hash = api_key::hash(&self.keyed, text);
        let keys = self.keys.load();
        let key = keys.get(id);
        let is_genuine = hash.ct_eq(key.map_or(&[0; 32], |key| &key.hash));
        let key = key.filter(|_| is_genuine.into()).ok_or(KeyRefusal::Unknown)?;
        if key.revoked {
            return Err(KeyRefusal::Revoked);
        }
        if key.expires.is_some_and(|expires| expires <= now) {
            return Err(KeyRefusal::Expired);
        }
        key.used.store(now.0, Ordering::Relaxed);
        Ok(key.caller.clone())
    }

    /// When each key was last good for a call, by its id. Keys that never were are left out.
    pub fn last_used(&self) -> Vec<(Box<str>, Millis)> {
        let keys = self.keys.load();
        let used = keys.iter().map(|(id, key)| (id.clone(), Millis(key.used.load(Ordering::Relaxed))));
        used.filter(|(_, used)| used.0 > 0).collect()
    }

    /// Whether the key of this id lets its owner in now, and how long it will unless it is taken back.
    pub fn good_until(&self, id: &str, now: Millis) -> Option<Millis> {
        let keys = self.keys.load();
        let key = keys.get(id).filter(|key| !key.revoked)?;
        Some(key.expires.unwrap_or(Millis(u64::MAX))).filter(|expires| *expires > now)
    }

    /// How many keys there are, the revoked ones included.
    pub fn len(&self) -> usize {
        self.keys.load().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Key ===

impl Key {
    fn read(record: &KeyRecord) -> Result<Self, RecordError> {
        let mut hash = [0; 32];
        let length = base16ct::lower::decode(&record.hash, &mut hash).map(<[u8]>::len);
        if length != Ok(32) {
            return Err(RecordError::Hash { id: record.id.clone() });
        }
        let principal = Principal { realm: record.realm.clone(), id: record.caller.clone() };
        if principal.is_anonymous() {
            return Err(RecordError::Anonymous { id: record.id.clone() });
        }
        if is_reserved(&record.caller) {
            return Err(RecordError::Reserved { id: record.id.clone() });
        }
        let identity = Identity {
            proof: Proof::ApiKey,
            groups: record.groups.clone(),
            agent: record.agent.clone(),
            key: Some(record.id.as_str().into()),
            ..Identity::default()
        };
        let caller = Caller { principal, identity: Arc::new(identity) };
        Ok(Self {
            hash,
            caller,
            expires: record.expires.map(millis),
            revoked: record.revoked.is_some(),
            used: Arc::default(),
        })
    }
}

fn millis(time: Timestamp) -> Millis {
    Millis(u64::try_from(time.as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::api_key::ApiKey;
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    fn made(secret: &ServerSecret, caller: &str) -> (ApiKey, KeyRecord) {
        let key = ApiKey::generate().unwrap();
        let record = KeyRecord::new(&key, secret, "default", caller, Timestamp::from_millis(0));
        (key, record)
    }

    #[test]
    fn a_key_proves_whose_it_is() {
        let secret = ServerSecret::generate().unwrap();
        let (alice, mut of_alice) = made(&secret, "alice");
        let (bot, mut of_bot) = made(&secret, "bot");
        of_alice.groups = vec!["staff".into()];
        of_bot.agent = Some("planner".into());
        let ring = KeyRing::new(&secret);
        ring.replace(&[of_alice, of_bot]).unwrap();
        let caller = ring.verify(alice.text(), NOW).unwrap();
        assert_eq!(caller.principal, Principal::new("default", "alice"));
        assert_eq!((caller.identity.proof, &*caller.identity.groups[0]), (Proof::ApiKey, "staff"));
        assert_eq!(ring.verify(bot.text(), NOW).unwrap().identity.agent.as_deref(), Some("planner"));
    }

    #[test]
    fn the_last_use_of_a_key_outlives_a_change_of_the_others() {
        let secret = ServerSecret::generate().unwrap();
        let ((alice, of_alice), (_, of_bob)) = (made(&secret, "alice"), made(&secret, "bob"));
        let ring = KeyRing::new(&secret);
        ring.replace(std::slice::from_ref(&of_alice)).unwrap();
        assert_eq!(ring.last_used(), []);
        ring.verify(alice.text(), NOW).unwrap();
        ring.verify(&format!("{}0", alice.text()), Millis(NOW.0 + 1)).unwrap_err();
        ring.replace(&[of_alice.clone(), of_bob]).unwrap();
        assert_eq!(ring.last_used(), [(of_alice.id.as_str().into(), NOW)]);
    }

    #[test]
    fn only_the_whole_key_is_the_key() {
        let secret = ServerSecret::generate().unwrap();
        let (key, record) = made(&secret, "alice");
        let (other, _) = made(&secret, "bob");
        let ring = KeyRing::new(&secret);
        ring.replace(std::slice::from_ref(&record)).unwrap();
        let text = key.text();
        let with_other_secret = format!("chk_{}_{}", key.id(), other.text().rsplit('_').next().unwrap());
        for wrong in [
            "",
            "chk_",
            "chk__",
            &text[..text.len() - 1],
            &format!("{text}0"),
            &format!(" {text}"),
            &text.to_uppercase(),
            &with_other_secret,
            other.text(),
            // What is kept does not help.
            &record.hash,
            &format!("chk_{}_{}", record.id, record.hash),
        ] {
            assert_eq!(ring.verify(wrong, NOW), Err(KeyRefusal::Unknown), "{wrong}");
        }
        // Nor do the records, with another secret.
        let elsewhere = KeyRing::new(&ServerSecret::generate().unwrap());
        elsewhere.replace(&[record]).unwrap();
        assert_eq!(elsewhere.verify(text, NOW), Err(KeyRefusal::Unknown));
    }

    #[test]
    fn keys_end_by_their_time_or_at_once() {
        let secret = ServerSecret::generate().unwrap();
        let (key, mut record) = made(&secret, "alice");
        let ring = KeyRing::new(&secret);
        record.expires = Some(Timestamp::from_millis(1_800_000_000_000));
        ring.replace(std::slice::from_ref(&record)).unwrap();
        assert!(ring.verify(key.text(), Millis(NOW.0 - 1)).is_ok());
        assert_eq!(ring.verify(key.text(), NOW), Err(KeyRefusal::Expired));

        record.expires = None;
        record.revoked = Some(Timestamp::from_millis(5));
        ring.replace(std::slice::from_ref(&record)).unwrap();
        assert_eq!(ring.verify(key.text(), NOW), Err(KeyRefusal::Revoked));
        ring.replace(&[]).unwrap();
        assert_eq!(ring.verify(key.text(), NOW), Err(KeyRefusal::Unknown));
    }

    #[test]
    fn wrong_records_change_nothing() {
        let secret = ServerSecret::generate().unwrap();
        let (key, record) = made(&secret, "alice");
        let ring = KeyRing::new(&secret);
        ring.replace(std::slice::from_ref(&record)).unwrap();
        let id = record.id.clone();
        let damaged = KeyRecord { hash: "00".to_owned(), ..record.clone() };
        assert_eq!(ring.replace(&[damaged]), Err(RecordError::Hash { id: id.clone() }));
        assert_eq!(ring.replace(&[record.clone(), record]), Err(RecordError::Twice { id }));
        let (_, anonymous) = made(&secret, "anonymous");
        assert!(matches!(ring.replace(&[anonymous]), Err(RecordError::Anonymous { .. })));
        let (_, reserved) = made(&secret, "call:0199a0b0-0000-7000-8000-000000000000/planner");
        assert!(matches!(ring.replace(&[reserved]), Err(RecordError::Reserved { .. })));
        assert_eq!(ring.len(), 1);
        assert!(ring.verify(key.text(), NOW).is_ok());
    }
}
