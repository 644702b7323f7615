//! What callers are told when the agent behind a relay does not do what it should.

use std::time::Duration;

use chancery_protocol::{CHANCERY_DOMAIN, Error, ErrorCode};

use crate::agent::Sent;
use crate::client::ClientError;
use crate::runtime::chain;

/// Why a task ends here although the agent has not ended it. Its caller reads this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    BrokeProtocol,
    Forgotten,
    OutOfReach,
    TooLarge,
}

impl Breach {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::BrokeProtocol => "The agent behind this one answered what the protocol does not allow",
            Self::Forgotten => "The agent behind this one no longer knows this task",
            Self::OutOfReach => "The agent behind this one cannot be reached any more",
            Self::TooLarge => "The agent behind this one has made more of this task than can be kept here",
        }
    }

    pub(super) fn error(self) -> Error {
        let code = match self {
            Self::BrokeProtocol => ErrorCode::InvalidAgentResponse,
            Self::Forgotten => ErrorCode::TaskNotFound,
            Self::OutOfReach => ErrorCode::Unavailable,
            Self::TooLarge => ErrorCode::ResourceExhausted,
        };
        Error::with_message(code, self.text())
    }

    /// What a failed call says about a task that has begun; none if it is to be tried again.
    pub(super) fn of(failed: &ClientError) -> Option<Self> {
        match failed {
            ClientError::BadAnswer(_) => Some(Self::BrokeProtocol),
            ClientError::TooLarge { .. } => Some(Self::TooLarge),
            ClientError::Peer(error) if error.code() == ErrorCode::TaskNotFound => Some(Self::Forgotten),
            _ => None,
        }
    }
}

/// How far a call had come that failed, for what it is charged.
pub(super) fn fate(failed: &ClientError) -> Sent {
    match failed {
        ClientError::Peer(_) | ClientError::Status { .. } => Sent::Answered,
        failed if failed.was_never_sent() => Sent::Never,
        _ => Sent::Unanswered,
    }
}

/// Whether the agent, or the task as it stands, cannot be watched.
pub(super) fn cannot_be_watched(failed: &ClientError) -> bool {
    matches!(failed.code(), Some(ErrorCode::UnsupportedOperation | ErrorCode::MethodNotFound))
}

/// For how long an agent elsewhere may have our callers wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What our own caller is told. What the agent says about the call is passed on, in whatever way the caller speaks;
/// what it says about us is not the caller's business.
pub(super) fn told(failed: ClientError) -> Error {
    let error = translated(failed);
    match error.wait() {
        Some(wait) => error.retry_after(wait.min(LONGEST_WAIT)),
        None => error,
    }
}

fn translated(failed: ClientError) -> Error {
    let failed = unquoted(failed);
    let code = match &failed {
        ClientError::Peer(error) => error.code(),
        ClientError::Status { status, .. } if status.as_u16() == 401 => ErrorCode::Unauthenticated,
        ClientError::Status { status, .. } if status.as_u16() == 403 => ErrorCode::PermissionDenied,
        _ => return unanswered(failed),
    };
    match code {
        ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => {
            if code == ErrorCode::PermissionDenied {
                tracing::error!(error = %failed, "an agent allows this server nothing with its credential; set or change it");
            }
            let text =
                "The agent behind this one refuses this server's credential; its operator has to change it";
            Error::with_message(ErrorCode::Internal, text).caused_by(failed)
        }
        ErrorCode::MethodNotFound => Error::new(ErrorCode::UnsupportedOperation).caused_by(failed),
        ErrorCode::VersionNotSupported | ErrorCode::ParseError => {
            Breach::BrokeProtocol.error().caused_by(failed)
        }
        _ => in_its_own_name(failed.into()),
    }
}

/// The same without what the agent has said that our caller is not told: it goes to the log, and may repeat what the agent was
/// sent, credentials included.
fn unquoted(failed: ClientError) -> ClientError {
    match failed {
        ClientError::Status { status, retry_after, .. } => {
            ClientError::Status { status, body: String::new(), retry_after }
        }
        ClientError::Peer(error)
            if matches!(error.code(), ErrorCode::Unauthenticated | ErrorCode::PermissionDenied) =>
        {
            ClientError::Peer(Error::new(error.code()))
        }
        failed => failed,
    }
}

/// An error of an agent that could be taken for a refusal of ours is one of the agent's: nothing in it is our word.
fn in_its_own_name(error: Error) -> Error {
    if !sounds_like_ours(&error) {
        return error;
    }
    let text = format!("The agent behind this one refuses the call: {}", error.message());
    let wait = error.wait();
    later(Error::with_message(error.code(), text).caused_by(error), wait)
}

/// An error that says when to try again, if that is known.
fn later(error: Error, wait: Option<Duration>) -> Error {
    match wait {
        Some(wait) => error.retry_after(wait),
        None => error,
    }
}

