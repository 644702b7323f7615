//! What may be said of the kinds of agent, each in a file with what can be wrong with it.

mod card;
mod command;
mod model;

pub(crate) use card::*;
pub(crate) use command::*;
pub(crate) use model::*;

/// What is wrong in a section: the key, what, and what to do about it.
pub(super) type Complaint = (&'static str, String);
