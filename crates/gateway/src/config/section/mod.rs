//! Sections of the configuration that have a file of their own.

mod admin;
mod cards;
mod fleet;

pub(crate) use admin::*;
pub(crate) use cards::*;
pub(crate) use fleet::*;
