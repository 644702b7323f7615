//! Sections of the configuration that have a file of their own.

mod admin;
mod fleet;

pub(crate) use admin::AdminSection;
pub(crate) use fleet::{FleetSection, Trust};
