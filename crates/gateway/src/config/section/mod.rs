//! Sections of the configuration that have a file of their own; those of a kind of agent with what can be wrong with them.

mod admin;
mod agent;
mod audit;
mod bounds;
mod card;
mod cards;
mod command;
mod credential;
mod fleet;
mod inbox;
mod limits;
mod listen;
mod markdown;
mod model;
mod outbound;
mod push;

pub(crate) use admin::*;
pub(crate) use agent::*;
pub(crate) use audit::*;
pub(crate) use bounds::*;
pub(crate) use card::*;
pub(crate) use cards::*;
pub(crate) use command::*;
pub(crate) use credential::*;
pub(crate) use fleet::*;
pub(crate) use inbox::*;
pub(crate) use limits::*;
pub(crate) use listen::*;
pub(crate) use markdown::*;
pub(crate) use model::*;
pub(crate) use outbound::*;
pub(crate) use push::*;

/// Whether a URL names a user or a password, which stand in logs and lists wherever the URL does.
pub(super) fn names_user(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// What is wrong in a section: the key, what, and what to do about it.
pub(super) type Complaint = (&'static str, String);
