//! Why a call to a peer failed, precise enough to decide what to do next.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use chancery_protocol::{Error, ErrorCode, TaskId};
use http::StatusCode;

/// What lies beneath an error.
pub(crate) type Source = Box<dyn StdError + Send + Sync>;

/// Why a call to a peer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client was put together wrongly.
    #[error("the client cannot be built: {0}")]
    Configuration(String),
    /// The peer cannot be reached: nothing was sent.
    #[error("cannot connect to {origin}; check that the agent runs there and that the network allows it")]
    Connect {
        /// Where to.
        origin: String,
        /// Why not.
        source: Source,
    },
    /// An address that somebody else names, such as a card, may not be connected to: nothing was sent.
    #[error("not connecting to {origin}, which others than you have named: {why}")]
    Refused {
        /// Where to.
        origin: String,
        /// Which rule says so, and how to change it.
        why: String,
    },
    /// It took too long. A send may have arrived all the same.
    #[error("{what} took longer than {} ms; allow more time or ask again later", after.as_millis())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        after: Duration,
    },
    /// The connection broke before the answer was complete. A send may have arrived all the same.
    #[error("the connection to {origin} broke before the answer was complete")]
    Cut {
        /// The peer.
        origin: String,
        /// How it broke.
        source: Source,
    },
    /// A stream broke, and could not be taken up again.
    #[error("the stream broke after event {last_event} and could not be taken up again: {why}")]
    StreamCut {
        /// The number of the last event that came; 0 if none came, or none had a number.
        last_event: u64,
        /// What stood in the way.
        why: String,
    },
    /// The peer answered with an error of the protocol.
    #[error("the agent answered: {0}")]
    Peer(#[source] Error),
    /// Something between here and the agent answered with a bare HTTP status.
    #[error("the answer is HTTP status {status} and no A2A answer{}", Excerpt(body))]
    Status {
        /// The status.
        status: StatusCode,
        /// How its body begins.
        body: String,
        /// When it says to try again.
        retry_after: Option<Duration>,
    },
    /// The peer's answer breaks the protocol.
    #[error("the agent's answer cannot be used: {0}")]
    BadAnswer(String),
    /// An event of a stream breaks the protocol. The task may well go on.
    #[error("an event of the agent's stream cannot be used: {why}")]
    BadEvent {
        /// What is wrong with it.
        why: String,
        /// The task that it is about, as far as that can be told.
        task: Option<TaskId>,
    },
    /// The peer's answer is larger than the client takes.
    #[error("{what} is larger than the {limit} bytes that this client takes; raise the limit to take it")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The card names no way to call the agent that this client knows.
    #[error("no interface of the agent can be used; it offers {}", offered.join(", "))]
    NoInterface {
        /// What the card offers, and what is wrong with each.
        offered: Vec<String>,
    },
    /// The card is not trusted, so nothing in it is believed: nothing was sent.
    #[error("the agent is not called, since its card is not trusted: {0}")]
    Untrusted(String),
    /// An interceptor refused the call.
    #[error("an interceptor stopped the call")]
    Intercepted(#[source] Source),
}

struct Excerpt<'a>(&'a str);

impl ClientError {
    /// Whether the same call may succeed later. Whether it is safe to repeat is another question: a send
    /// may have arrived, unless [`ClientError::was_never_sent`].
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::TimedOut { .. } | Self::Cut { .. } | Self::StreamCut { .. } => true,
            Self::Peer(error) => error.is_retryable(),
            Self::Status { status, .. } => matches!(status.as_u16(), 408 | 425 | 429 | 502..=504),
            _ => false,
        }
    }

    /// When the peer says to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Peer(error) => error.wait(),
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether it is certain that the peer has seen nothing of the call.
    pub fn was_never_sent(&self) -> bool {
        matches!(
            self,
            Self::Configuration(_)
                | Self::Connect { .. }
                | Self::Refused { .. }
                | Self::NoInterface { .. }
                | Self::Untrusted(_)
                | Self::Intercepted(_)
        )
    }

    /// The protocol's code, if the peer gave one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Peer(error) => Some(error.code()),
            _ => None,
        }
    }

    /// Whether the peer does not know who calls: it wants a credential, or another one.
    pub(crate) fn asks_for_credential(&self) -> bool {
        match self {
            Self::Peer(error) => error.code() == ErrorCode::Unauthenticated,
            Self::Status { status, .. } => *status == StatusCode::UNAUTHORIZED,
            _ => false,
        }
    }

    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self::BadAnswer(what.into())
    }

    /// An answer that is not what it should be, and why not.
    pub(crate) fn unreadable(error: &Error) -> Self {
        let cause = std::error::Error::source(error);
        Self::BadAnswer(cause.map_or_else(|| error.to_string(), ToString::to_string))
    }
}

/// An answer that cannot be read any further is the peer's.
impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        Self::Peer(error)
    }
}

/// What our own callers are told when we fail because a peer did.
impl From<ClientError> for Error {
    fn from(failed: ClientError) -> Self {
        let code = match &failed {
            ClientError::Peer(_) => ErrorCode::Internal,
            ClientError::Connect { .. }
            | ClientError::TimedOut { .. }
            | ClientError::Cut { .. }
            | ClientError::StreamCut { .. } => ErrorCode::Unavailable,
            ClientError::Status { status, .. } => match status.as_u16() {
                401 => ErrorCode::Unauthenticated,
                403 => ErrorCode::PermissionDenied,
                429 => ErrorCode::ResourceExhausted,
                502..=504 => ErrorCode::Unavailable,
                _ => ErrorCode::InvalidAgentResponse,
            },
            ClientError::BadAnswer(_)
            | ClientError::BadEvent { .. }
            | ClientError::TooLarge { .. }
            | ClientError::NoInterface { .. }
            | ClientError::Untrusted(_) => ErrorCode::InvalidAgentResponse,
            ClientError::Configuration(_) | ClientError::Refused { .. } | ClientError::Intercepted(_) => {
                ErrorCode::Internal
            }
        };
        if let ClientError::Peer(error) = failed {
            return error;
        }
        let told = Self::new(code);
        let told = match failed.retry_after() {
            Some(wait) => told.retry_after(wait),
            None => told,
        };
        told.caused_by(failed)
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_repeated_is_told_from_what_may_not() {
        let connect = || ClientError::Connect { origin: "http://a".into(), source: "refused".into() };
        assert!(connect().is_retryable() && connect().was_never_sent());
        let late = ClientError::TimedOut { what: "the answer", after: Duration::from_secs(30) };
        assert!(late.is_retryable() && !late.was_never_sent());
        assert!(!ClientError::bad("x").is_retryable());
        let busy = Error::new(ErrorCode::Unavailable).retry_after(Duration::from_secs(2));
        let busy = ClientError::Peer(busy);
        assert!(busy.is_retryable() && busy.retry_after() == Some(Duration::from_secs(2)));
        assert!(!ClientError::Peer(Error::new(ErrorCode::TaskNotFound)).is_retryable());
        assert_eq!(Error::from(connect()).code(), ErrorCode::Unavailable);
        assert_eq!(Error::from(ClientError::bad("x")).code(), ErrorCode::InvalidAgentResponse);
    }

    #[test]
    fn our_callers_are_not_told_where_our_peers_are() {
        let told = Error::from(ClientError::Connect { origin: "http://inner".into(), source: "x".into() });
        assert!(!told.to_string().contains("inner"));
        assert!(format!("{told:?}").contains("inner"));
    }
}
