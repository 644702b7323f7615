//! Who wrote a card: keys, canonical JSON, and signatures over both. Behind the feature `signing`.
//!
//! A card is signed as the specification says: a detached JWS (RFC 7515) over the canonical form (RFC 8785) of the
//! card, without what stands at its default. [`sign_card`] writes signatures, [`verify_card`] judges them; the forms in
//! which others sign are listed in [`Form`].
//!
//! | file | holds |
//! |---|---|
//! | `key` | [`AgentKey`] (Ed25519), [`P256Key`], and [`SigningKey`] for either |
//! | `public_key`, `jwk` | the public halves, and how they are published |
//! | `agent_id` | [`AgentId`], what an agent is known by wherever it is |
//! | `canonical` | [`canonical_json`] |
//! | `jws` | headers and compact tokens |
//! | `form` | what of a card is signed |
//! | `sign`, `verify` | signing and judging |
//!
//! ```
//! use chancery_protocol::signing::{AgentKey, CardPolicy, Signing, TrustedKeys, sign_card, verify_card};
//! use chancery_protocol::{AgentCard, AgentInterface, Timestamp};
//!
//! let key = AgentKey::generate()?.into();
//! let mut card = AgentCard::new("Router", "Plans routes", "1.0.0")
//!     .interface(AgentInterface::new("https://router.example/", "JSONRPC"));
//! sign_card(&mut card, &[&key], &Signing::default())?;
//!
//! let mut trusted = TrustedKeys::default();
//! trusted.trust(key.public());
//! let text = serde_json::to_string(&card)?;
//! let verified = verify_card(&text, &trusted, &CardPolicy::default(), Timestamp::now())?;
//! assert_eq!(verified.kid, key.kid());
//!
//! let forged = text.replace("router.example", "router.invalid");
//! assert!(verify_card(&forged, &trusted, &CardPolicy::default(), Timestamp::now()).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent_id;
mod canonical;
mod form;
mod jwk;
pub mod jws;
mod key;
mod public_key;
mod sign;
mod verify;

pub use agent_id::{AgentId, InvalidAgentId};
pub use canonical::{NotCanonical, canonical_json};
pub use form::Form;
pub use jwk::{Jwk, JwkSet};
pub use key::{AgentKey, KeyError, P256Key, SigningKey};
pub use public_key::{Algorithm, PublicKey};
pub use sign::{Signing, sign_as_served, sign_card};
pub use verify::{CardPolicy, CardRefusal, TrustedKeys, Verified, verify_card};
