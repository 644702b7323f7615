//! Who is calling, and whether they may ask once more.

use std::sync::Arc;

use chancery_protocol::{Caller, Error, ErrorCode, Operation};
use http::request::Parts;

use super::guard::{CANCEL_BYTES, Visit, lineage_of};
use super::site::View;
use crate::runtime::contained;

/// Decides who is calling, from the head of a request.
pub(super) type Authenticate = Arc<dyn Fn(&Parts) -> Result<Caller, Error> + Send + Sync>;

// === impl View ===

impl View {
    /// Finds out who is calling, and whether they may ask once more. None is for what is no operation.
    pub(super) fn authenticate(&self, head: &Parts, operation: Option<Operation>) -> Result<Caller, Error> {
        let caller = self.counted(head)?;
        self.asks_for(head, &caller, operation)?;
        Ok(caller)
    }

    /// The same where only the body says what is asked for. Who asks too often is not refused yet if it may be a cancel.
    pub(super) fn counted(&self, head: &Parts) -> Result<Caller, Error> {
        let mut caller = self.authenticated(head)?;
        if let Some(guard) = self.guard() {
            caller = guard.acting(caller, lineage_of(head));
        }
        if let (Some(guard), Some(visit)) = (self.guard(), Visit::of(head)) {
            visit.count(&**guard, head, &caller)?;
        }
        Ok(caller)
    }

    /// Now it is known what is asked for.
    pub(super) fn asks_for(
        &self,
        head: &Parts,
        caller: &Caller,
        operation: Option<Operation>,
    ) -> Result<(), Error> {
        match (self.guard(), Visit::of(head)) {
            (Some(guard), Some(visit)) => visit.asks_for(&**guard, head, caller, operation),
            _ => Ok(()),
        }
    }

    /// Of somebody who asks too often no more is read than a cancel needs.
    pub(super) fn body_bytes_for(&self, head: &Parts) -> usize {
        let is_refused = Visit::of(head).is_some_and(Visit::is_refused);
        if is_refused { self.limits.body_bytes.min(CANCEL_BYTES) } else { self.limits.body_bytes }
    }

    pub(super) fn authenticated(&self, head: &Parts) -> Result<Caller, Error> {
        match &self.authenticate {
            Some(decide) => {
                self.refused_credentials.check(head, || self.source(head))?;
                contained("authenticate", || decide(head)).flatten().inspect_err(|error| match error.code() {
                    ErrorCode::Internal => tracing::error!(?error, "cannot tell who is calling"),
                    ErrorCode::Unauthenticated => {
                        self.refused_credentials.refused(head, || self.source(head));
                    }
                    _ => {}
                })
            }
            None => Ok(Caller::anonymous()),
        }
    }
}
