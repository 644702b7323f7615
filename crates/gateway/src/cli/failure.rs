//! How a command of the client fails: a code for programs, a sentence for people, an exit status for shells.
//!
//! Codes, statuses and the shape of the envelope are those of the A2A CLI specification.

use std::fmt;

use chancery_protocol::{Error, ErrorCode};
use chancery_sdk::ClientError;
use serde_json::{Value, json};

/// What went wrong, ready to be told.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usage,
    CardNotFound,
    CardInvalid,
    Unreachable,
    CredentialsMissing,
    AuthFailed,
    Timeout,
    Internal,
    /// The agent's own answer.
    Protocol(ErrorCode),
}

/// What a call was for, which decides what its failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum During {
    /// Finding the agent's card.
    Discovery,
    /// Anything after that.
    Call,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into(), hint: None }
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self { kind: Kind::Internal, message: message.into(), hint: None }
    }

    pub(super) fn timeout(message: impl Into<String>) -> Self {
        Self { kind: Kind::Timeout, message: message.into(), hint: None }
    }

    /// A failed call. Whether credentials went along tells a missing one from a wrong one.
    pub(super) fn of(error: &ClientError, during: During, has_credentials: bool) -> Self {
        let denied = if has_credentials { Kind::AuthFailed } else { Kind::CredentialsMissing };
        let kind = match error {
            ClientError::Configuration(_) => Kind::Usage,
            ClientError::Connect { .. }
            | ClientError::Refused { .. }
            | ClientError::Cut { .. }
            | ClientError::StreamCut { .. } => Kind::Unreachable,
            ClientError::TimedOut { .. } => Kind::Timeout,
            // The protocol has a name for it, though nobody was asked.
            ClientError::NoInterface { .. } => Kind::Protocol(ErrorCode::VersionNotSupported),
            ClientError::Status { status, .. } if matches!(status.as_u16(), 401 | 403) => denied,
            ClientError::Status { .. } if during == During::Discovery => Kind::CardNotFound,
            ClientError::BadAnswer(_) if during == During::Discovery => Kind::CardInvalid,
            ClientError::BadAnswer(_) | ClientError::BadEvent { .. } => {
                Kind::Protocol(ErrorCode::InvalidAgentResponse)
            }
            ClientError::Peer(error) => match error.code() {
                ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => denied,
                code => Kind::Protocol(code),
            },
            _ => Kind::Internal,
        };
        let message = causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { kind, message, hint: None }.with_hint_of(error)
    }

    /// What to do next.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn with_hint_of(self, error: &ClientError) -> Self {
        match (self.kind, error) {
            (Kind::CredentialsMissing, _) => self.hint("pass a token with --bearer, or set A2ACLI_BEARER"),
            (Kind::CardNotFound, _) => {
                self.hint("name the URL that the agent is mounted at, or that of its card")
            }
            (_, ClientError::NoInterface { .. }) => self.hint(
                "say another --a2a-version, or leave --transport out; `card get` shows what is offered",
            ),
            (_, ClientError::Refused { .. }) => {
                self.hint("if the address is one of yours, allow it with --allow-egress")
            }
            _ => self,
        }
    }

    /// The error envelope of the specification.
    pub(crate) fn envelope(&self) -> Value {
        let a2a_code = match self.kind {
            Kind::Protocol(code) => json!(code.row().jsonrpc),
            _ => Value::Null,
        };
        json!({ "error": {
            "code": self.code(), "message": self.message, "hint": self.hint, "a2aCode": a2a_code
        } })
    }

    fn code(&self) -> String {
        match self.kind {
            Kind::Usage => "A2ACLI_ERR_USAGE".to_owned(),
            Kind::CardNotFound => "A2ACLI_ERR_CARD_NOT_FOUND".to_owned(),
            Kind::CardInvalid => "A2ACLI_ERR_CARD_INVALID".to_owned(),
            Kind::Unreachable => "A2ACLI_ERR_UNREACHABLE".to_owned(),
            Kind::CredentialsMissing => "A2ACLI_ERR_CREDENTIALS_MISSING".to_owned(),
            Kind::AuthFailed => "A2ACLI_ERR_AUTH_FAILED".to_owned(),
            Kind::Timeout => "A2ACLI_ERR_TIMEOUT".to_owned(),
            Kind::Internal => "A2ACLI_ERR_INTERNAL".to_owned(),
            // `TASK_NOT_FOUND` is TaskNotFoundError.
            Kind::Protocol(code) => format!("{code:?}Error"),
        }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::CardNotFound | Kind::Unreachable => 3,
            Kind::CredentialsMissing | Kind::AuthFailed => 4,
            Kind::Timeout => 5,
            Kind::CardInvalid | Kind::Internal | Kind::Protocol(_) => 1,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("Error: {}\nMessage: {}\n", self.code(), printable(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("Hint: {hint}\n"));
        }
        text
    }
}

/// Text of others, on one line and without anything that a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn causes<'a>(error: &'a (dyn std::error::Error + 'static)) -> impl Iterator<Item = String> + 'a {
    // What the agent said is in the message already.
    std::iter::successors(error.source(), |error| error.source())
        .filter(|cause| !cause.is::<Error>())
        .map(ToString::to_string)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_means_different_things_at_different_times() {
        let bad = ClientError::BadAnswer("x".to_owned());
        let found = |during| {
            let failure = Failure::of(&bad, during, false);
            (failure.code(), failure.status())
        };
        assert_eq!(found(During::Discovery), ("A2ACLI_ERR_CARD_INVALID".to_owned(), 1));
        assert_eq!(found(During::Call), ("InvalidAgentResponseError".to_owned(), 1));
    }

    #[test]
    fn the_protocols_errors_keep_their_names() {
        let error = ClientError::Peer(Error::new(ErrorCode::TaskNotFound));
        let envelope = Failure::of(&error, During::Call, false).envelope();
        assert_eq!(envelope["error"]["code"], "TaskNotFoundError");
        assert_eq!(envelope["error"]["a2aCode"], -32001);
    }

    #[test]
    fn who_has_no_credentials_is_told_so() {
        let error = ClientError::Peer(Error::new(ErrorCode::Unauthenticated));
        assert_eq!(Failure::of(&error, During::Call, false).code(), "A2ACLI_ERR_CREDENTIALS_MISSING");
        assert_eq!(Failure::of(&error, During::Call, true).code(), "A2ACLI_ERR_AUTH_FAILED");
    }
}
