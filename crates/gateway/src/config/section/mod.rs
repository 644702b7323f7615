//! Sections of the configuration that have a file of their own.

mod admin;

pub(crate) use admin::AdminSection;
