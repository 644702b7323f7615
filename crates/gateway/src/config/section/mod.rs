//! Sections of the configuration that have a file of their own.

mod cards;

pub(crate) use cards::*;
