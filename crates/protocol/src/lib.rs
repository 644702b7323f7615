//! The A2A protocol, version 1.0, as Rust types: no tokio, no I/O.
//!
//! Everything that other crates name in their signatures lives here. Where to look:
//!
//! | file | holds |
//! |---|---|
//! | `operation` | the eleven operations and the table of their names on every binding |
//! | `error`, `denied` | failures and refusals, and the table of how they look on every binding |
//! | `error_decode` | failures that others wrote, read back |
//! | `call` | [`Call`], [`Reply`] and the central trait, [`Endpoint`] |
//! | `hop`, `usage` | an admitted call: its record, what it holds, what it costs |
//! | `task`, `message`, `event`, `push`, `request`, `card`, `security` | the messages of the protocol |
//! | `kept` | a task that many share, kept as JSON once it has ended |
//! | `validate`, `decode` | what a request must hold, and how mistakes are explained |
//! | `jsonrpc`, `one_pass`, `version` | the JSON-RPC envelope, read fast; version and extension negotiation |
//! | `json`, `id`, `time` | user JSON kept token for token; ids; timestamps |
//! | `write` | JSON into memory, in fewer steps |
//! | `signing` | keys, canonical JSON and signed cards, behind a feature of that name |
//! | `field` | how fields are read where ProtoJSON and serde disagree |

mod anonymous;
mod call;
mod caller;
mod card;
mod decode;
mod denied;
mod error;
mod error_decode;
mod event;
pub mod field;
mod hop;
mod id;
mod json;
pub mod jsonrpc;
mod kept;
mod message;
mod one_pass;
mod operation;
mod peer;
mod push;
mod queued;
mod request;
mod security;
#[cfg(feature = "signing")]
pub mod signing;
mod task;
mod time;
mod usage;
mod usage_report;
mod validate;
mod version;
mod write;

pub use call::*;
pub use caller::{Caller, Identity, Principal, Proof, network_of};
pub use card::*;
pub use decode::{decode_params, decode_reply};
pub use denied::{Denied, DeniedKind, Quota};
pub use error::*;
pub use error_decode::ErrorNumbers;
pub use event::*;
pub use hop::{
    BUDGET_HEADER, BilledParty, CallLimits, CallOrigin, CallOutcome, Choice, Edge, Hold, HopId,
    LINEAGE_EXTENSION, LINEAGE_HEADER, Settled, Settling, Statement, Whereabouts,
};
pub use id::{ArtifactId, ContextId, MessageId, PushConfigId, TaskId};
pub use json::{Json, JsonError, JsonObject, MAX_DEPTH};
pub use kept::KeptTask;
pub use message::*;
pub use operation::*;
pub use peer::{PeerWatch, PoolWatch};
pub use push::*;
pub use queued::{Admitted, Queued, Waiting};
pub use request::*;
pub use security::*;
pub use task::*;
pub use time::{InvalidTimestamp, Timestamp};
pub use usage::{Amount, CostSource, USAGE_EXTENSION, Usage, parse_usd};
pub use usage_report::{IgnoredFields, UsageReport};
pub use validate::{
    DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, RequestLimits, check_input_modes, is_absolute_url, media_type_matches,
};
pub use version::*;
pub use write::write_json;
