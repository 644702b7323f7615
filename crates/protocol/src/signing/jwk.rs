//! Public keys as they are published: JSON Web Keys (RFC 7517, 8037).

use ed25519_dalek as ed25519;
use serde::de::{Deserialize, Deserializer};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value;

use super::jws;
use super::public_key::PublicKey;

/// A public key in JSON. A secret half is neither read nor written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Jwk {
    /// The kind of key: `OKP` or `EC`.
    pub kty: String,
    /// The curve: `Ed25519` or `P-256`.
    pub crv: String,
    /// The key, or the first coordinate of it, in base64url.
    pub x: String,
    /// The second coordinate of an `EC` key, in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// What headers call the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// What signatures are made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// What the key is for: `sig`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
}

/// The keys that somebody publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct JwkSet {
    /// The keys, the newest first. Keys of a kind that we do not know are left out when a set is read.
    #[serde(deserialize_with = "known_keys")]
    pub keys: Vec<Jwk>,
}

/// A set may well hold keys for other purposes, RSA for one; they must not cost us those that we can use.
fn known_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Jwk>, D::Error> {
    let keys = Vec::<Value>::deserialize(deserializer)?;
    Ok(keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect())
}

// === impl Jwk ===

impl Jwk {
    /// The key, if it is of a kind that we know, is whole, and is meant for signatures.
    pub fn to_public_key(&self) -> Option<PublicKey> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let x = jws::decode(&self.x)?;
        match (self.kty.as_str(), self.crv.as_str()) {
            ("OKP", "Ed25519") => {
                let key = ed25519::VerifyingKey::from_bytes(&x.try_into().ok()?).ok()?;
                // For a weak key there are signatures that fit every message.
                (!key.is_weak()).then_some(PublicKey::Ed25519(key))
            }
            ("EC", "P-256") => {
                let y = jws::decode(self.y.as_deref()?)?;
                let (x, y): ([u8; 32], [u8; 32]) = (x.try_into().ok()?, y.try_into().ok()?);
                let uncompressed = [[4].as_slice(), &x, &y].concat();
                p256::ecdsa::VerifyingKey::from_sec1_bytes(&uncompressed).ok().map(PublicKey::P256)
            }
            _ => None,
        }
    }

    /// What a thumbprint is made of (RFC 7638, 8037): the required members in the order of their names.
    pub(super) fn required_members(&self) -> String {
        let Self { kty, crv, x, y, .. } = self;
        match y {
            None => format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}"}}"#),
            Some(y) => format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}","y":"{y}"}}"#),
        }
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// The key as it is published, under its thumbprint.
    pub fn to_published_jwk(&self) -> Jwk {
        let alg = self.algorithm().as_str().to_owned();
        Jwk { kid: Some(self.kid()), alg: Some(alg), usage: Some("sig".to_owned()), ..self.to_jwk() }
    }

    /// The key and nothing else.
    pub(super) fn to_jwk(&self) -> Jwk {
        let (kty, crv, x, y) = match self {
            Self::Ed25519(key) => ("OKP", "Ed25519", jws::encode(key.as_bytes()), None),
            Self::P256(key) => {
                let point = key.to_sec1_point(false);
                let (x, y) = point.as_bytes()[1..].split_at(32);
                ("EC", "P-256", jws::encode(x), Some(jws::encode(y)))
            }
        };
        Jwk { kty: kty.to_owned(), crv: crv.to_owned(), x, y, kid: None, alg: None, usage: None }
    }
}

// === impl JwkSet ===

impl<'a> FromIterator<&'a PublicKey> for JwkSet {
    fn from_iter<I: IntoIterator<Item = &'a PublicKey>>(keys: I) -> Self {
        Self { keys: keys.into_iter().map(PublicKey::to_published_jwk).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_of_rfc_8037() {
        let text = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let key = serde_json::from_str::<Jwk>(text).unwrap().to_public_key().unwrap();
        assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn a_set_is_read_back_without_the_keys_that_nobody_here_can_use() {
        let ours = super::super::AgentKey::generate().unwrap();
        let also_ours = super::super::P256Key::generate().unwrap();
        let keys = [ours.public(), also_ours.public()];
        let mut set = serde_json::to_value(keys.iter().collect::<JwkSet>()).unwrap();
        let foreign = serde_json::json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "r"});
        set["keys"].as_array_mut().unwrap().push(foreign);
        let read: JwkSet = serde_json::from_str(&set.to_string()).unwrap();
        let known: Vec<_> = read.keys.iter().filter_map(Jwk::to_public_key).collect();
        assert_eq!(known, keys);
        assert_eq!(read.keys[0].kid.as_deref(), Some(&*ours.public().kid()));
    }

    #[test]
    fn weak_broken_and_encryption_keys_are_no_keys() {
        let good = super::super::P256Key::generate().unwrap().public().to_published_jwk();
        assert!(good.to_public_key().is_some());
        assert_eq!(Jwk { usage: Some("enc".to_owned()), ..good.clone() }.to_public_key(), None);
        assert_eq!(Jwk { y: Some(good.x.clone()), ..good.clone() }.to_public_key(), None);
        assert_eq!(Jwk { y: None, ..good.clone() }.to_public_key(), None);
        assert_eq!(Jwk { crv: "P-384".to_owned(), ..good.clone() }.to_public_key(), None);
        let neutral = jws::encode(&[[1].as_slice(), &[0; 31]].concat());
        let weak = Jwk { kty: "OKP".to_owned(), crv: "Ed25519".to_owned(), x: neutral, y: None, ..good };
        assert_eq!(weak.to_public_key(), None);
    }
}
