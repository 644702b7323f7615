//! The gateway's own signing keys: those that sign, and those whose signatures are still around.

use std::time::Duration;

use chancery_protocol::Timestamp;
use chancery_protocol::signing::{AgentId, JwkSet, PublicKey, SigningKey, TrustedKeys};

use crate::Millis;

/// The keys that sign now, and the public halves of those that signed before, until some time. Cards that somebody has
/// fetched before a change of keys can thus be verified until they have fetched them again.
#[derive(Debug)]
pub struct KeySet {
    current: Vec<SigningKey>,
    previous: Vec<(PublicKey, Millis)>,
}

// === impl KeySet ===

impl KeySet {
    /// A set that signs with these keys.
    pub fn new(current: impl IntoIterator<Item = SigningKey>) -> Self {
        Self { current: current.into_iter().collect(), previous: Vec::new() }
    }

    /// Publishes another key until some time, without signing with it: as when a gateway starts again after a change.
    #[must_use]
    pub fn with_previous(mut self, key: PublicKey, until: Millis) -> Self {
        self.previous.push((key, until));
        self
    }

    /// Signs with other keys from now on, and publishes those that it has signed with for so long.
    pub fn rotate(&mut self, keys: impl IntoIterator<Item = SigningKey>, overlap: Duration, now: Millis) {
        self.previous.retain(|(_, until)| *until > now);
        let retired = std::mem::replace(&mut self.current, keys.into_iter().collect());
        self.previous.extend(retired.iter().map(|key| (key.public(), now + overlap)));
    }

    /// The keys that sign.
    pub fn signing(&self) -> Vec<&SigningKey> {
        self.current.iter().collect()
    }

    /// Who the gateway is to other gateways: the id of its first Ed25519 key.
    pub fn agent_id(&self) -> Option<AgentId> {
        self.current.iter().find_map(|key| key.public().agent_id())
    }

    /// What is published at `/.well-known/jwks.json`: the keys that sign first, then those before them.
    pub fn published(&self, now: Millis) -> JwkSet {
        let current: Vec<_> = self.current.iter().map(SigningKey::public).collect();
        let previous = self.previous.iter().filter(|(_, until)| *until > now).map(|(key, _)| key);
        current.iter().chain(previous).collect()
    }

    /// The keys with which cards of this gateway are verified.
    pub fn trusted(&self) -> TrustedKeys {
        let mut trusted = TrustedKeys::default();
        self.current.iter().for_each(|key| trusted.trust(key.public()));
        for (key, until) in &self.previous {
            let until = Timestamp::from_millis(i64::try_from(until.0).unwrap_or(i64::MAX));
            trusted.trust_as(key.kid(), key.clone(), Some(until));
        }
        trusted
    }
}

#[cfg(test)]
mod tests {
    use chancery_protocol::signing::{AgentKey, CardPolicy, P256Key, Signing, sign_card, verify_card};
    use chancery_protocol::{AgentCard, AgentInterface};

    use super::*;

    fn pair() -> [SigningKey; 2] {
        [AgentKey::generate().unwrap().into(), P256Key::generate().unwrap().into()]
    }

    fn signed(keys: &KeySet) -> String {
        let mut card =
            AgentCard::new("n", "d", "1").interface(AgentInterface::new("https://a.example", "JSONRPC"));
        sign_card(&mut card, &keys.signing(), &Signing::default()).unwrap();
        serde_json::to_string(&card).unwrap()
    }

    #[test]
    fn cards_from_before_a_change_of_keys_are_good_until_the_overlap_is_over() {
        let mut keys = KeySet::new(pair());
        let (before, id) = (signed(&keys), keys.agent_id());
        keys.rotate(pair(), Duration::from_secs(10), Millis(1_000));
        assert_ne!(keys.agent_id(), id);
        let after = signed(&keys);
        let is_good = |card: &str, at: i64| {
            verify_card(card, &keys.trusted(), &CardPolicy::default(), Timestamp::from_millis(at)).is_ok()
        };
        assert!(is_good(&before, 10_999) && is_good(&after, 10_999));
        assert!(!is_good(&before, 11_000) && is_good(&after, 11_000));
        assert_eq!(keys.published(Millis(10_999)).keys.len(), 4);
        assert_eq!(keys.published(Millis(11_000)).keys.len(), 2);
        // The next change forgets what is over.
        keys.rotate(pair(), Duration::from_secs(10), Millis(20_000));
        assert_eq!(keys.published(Millis(20_000)).keys.len(), 4);
        assert_eq!(keys.previous.len(), 2);
    }

    #[test]
    fn what_others_read_is_enough_to_verify() {
        let keys = KeySet::new(pair());
        let text = serde_json::to_string(&keys.published(Millis(0))).unwrap();
        assert!(!text.contains("\"d\""), "a secret half is published");
        let mut trusted = TrustedKeys::default();
        trusted.trust_set(&serde_json::from_str(&text).unwrap(), None);
        assert!(verify_card(&signed(&keys), &trusted, &CardPolicy::default(), Timestamp::now()).is_ok());
    }
}
