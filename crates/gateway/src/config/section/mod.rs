//! Sections of the configuration that have a file of their own.

mod admin;
mod cards;

pub(crate) use admin::*;
pub(crate) use cards::*;
