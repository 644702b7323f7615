//! The gates, one file each. Their order is the list in `plane`.

mod budget;
mod containment;
mod idempotency;
mod identity;
mod lineage;
mod policy;
mod routing;

pub use budget::BudgetGate;
pub use containment::ContainmentGate;
pub use idempotency::IdempotencyGate;
pub(crate) use idempotency::{KeyClaim, KeysInFlight};
pub use identity::IdentityGate;
pub use lineage::LineageGate;
pub use policy::PolicyGate;
pub use routing::RoutingGate;
