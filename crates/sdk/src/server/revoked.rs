//! What is under way for somebody ends when the credential does that it was asked for with.

use std::sync::Arc;

use chancery_protocol::{BoxFuture, Caller, Error, ErrorCode, EventStream, Identity, Principal};
use futures_util::{StreamExt as _, stream};

use super::ServerBuilder;
use super::site::View;

/// Says when the credential of a caller ends; none if it holds for as long as anything takes.
pub(super) type Revocation = Arc<dyn Fn(&Caller) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

impl ServerBuilder {
    /// Says when the credential that a caller was let in with ends, if it can: streams that were asked for with it end then.
    #[must_use]
    pub fn revocation(
        mut self,
        ended: impl Fn(&Caller) -> Option<BoxFuture<'static, ()>> + Send + Sync + 'static,
    ) -> Self {
        self.revocation = Some(Arc::new(ended));
        self
    }
}

impl View {
    /// When the credential ends that somebody was let in with, if it can.
    pub(super) fn revoked(
        &self,
        principal: &Principal,
        identity: &Arc<Identity>,
    ) -> Option<BoxFuture<'static, ()>> {
        let ended = self.revocation.as_ref()?;
        ended(&Caller { principal: principal.clone(), identity: identity.clone() })
    }
}

/// The same events, until the credential ends.
pub(super) fn until(events: EventStream, ended: BoxFuture<'static, ()>) -> EventStream {
    Box::pin(stream::unfold(Some((events, ended)), |open| async move {
        let (mut events, mut ended) = open?;
        tokio::select! {
            biased;
            () = &mut ended => Some((Err(refusal()), None)),
            event = events.next() => event.map(|event| (event, Some((events, ended)))),
        }
    }))
}

fn refusal() -> Error {
    Error::with_message(
        ErrorCode::Unauthenticated,
        "The credential that the stream was asked for with has ended or was taken back",
    )
}
