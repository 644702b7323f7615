//! What an agent is known by wherever it is: a digest of its public key.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use shake::{ExtendableOutput as _, Shake256, Update as _, XofReader as _};

/// The SHAKE-256 digest, of 32 bytes, of an agent's Ed25519 public key. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId([u8; 32]);

/// Why a text is not an agent's id.
#[derive(Debug, thiserror::Error)]
#[error("expected an agent id: 64 hexadecimal digits in lower case")]
pub struct InvalidAgentId;

// === impl AgentId ===

impl AgentId {
    /// The id of whoever has the secret half of this Ed25519 key.
    pub fn of(public_key: &[u8; 32]) -> Self {
        let mut hash = Shake256::default();
        hash.update(public_key);
        let mut digest = [0; 32];
        hash.finalize_xof().read(&mut digest);
        Self(digest)
    }

    /// Reads an id. There is one spelling of each, so that ids can be compared as text.
    pub fn parse(text: &str) -> Result<Self, InvalidAgentId> {
        let mut digest = [0; 32];
        match base16ct::lower::decode(text, &mut digest) {
            Ok(read) if read.len() == 32 => Ok(Self(digest)),
            _ => Err(InvalidAgentId),
        }
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AgentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shake_256_of_the_key() {
        // Computed with Python: hashlib.shake_256(bytes(32)).hexdigest(32).
        let id = AgentId::of(&[0; 32]);
        assert_eq!(id.to_string(), "f5977c8283546a63723bc31d2619124f11db4658643336741df81757d5ad3062");
        assert_eq!(AgentId::parse(&id.to_string()).unwrap(), id);
    }

    #[test]
    fn only_its_one_spelling_is_read() {
        let id = AgentId::of(&[7; 32]).to_string();
        for wrong in ["", "00", &id[1..], &format!("{id}00"), &id.to_uppercase(), &id.replace('1', "g")] {
            assert!(AgentId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
