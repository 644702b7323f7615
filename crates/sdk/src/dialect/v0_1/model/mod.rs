//! The messages of v0.1, to and from those of v1.0. Roles, parts and times are read as v0.3 reads them, which took them
//! over.

mod event;
mod message;
mod push;
mod request;
mod task;
#[cfg(test)]
mod tests;

pub(crate) use event::{Heard, OlderEvent};
pub(crate) use message::OlderArtifact;
pub(crate) use push::OlderConfig;
pub(crate) use request::{ConfigParams, IdParams, OlderSend, SendParams};
pub(crate) use task::answered;

/// A value of v1.0, as v0.1 writes it.
pub(crate) struct Older<'a, T: ?Sized>(pub(crate) &'a T);

/// A value of v0.1, read as one of v1.0.
#[derive(Clone, Debug)]
pub(crate) struct Newer<T>(pub(crate) T);
