//! Who is calling, and may it come in at all.
//!
//! A caller is who it proves to be, never who it says. It proves that with an [API key](ApiKey), of which the gateway
//! keeps a keyed hash, or, if it is an agent, with a [token](mint_agent_token) that it signed with its own key. The
//! [`Authenticator`] makes a `Caller` of either; an [`IdentityResolver`] then says whether that caller may do this here,
//! before anything is looked up.
//!
//! | file | holds |
//! |---|---|
//! | `secret`, `api_key`, `key_ring` | API keys: made, recorded, verified |
//! | `agent_token`, `agent_ring` | tokens that agents sign: minted, verified |
//! | `spent` | tokens that count only once |
//! | `authenticator` | credentials in, a caller out; the schemes for the card |
//! | `resolver`, `allow_list` | who may come in |
//! | `within` | who acts for a call that is open |
//! | `key_set` | the gateway's own signing keys, and how they change |
//!
//! ```
//! use chancery_control::Millis;
//! use chancery_control::identity::{
//!     Access, AllowList, AllowRule, ApiKey, Authenticator, Credentials, IdentityResolver, KeyRecord, KeyRing,
//!     ServerSecret, Who,
//! };
//! use chancery_protocol::{Operation, Timestamp};
//! use std::sync::Arc;
//!
//! let secret = ServerSecret::generate()?;
//! let key = ApiKey::generate()?; // shown once, to whoever is to call
//! let record = KeyRecord::new(&key, &secret, "default", "alice", Timestamp::now()); // kept
//!
//! let ring = KeyRing::new(&secret);
//! ring.replace(&[record])?;
//! let authenticator = Authenticator::default().with_keys(Arc::new(ring));
//!
//! let said = format!("Bearer {}", key.text());
//! let credentials = Credentials { authorization: Some(&said), api_key: None };
//! let caller = authenticator.authenticate(&credentials, Millis(0))?.for_any_body()?;
//! assert_eq!(&*caller.principal.id, "alice");
//!
//! let list = AllowList::new([AllowRule::new(Who::Caller("alice".into())).agents(["library"])]);
//! assert!(list.resolve(&Access::new(&caller, "library", Operation::SendMessage)).is_ok());
//! assert!(list.resolve(&Access::new(&caller, "payroll", Operation::SendMessage)).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent_ring;
mod agent_token;
mod allow_list;
mod api_key;
mod authenticator;
mod key_ring;
mod key_set;
mod name;
mod resolver;
mod secret;
mod spent;
mod within;

pub use agent_ring::{AgentError, AgentProof, AgentRing, TokenRefusal, TokenRules, TrustedAgent};
pub use agent_token::{BodyBinding, MAX_LIFETIME, mint_agent_token};
pub use allow_list::{AllowList, AllowRule, Who};
pub use api_key::{ApiKey, KeyRecord, api_key_id};
pub use authenticator::{API_KEY_HEADER, Authenticated, Authenticator, Credentials, Unauthenticated};
pub use key_ring::{KeyRefusal, KeyRing, RecordError};
pub use key_set::KeySet;
pub use name::{BadName, LONGEST_NAME, check_name};
pub use resolver::{Access, AllowAll, IdentityResolver};
pub use secret::ServerSecret;
pub(crate) use within::caller_within;
pub use within::{OUTSIDE_OF_CALL, call_of, is_reserved, outside_of_call, within_call};

/// The name of the gate.
pub const GATE: &str = "identity";

/// The caller is known, and may not do this here.
pub const NOT_ALLOWED: &str = "CALLER_NOT_ALLOWED";
