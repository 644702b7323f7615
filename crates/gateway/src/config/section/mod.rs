//! Sections of the configuration that have a file of their own.

mod fleet;

pub(crate) use fleet::*;
