//! The gateway's own signing keys: those that sign, and those whose signatures are still around.

use std::time::Duration;

use chancery_protocol::Timestamp;
use chancery_protocol::signing::{AgentId, JwkSet, PublicKey, SigningKey, TrustedKeys};

use crate::Millis;

/// The keys that sign now, and those that signed before, until some time. Whoever knows only those from before can verify the cards
/// that are served meanwhile, and whoever has fetched a card before a change of keys can verify that.
#[derive(Debug)]
pub struct KeySet {
    current: Vec<SigningKey>,
    previous: Vec<Previous>,
}

/// A key from before a change.
#[derive(Debug)]
struct Previous {
    public: PublicKey,
    /// The key itself, where it is still there to sign with.
    key: Option<SigningKey>,
    until: Millis,
}

/// So many keys from before sign beside the current ones: those of the last change. Readers look at only so many signatures.
const MOST_PREVIOUS: usize = 2;

// === impl KeySet ===

impl KeySet {
    /// A set that signs with these keys.
    pub fn new(current: impl IntoIterator<Item = SigningKey>) -> Self {
        Self { current: current.into_iter().collect(), previous: Vec::new() }
    }

    /// Publishes another key until some time, without signing with it: as when a gateway starts again after a change.
    #[must_use]
    pub fn with_previous(mut self, key: PublicKey, until: Millis) -> Self {
        self.previous.push(Previous { public: key, key: None, until });
        self
    }

    /// Signs with another key, too, and publishes it, until some time.
    #[must_use]
    pub fn with_overlapping(mut self, key: SigningKey, until: Millis) -> Self {
        self.previous.push(Previous { public: key.public(), key: Some(key), until });
        self
    }

    /// Signs with other keys from now on, and with those that it has signed with for so long. Without an overlap nothing counts any more
    /// of what was signed before.
    pub fn rotate(&mut self, keys: impl IntoIterator<Item = SigningKey>, overlap: Duration, now: Millis) {
        self.previous.retain(|previous| previous.until > now && !overlap.is_zero());
        for key in std::mem::replace(&mut self.current, keys.into_iter().collect()) {
            self.previous.push(Previous { public: key.public(), key: Some(key), until: now + overlap });
        }
    }

    /// The keys that sign now: the current ones first.
    pub fn signing(&self, now: Millis) -> Vec<&SigningKey> {
        let previous = self.previous.iter().filter(|previous| previous.until > now);
        let previous: Vec<_> = previous.filter_map(|previous| previous.key.as_ref()).collect();
        let last = &previous[previous.len().saturating_sub(MOST_PREVIOUS)..];
        self.current.iter().chain(last.iter().copied()).collect()
    }

    /// The keys that are not from before a change.
    pub fn current(&self) -> &[SigningKey] {
        &self.current
    }

    /// When the next of those from before is over; none if there is none.
    pub fn next_end(&self, now: Millis) -> Option<Millis> {
        self.previous.iter().map(|previous| previous.until).filter(|until| *until > now).min()
    }

    /// Who the gateway is to other gateways: the id of its first Ed25519 key.
    pub fn agent_id(&self) -> Option<AgentId> {
        self.current.iter().find_map(|key| key.public().agent_id())
    }

    /// What is published at `/.well-known/jwks.json`: the keys that sign first, then those before them.
    pub fn published(&self, now: Millis) -> JwkSet {
        let current: Vec<_> = self.current.iter().map(SigningKey::public).collect();
        let previous = self.previous.iter().filter(|previous| previous.until > now);
        current.iter().chain(previous.map(|previous| &previous.public)).collect()
    }

    /// The keys with which cards of this gateway are verified.
    pub fn trusted(&self) -> TrustedKeys {
        let mut trusted = TrustedKeys::default();
        self.current.iter().for_each(|key| trusted.trust(key.public()));
        for Previous { public, until, .. } in &self.previous {
            let until = Timestamp::from_millis(i64::try_from(until.0).unwrap_or(i64::MAX));
            trusted.trust_as(public.kid(), public.clone(), Some(until));
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
        signed_at(keys, Millis(u64::MAX))
    }

    fn signed_at(keys: &KeySet, now: Millis) -> String {
        let mut card =
            AgentCard::new("n", "d", "1").interface(AgentInterface::new("https://a.example", "JSONRPC"));
        sign_card(&mut card, &keys.signing(now), &Signing::default()).unwrap();
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
    fn during_the_overlap_cards_are_signed_with_the_keys_from_before_as_well() {
        let (now, hour) = (Millis(1_000), Duration::from_secs(3_600));
        let mut keys = KeySet::new(pair());
        let old = KeySet::new([]).with_previous(keys.current()[0].public(), Millis(u64::MAX));
        let by_old = |keys: &KeySet, at: Millis| {
            let card = signed_at(keys, at);
            verify_card(&card, &old.trusted(), &CardPolicy::default(), Timestamp::from_millis(0)).is_ok()
        };
        keys.rotate(pair(), hour, now);
        assert_eq!(keys.signing(now).len(), 4);
        assert!(by_old(&keys, now));
        assert_eq!(keys.next_end(now), Some(now + hour));
        assert!(!by_old(&keys, now + hour));
        assert_eq!((keys.signing(now + hour).len(), keys.next_end(now + hour)), (2, None));
        // Readers look at only so many signatures: of several changes the last one counts.
        keys.rotate(pair(), hour, now);
        assert_eq!(keys.signing(now).len(), 4);
        // Who changes keys since somebody else has them leaves no overlap.
        keys.rotate(pair(), Duration::ZERO, now);
        assert_eq!((keys.signing(now).len(), keys.published(now).keys.len()), (2, 2));
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
