//! How long a call is waited for, and what is said when it was too long.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::error::ClientError;

/// Until when something is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) until: Instant,
    what: &'static str,
    after: Duration,
}

impl Patience {
    pub(crate) fn of(what: &'static str, from: Instant, after: Duration) -> Self {
        Self { until: from + after, what, after }
    }

    /// What is said when it is over.
    pub(crate) fn late(self) -> ClientError {
        ClientError::TimedOut { what: self.what, after: self.after }
    }

    /// Waits for something that has no timer of its own.
    pub(crate) async fn wait_for<F: Future>(self, future: F) -> Result<F::Output, ClientError> {
        timeout_at(self.until, future).await.map_err(|_| self.late())
    }
}
