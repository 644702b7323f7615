//! What may be said about cards: how ours are signed, and whose signatures on others' are believed.

use std::path::PathBuf;

use chancery_protocol::signing::Jwk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the cards are signed that are served here.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CardsSection {
    /// Whether they are: with an Ed25519 and a P-256 key, which are made at the first start and published at
    /// `/.well-known/jwks.json`.
    pub(crate) sign: bool,
    /// Signs each card without its empty values as well, if it has any: the SDKs for Python and JavaScript can verify nothing
    /// else. Such a signature does not cover what is empty.
    pub(crate) for_readers_without_empties: bool,
}

/// Whether the card of an agent elsewhere must be signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SignatureMode {
    /// It is believed as it is.
    #[default]
    Off,
    /// If it is signed, then with one of `trusted_keys`.
    VerifyIfPresent,
    /// It must be signed with one of `trusted_keys`.
    Require,
}

/// Keys that are trusted. One of them is enough.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PinnedKeys {
    /// Agent ids: 64 hexadecimal digits, made from a public key. The key itself comes with the card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) agent_ids: Vec<String>,
    /// Files with a JSON Web Key or a set of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<PathBuf>,
    /// JSON Web Keys: the public halves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) jwks: Vec<JwkSection>,
}

/// A public key.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwkSection {
    /// `OKP` or `EC`.
    pub(crate) kty: String,
    /// `Ed25519` or `P-256`.
    pub(crate) crv: String,
    /// The key, or its first coordinate, in base64url.
    pub(crate) x: String,
    /// The second coordinate of an `EC` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) y: Option<String>,
    /// What signatures call it; its thumbprint unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kid: Option<String>,
    /// What signatures are made with, which is known anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alg: Option<String>,
    /// What it is for: `sig`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<String>,
}

impl Default for CardsSection {
    fn default() -> Self {
        Self { sign: true, for_readers_without_empties: true }
    }
}

impl PinnedKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.agent_ids.is_empty() && self.files.is_empty() && self.jwks.is_empty()
    }
}

impl JwkSection {
    pub(crate) fn to_jwk(&self) -> Jwk {
        let Self { kty, crv, x, y, kid, alg, usage } = self.clone();
        Jwk { kty, crv, x, y, kid, alg, usage }
    }
}