/// Whether an error has our domain, a code of ours, what only a gate says, or the words in which a gate refuses.
fn sounds_like_ours(error: &Error) -> bool {
    let is_our_code = !error.code().is_a2a() && error.code().row().jsonrpc > FIRST_OF_JSON_RPC;
    let says_so = || error.message().to_ascii_lowercase().contains("denied by gate");
    error.domain() == CHANCERY_DOMAIN || is_our_code || error.fact("gate").is_some() || says_so()
}

/// The codes between this one and the positive ones are ours.
const FIRST_OF_JSON_RPC: i32 = -32000;

/// Nobody answered, or nothing that could be read.
fn unanswered(failed: ClientError) -> Error {
    match failed {
        // The fault itself has been told.
        ClientError::BadAnswer(_) | ClientError::BadEvent { .. } => {}
        _ => tracing::warn!(error = chain(&failed), "a call was not relayed"),
    }
    if let ClientError::Untrusted(why) = &failed {
        let text = format!("The agent behind this one is not called, since its card is not trusted: {why}");
        return Error::with_message(ErrorCode::InvalidAgentResponse, text).caused_by(failed);
    }
    if let ClientError::Refused { .. } = &failed {
        let text = "The agent behind this one names an address that this server may not call";
        return Error::with_message(ErrorCode::InvalidAgentResponse, text).caused_by(failed);
    }
    let after = failed.retry_after();
    let error: Error = failed.into();
    let text = match error.code() {
        ErrorCode::Unavailable => {
            "The agent behind this one cannot be reached at the moment; try again later"
        }
        ErrorCode::InvalidAgentResponse => Breach::BrokeProtocol.text(),
        // A bare 429 has the code by which we refuse ourselves.
        ErrorCode::ResourceExhausted => return in_its_own_name(error),
        _ => return error,
    };
    later(Error::with_message(error.code(), text).caused_by(error), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_about_the_call_is_passed_on() {
        let peer = |code| told(ClientError::Peer(Error::with_message(code, "as the agent says")));
        for code in [
            ErrorCode::ContentTypeNotSupported,
            ErrorCode::InvalidParams,
            ErrorCode::ExtensionSupportRequired,
        ] {
            let error = peer(code);
            assert_eq!((error.code(), error.message()), (code, "as the agent says"));
        }
        assert_eq!(peer(ErrorCode::MethodNotFound).code(), ErrorCode::UnsupportedOperation);
        assert_eq!(peer(ErrorCode::VersionNotSupported).code(), ErrorCode::InvalidAgentResponse);
    }

    #[test]
    fn a_refusal_in_our_name_becomes_the_agents_own() {
        let json = r#"{"code":-31429,"message":"denied by gate `budget`: BUDGET_EXCEEDED","data":[
            {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BUDGET_EXCEEDED","domain":"chancery","metadata":{"gate":"any label"}},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}"#;
        let peers = Error::decode(json.as_bytes()).expect("it can be read");
        assert!(peers.denied().is_some());
        let error = told(ClientError::Peer(peers));
        assert_eq!(
            (error.code(), error.wait()),
            (ErrorCode::ResourceExhausted, Some(Duration::from_secs(7)))
        );
        assert!(error.denied().is_none() && error.domain() != CHANCERY_DOMAIN, "{error:?}");
        assert!(error.message().starts_with("The agent behind this one refuses"), "{error}");
    }

    #[test]
    fn what_could_be_taken_for_ours_is_said_to_be_the_agents() {
        let info = |code: i32, message: &str, domain: &str, fact: &str| {
            format!(
                r#"{{"code":{code},"message":"{message}","data":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo",
                "reason":"ANY","domain":"{domain}","metadata":{{"{fact}":"x"}}}},
                {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"999999999s"}}]}}"#
            )
        };
        for json in [
            info(-32602, "Denied by gate `budget`", "other.example", "k"),
            info(-32602, "no", "other.example", "gate"),
            info(-32602, "no", "Chancery", "k"),
            info(-31429, "no", "other.example", "k"),
            info(-31429, "no", "CHANCERY", "gate"),
            info(-31508, "no", "a2a-protocol.org", "k"),
            r#"{"code":-31429,"message":"no"}"#.to_owned(),
        ] {
            let error = told(ClientError::Peer(Error::decode(json.as_bytes()).expect("it can be read")));
            assert!(error.message().starts_with("The agent behind this one refuses"), "{json}: {error}");
            assert!(error.domain() != CHANCERY_DOMAIN && error.fact("gate").is_none(), "{json}: {error:?}");
            assert!(error.wait().is_none_or(|wait| wait == LONGEST_WAIT), "{json}");
        }
        let bare = told(ClientError::Status {
            status: http::StatusCode::TOO_MANY_REQUESTS,
            body: String::new(),
            retry_after: Some(Duration::MAX),
        });
        assert!(bare.message().starts_with("The agent behind this one refuses"), "{bare}");
        assert_eq!(bare.wait(), Some(LONGEST_WAIT));
    }

    #[test]
    fn what_the_agent_says_about_us_is_not() {
        for code in [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied] {
            let error = told(ClientError::Peer(Error::with_message(code, "your token is stale")));
            assert_eq!(error.code(), ErrorCode::Internal);
            assert!(!error.message().contains("token"));
        }
    }
}
