//! Tells whoever chose a peer how it does.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{ErrorCode, PeerWatch};

use super::error::ClientError;

/// Who wants to hear of a call, if somebody does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(pub(crate) Option<Arc<dyn PeerWatch>>);

impl Watch {
    pub(crate) fn heard(&self) {
        if let Some(watch) = &self.0 {
            watch.heard();
        }
    }

    pub(crate) fn answered(&self) {
        if let Some(watch) = &self.0 {
            watch.answered();
        }
    }

    pub(crate) fn broke_off(&self) {
        if let Some(watch) = &self.0 {
            watch.broke_off();
        }
    }

    /// A call has failed, for which there usually is so much time.
    pub(crate) fn failed(&self, error: &ClientError, usual: Duration) {
        let Some(watch) = &self.0 else { return };
        match error {
            ClientError::Connect { .. }
            | ClientError::Cut { .. }
            | ClientError::StreamCut { .. }
            // Another member of a pool may be trusted.
            | ClientError::Untrusted(_) => watch.broke_off(),
            ClientError::TimedOut { after, .. } => {
                // A caller that is in a hurry must not take a peer away from all others.
                if *after >= usual {
                    watch.broke_off();
                }
            }
            ClientError::Status { status, .. } if status.is_server_error() => watch.broke_off(),
            ClientError::Peer(error) if error.code() == ErrorCode::Unavailable => watch.broke_off(),
            ClientError::Peer(_)
            | ClientError::Status { .. }
            | ClientError::BadAnswer(_)
            | ClientError::BadEvent { .. }
            | ClientError::TooLarge { .. } => watch.answered(),
            // Nothing was sent, for reasons that lie with us.
            ClientError::Configuration(_)
            | ClientError::Refused { .. }
            | ClientError::NoInterface { .. }
            | ClientError::Intercepted(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use chancery_protocol::Error;
    use http::StatusCode;

    use super::*;

    #[derive(Debug, Default)]
    struct Counted {
        answered: AtomicU32,
        broken: AtomicU32,
    }

    impl PeerWatch for Counted {
        fn heard(&self) {}

        fn answered(&self) {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }

        fn broke_off(&self) {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn told(error: &ClientError) -> (u32, u32) {
        let counted = Arc::new(Counted::default());
        Watch(Some(counted.clone())).failed(error, Duration::from_secs(30));
        (counted.answered.load(Ordering::Relaxed), counted.broken.load(Ordering::Relaxed))
    }

    #[test]
    fn what_the_agent_says_is_no_failure_of_the_peer() {
        for code in [ErrorCode::TaskNotFound, ErrorCode::Internal, ErrorCode::ResourceExhausted] {
            assert_eq!(told(&ClientError::Peer(Error::new(code))), (1, 0));
        }
        assert_eq!(told(&ClientError::bad("no JSON")), (1, 0));
    }

    #[test]
    fn who_cannot_be_reached_or_breaks_off_or_says_so_has_failed() {
        let origin = || "http://a".to_owned();
        let status = |status| ClientError::Status { status, body: String::new(), retry_after: None };
        for error in [
            ClientError::Connect { origin: origin(), source: "refused".into() },
            ClientError::Cut { origin: origin(), source: "reset".into() },
            ClientError::StreamCut { last_event: 3, why: String::new() },
            status(StatusCode::INTERNAL_SERVER_ERROR),
            status(StatusCode::BAD_GATEWAY),
            ClientError::Peer(Error::new(ErrorCode::Unavailable)),
        ] {
            assert_eq!(told(&error), (0, 1), "{error}");
        }
        assert_eq!(told(&status(StatusCode::IM_A_TEAPOT)), (1, 0));
    }

    #[test]
    fn only_time_that_we_would_have_given_anybody_counts() {
        let late = |seconds| ClientError::TimedOut { what: "it", after: Duration::from_secs(seconds) };
        assert_eq!(told(&late(1)), (0, 0));
        assert_eq!(told(&late(30)), (0, 1));
    }
}
