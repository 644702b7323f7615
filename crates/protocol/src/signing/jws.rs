//! JSON Web Signatures (RFC 7515), as far as cards and tokens need them: one protected header, base64url, no criticals.
//!
//! Public for those who write tokens of their own by the same rules.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jwk::Jwk;
use super::key::{AgentKey, SigningKey};
use super::public_key::{Algorithm, PublicKey};

/// What a signature says about itself, and covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The algorithm, as named in the header. It has to be that of the key.
    pub alg: String,
    /// Which key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// What is signed: `JOSE` for a card, `JWT` for a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typ: Option<String>,
    /// Where the key is published. A hint for readers who already trust that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jku: Option<String>,
    /// The public key itself. It proves nothing, unless it is known who has that very key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwk: Option<Jwk>,
    /// Which form of a card is signed, if whoever signed it said so; see [`Form`](super::Form).
    #[serde(default, rename = "urn:chancery:form", skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// What a reader has to understand; nothing that we do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crit: Option<Value>,
}

/// A token in three parts, taken apart. Nothing about it has been verified.
#[derive(Clone, Debug)]
pub struct Token<'a> {
    /// What the signature says about itself.
    pub header: Header,
    /// What was signed.
    pub payload: Vec<u8>,
    message: &'a str,
    signature: Vec<u8>,
}

/// Bytes in base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads base64url without padding; each value has one spelling.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Writes a token that an agent has signed. It carries the public key, so that it can be verified by whoever knows
/// nothing of the agent but its [`AgentId`](super::AgentId).
pub fn sign_token<T: Serialize>(key: &AgentKey, typ: &str, claims: &T) -> Result<String, serde_json::Error> {
    let header = Header {
        alg: Algorithm::EdDsa.as_str().to_owned(),
        kid: Some(key.kid().to_owned()),
        typ: Some(typ.to_owned()),
        jwk: Some(key.public().to_jwk()),
        ..Header::default()
    };
    let mut token = message(&header.to_text()?, &serde_json::to_vec(claims)?);
    let signature = key.sign(token.as_bytes());
    token.push('.');
    token.push_str(&encode(&signature));
    Ok(token)
}

/// What a signature is made over.
pub(super) fn message(protected: &str, payload: &[u8]) -> String {
    let mut message = String::with_capacity(protected.len() + payload.len() * 4 / 3 + 100);
    message.push_str(protected);
    message.push('.');
    URL_SAFE_NO_PAD.encode_string(payload, &mut message);
    message
}

// === impl Header ===

impl Header {
    /// The header of a signature by this key.
    pub(super) fn of(key: &SigningKey) -> Self {
        let kid = Some(key.kid().to_owned());
        Self { alg: key.algorithm().as_str().to_owned(), kid, ..Self::default() }
    }

    pub(super) fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(encode(&serde_json::to_vec(self)?))
    }

    /// Reads a protected header. One that demands to be understood is not.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let header: Self = serde_json::from_slice(&decode(text)?).ok()?;
        header.crit.is_none().then_some(header)
    }

    /// Whether a signature with this header can be by this key.
    pub(super) fn fits(&self, key: &PublicKey) -> bool {
        Algorithm::parse(&self.alg) == Some(key.algorithm())
    }
}

// === impl Token ===

impl<'a> Token<'a> {
    /// Takes a token apart.
    pub fn parse(token: &'a str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Some(Self { header: Header::parse(header)?, payload, message, signature })
    }

    /// Whether the secret half of this key has signed the token, by the one algorithm that the key is for.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.header.fits(key) && key.has_signed(self.message.as_bytes(), &self.signature)
    }
}

#[cfg(test)]
mod tests {
    use super::super::P256Key;
    use super::*;

    fn header_of(key: &AgentKey) -> Header {
        Header { alg: "EdDSA".to_owned(), kid: Some(key.kid().to_owned()), ..Header::default() }
    }

    #[test]
    fn a_token_is_read_back_by_its_key_alone() {
        let key = AgentKey::generate().unwrap();
        let token = sign_token(&key, "JWT", &serde_json::json!({"iss": "me"})).unwrap();
        let read = Token::parse(&token).unwrap();
        assert_eq!(read.payload, br#"{"iss":"me"}"#);
        assert_eq!(read.header.jwk.as_ref().unwrap().to_public_key(), Some(key.public()));
        assert!(read.is_signed_by(&key.public()));
        assert!(!read.is_signed_by(&P256Key::generate().unwrap().public()));
        assert!(!read.is_signed_by(&AgentKey::generate().unwrap().public()));
    }

    #[test]
    fn the_header_does_not_choose_the_algorithm() {
        let key = AgentKey::generate().unwrap();
        for alg in ["none", "HS256", "ES256", "RS256", "eddsa", ""] {
            let header = Header { alg: alg.to_owned(), ..header_of(&key) };
            let message = message(&header.to_text().unwrap(), b"1");
            let token = format!("{message}.{}", encode(&key.sign(message.as_bytes())));
            assert!(!Token::parse(&token).unwrap().is_signed_by(&key.public()), "{alg}");
        }
    }

    #[test]
    fn what_is_not_a_token_is_not_read() {
        let key = AgentKey::generate().unwrap();
        let token = sign_token(&key, "JWT", &1).unwrap();
        assert!(Token::parse(&token).is_some());
        let critical =
            Header { crit: Some(serde_json::json!(["b64"])), ..header_of(&key) }.to_text().unwrap();
        let twice = encode(br#"{"alg":"EdDSA","alg":"none"}"#);
        for text in ["", ".", "..", "a.b.c", &token[1..], &format!("{token}="), &format!("{token}.e30")] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
        for header in [critical, twice, encode(b"[]"), encode(b"{}")] {
            assert!(Token::parse(&format!("{header}.MQ.e30")).is_none(), "{header}");
        }
    }
}
