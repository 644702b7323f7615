//! Failures as the protocol knows them, and the one table that says how each looks on every binding.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::decode::excerpt;
use crate::denied::Denied;

/// The domain of the protocol's own errors.
pub const DOMAIN: &str = "a2a-protocol.org";
/// The domain of errors that only Chancery has.
pub const CHANCERY_DOMAIN: &str = "chancery";

/// What kind of failure it is. Each has one row in the table below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The task does not exist, or not for this caller: the two are never told apart.
    TaskNotFound,
    /// The task has already ended.
    TaskNotCancelable,
    /// The agent does not post notifications.
    PushNotificationNotSupported,
    /// The agent, or the task in its state, does not do this.
    UnsupportedOperation,
    /// The agent does not take this media type.
    ContentTypeNotSupported,
    /// An agent answered what the protocol does not allow.
    InvalidAgentResponse,
    /// The card promises an extended card, and there is none.
    ExtendedAgentCardNotConfigured,
    /// The agent requires an extension that the client did not declare.
    ExtensionSupportRequired,
    /// The protocol version is not served here.
    VersionNotSupported,
    /// The body is not JSON.
    ParseError,
    /// The body is JSON, but not a request.
    InvalidRequest,
    /// There is no such operation.
    MethodNotFound,
    /// The operation's parameters are wrong.
    InvalidParams,
    /// Something failed on our side.
    Internal,
    /// Nobody knows who is calling.
    Unauthenticated,
    /// The caller may not do this.
    PermissionDenied,
    /// A limit on size, rate or spend is reached.
    ResourceExhausted,
    /// Temporarily not possible; try again.
    Unavailable,
    /// The call chain is too deep or returns to where it has been.
    LineageRefused,
}

/// How an [`ErrorCode`] looks on the wire.
#[derive(Debug)]
pub struct ErrorRow {
    /// `ErrorInfo.reason`.
    pub reason: &'static str,
    /// The JSON-RPC code.
    pub jsonrpc: i32,
    /// The HTTP status, on HTTP+JSON.
    pub http: StatusCode,
    /// The gRPC code and its name.
    pub grpc: (i32, &'static str),
    /// What is said when there is nothing more precise to say.
    pub message: &'static str,
}

/// A failure with everything a caller may know about it. What only the log may know is its source.
pub struct Error(pub(crate) Box<Inner>);

pub(crate) struct Inner {
    code: ErrorCode,
    message: Cow<'static, str>,
    pub(crate) reason: Option<Cow<'static, str>>,
    pub(crate) metadata: Vec<Fact>,
    pub(crate) violations: Vec<FieldViolation>,
    pub(crate) denied: Option<Denied>,
    pub(crate) retry_after: Option<Duration>,
    challenge: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// An entry of `ErrorInfo.metadata`.
pub(crate) type Fact = (Cow<'static, str>, String);

/// A field of a request that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FieldViolation {
    /// Its path, such as `message.parts[0].raw`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// The `details` (gRPC, HTTP+JSON) or `data` (JSON-RPC) of an error: an array of `@type` objects.
#[derive(Debug)]
pub struct Details<'a>(&'a Error);

// === the table ===

const INVALID_ARGUMENT: (i32, &str) = (3, "INVALID_ARGUMENT");
const NOT_FOUND: (i32, &str) = (5, "NOT_FOUND");
const PERMISSION_DENIED: (i32, &str) = (7, "PERMISSION_DENIED");
const RESOURCE_EXHAUSTED: (i32, &str) = (8, "RESOURCE_EXHAUSTED");
const FAILED_PRECONDITION: (i32, &str) = (9, "FAILED_PRECONDITION");
const UNIMPLEMENTED: (i32, &str) = (12, "UNIMPLEMENTED");
const INTERNAL: (i32, &str) = (13, "INTERNAL");
const UNAVAILABLE: (i32, &str) = (14, "UNAVAILABLE");
const UNAUTHENTICATED: (i32, &str) = (16, "UNAUTHENTICATED");

const fn row(
    reason: &'static str,
    jsonrpc: i32,
    http: StatusCode,
    grpc: (i32, &'static str),
    message: &'static str,
) -> ErrorRow {
    ErrorRow { reason, jsonrpc, http, grpc, message }
}

#[rustfmt::skip]
const fn table(code: ErrorCode) -> &'static ErrorRow {
    use ErrorCode as E;
    use StatusCode as S;
    macro_rules! r { ($($field:expr),*) => { const { &row($($field),*) } } }
    match code {
        E::TaskNotFound => r!("TASK_NOT_FOUND", -32001, S::NOT_FOUND, NOT_FOUND, "Task not found"),
        E::TaskNotCancelable => r!("TASK_NOT_CANCELABLE", -32002, S::BAD_REQUEST, FAILED_PRECONDITION, "Task cannot be canceled"),
        E::PushNotificationNotSupported => r!("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, S::BAD_REQUEST, FAILED_PRECONDITION, "Push notifications are not supported"),
        E::UnsupportedOperation => r!("UNSUPPORTED_OPERATION", -32004, S::BAD_REQUEST, FAILED_PRECONDITION, "This operation is not supported"),
        E::ContentTypeNotSupported => r!("CONTENT_TYPE_NOT_SUPPORTED", -32005, S::BAD_REQUEST, INVALID_ARGUMENT, "Content type not supported"),
        E::InvalidAgentResponse => r!("INVALID_AGENT_RESPONSE", -32006, S::INTERNAL_SERVER_ERROR, INTERNAL, "Invalid agent response"),
        E::ExtendedAgentCardNotConfigured => r!("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, S::BAD_REQUEST, FAILED_PRECONDITION, "No extended agent card is configured"),
        E::ExtensionSupportRequired => r!("EXTENSION_SUPPORT_REQUIRED", -32008, S::BAD_REQUEST, FAILED_PRECONDITION, "A required extension was not declared"),
        E::VersionNotSupported => r!("VERSION_NOT_SUPPORTED", -32009, S::BAD_REQUEST, FAILED_PRECONDITION, "Protocol version not supported"),
        E::ParseError => r!("PARSE_ERROR", -32700, S::BAD_REQUEST, INVALID_ARGUMENT, "Invalid JSON payload"),
        E::InvalidRequest => r!("INVALID_REQUEST", -32600, S::BAD_REQUEST, INVALID_ARGUMENT, "Request payload validation error"),
        E::MethodNotFound => r!("METHOD_NOT_FOUND", -32601, S::NOT_FOUND, UNIMPLEMENTED, "Method not found"),
        E::InvalidParams => r!("INVALID_PARAMS", -32602, S::BAD_REQUEST, INVALID_ARGUMENT, "Invalid parameters"),
        E::Internal => r!("INTERNAL", -32603, S::INTERNAL_SERVER_ERROR, INTERNAL, "Internal error"),
        E::Unauthenticated => r!("UNAUTHENTICATED", -31401, S::UNAUTHORIZED, UNAUTHENTICATED, "Authentication required"),
        E::PermissionDenied => r!("PERMISSION_DENIED", -31403, S::FORBIDDEN, PERMISSION_DENIED, "Not allowed"),
        E::ResourceExhausted => r!("RESOURCE_EXHAUSTED", -31429, S::TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED, "A limit is reached"),
        E::Unavailable => r!("UNAVAILABLE", -32603, S::SERVICE_UNAVAILABLE, UNAVAILABLE, "Temporarily unavailable"),
        E::LineageRefused => r!("LINEAGE_REFUSED", -31508, S::BAD_REQUEST, FAILED_PRECONDITION, "The call chain is refused"),
    }
}

/// Every code, for those who walk the table.
pub const ALL_ERROR_CODES: [ErrorCode; 19] = [
    ErrorCode::TaskNotFound,
    ErrorCode::TaskNotCancelable,
    ErrorCode::PushNotificationNotSupported,
    ErrorCode::UnsupportedOperation,
    ErrorCode::ContentTypeNotSupported,
    ErrorCode::InvalidAgentResponse,
    ErrorCode::ExtendedAgentCardNotConfigured,
    ErrorCode::ExtensionSupportRequired,
    ErrorCode::VersionNotSupported,
    ErrorCode::ParseError,
    ErrorCode::InvalidRequest,
    ErrorCode::MethodNotFound,
    ErrorCode::InvalidParams,
    ErrorCode::Internal,
    ErrorCode::Unauthenticated,
    ErrorCode::PermissionDenied,
    ErrorCode::ResourceExhausted,
    ErrorCode::Unavailable,
    ErrorCode::LineageRefused,
];

// === impl ErrorCode ===

impl ErrorCode {
    /// How it looks on the wire.
    pub const fn row(self) -> &'static ErrorRow {
        table(self)
    }

    /// Whether the protocol itself defines it.
    pub fn is_a2a(self) -> bool {
        (-32099..=-32001).contains(&self.row().jsonrpc)
    }
}

// === impl Error ===

impl Error {
    /// A failure of this kind, with the table's own words.
    pub fn new(code: ErrorCode) -> Self {
        Self::with_message(code, code.row().message)
    }

    /// A failure of this kind, said more precisely. The text goes to the caller.
    pub fn with_message(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            reason: None,
            metadata: Vec::new(),
            violations: Vec::new(),
            denied: None,
            retry_after: None,
            challenge: None,
            source: None,
        }))
    }

    /// A field that is wrong.
    pub fn invalid_field(field: impl Into<String>, description: impl Into<String>) -> Self {
        let violation = FieldViolation { field: field.into(), description: description.into() };
        let mut error = Self::with_message(
            ErrorCode::InvalidParams,
            if violation.field.is_empty() {
                format!("Invalid parameters: {}", violation.description)
            } else {
                format!("Invalid parameters: {}: {}", violation.field, violation.description)
            },
        );
        error.0.violations.push(violation);
        error
    }

    /// A failure of ours. The caller learns nothing but that it happened; the cause is for the log.
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorCode::Internal).caused_by(source)
    }

    /// The task does not exist for this caller.
    pub fn task_not_found(id: &crate::id::TaskId) -> Self {
        Self::new(ErrorCode::TaskNotFound).about("taskId", excerpt(id.as_str(), 256))
    }

    /// Adds a fact to `ErrorInfo.metadata`.
    #[must_use]
    pub fn about(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.metadata.push((Cow::Borrowed(key), value.into()));
        self
    }

    /// Replaces the table's reason by one of Chancery's own.
    #[must_use]
    pub fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.0.reason = Some(reason.into());
        self
    }

    /// Says when trying again makes sense.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Says how to prove who one is: what stands in `WWW-Authenticate` (RFC 9110).
    #[must_use]
    pub fn challenge(mut self, challenge: &'static str) -> Self {
        self.0.challenge = Some(challenge);
        self
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same, with another name for something: in the facts, and where it is a word of the message.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        let word = |word| if word == from { to } else { word };
        if self.0.message.contains(from) {
            self.0.message = Cow::Owned(self.0.message.split(' ').map(word).collect::<Vec<_>>().join(" "));
        }
        for (_, value) in &mut self.0.metadata {
            if value == from {
                to.clone_into(value);
            }
        }
        self
    }

    /// What kind of failure it is.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// What the caller is told.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// `ErrorInfo.reason`.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or(self.code().row().reason)
    }

    /// `ErrorInfo.domain`.
    pub fn domain(&self) -> &'static str {
        if self.0.denied.is_some() || self.0.reason.is_some() { CHANCERY_DOMAIN } else { DOMAIN }
    }

    /// A fact of `ErrorInfo.metadata`, by its key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.0.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The fields that are wrong.
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// The gate's decision, if one refused the call.
    pub fn denied(&self) -> Option<&Denied> {
        self.0.denied.as_ref()
    }

    /// When trying again makes sense.
    pub fn wait(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How to prove who one is, if that is what is missing.
    pub fn challenged(&self) -> Option<&'static str> {
        let usual = (self.code() == ErrorCode::Unauthenticated).then_some("Bearer");
        self.0.challenge.or(usual)
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.code(), ErrorCode::ResourceExhausted | ErrorCode::Unavailable)
    }

    /// For JSON-RPC's `data` and HTTP+JSON's `details`.
    pub fn details(&self) -> Details<'_> {
        Details(self)
    }
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        let mut error =
            Self::with_message(denied.kind.code(), denied.to_string()).because(denied.reason.clone());
        error.0.retry_after = denied.retry_after;
        error.0.metadata = denied.facts();
        error.0.denied = Some(denied);
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

// === impl Details ===

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = self.0;
        let mut details = serializer.serialize_seq(None)?;
        details.serialize_element(&ErrorInfo(error))?;
        if !error.0.violations.is_empty() {
            details.serialize_element(&BadRequest {
                kind: "type.googleapis.com/google.rpc.BadRequest",
                field_violations: &error.0.violations,
            })?;
        }
        if let Some(wait) = error.0.retry_after {
            details.serialize_element(&RetryInfo {
                kind: "type.googleapis.com/google.rpc.RetryInfo",
                retry_delay: format!("{}.{:03}s", wait.as_secs(), wait.subsec_millis()),
            })?;
        }
        details.end()
    }
}

struct ErrorInfo<'a>(&'a Error);

impl Serialize for ErrorInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut info = serializer.serialize_map(None)?;
        info.serialize_entry("@type", "type.googleapis.com/google.rpc.ErrorInfo")?;
        info.serialize_entry("reason", self.0.reason())?;
        info.serialize_entry("domain", self.0.domain())?;
        if !self.0.0.metadata.is_empty() {
            info.serialize_entry("metadata", &Facts(&self.0.0.metadata))?;
        }
        info.end()
    }
}

struct Facts<'a>(&'a [Fact]);

impl Serialize for Facts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct BadRequest<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    field_violations: &'a [FieldViolation],
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryInfo {
    #[serde(rename = "@type")]
    kind: &'static str,
    retry_delay: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_a2a_codes_are_unique() {
        let mut reasons: Vec<_> = ALL_ERROR_CODES.iter().map(|code| code.row().reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!(reasons.len(), ALL_ERROR_CODES.len());
        assert_eq!(ALL_ERROR_CODES.iter().filter(|code| code.is_a2a()).count(), 9);
    }

    #[test]
    fn details_name_reason_domain_and_field() {
        let details =
            serde_json::to_string(&Error::invalid_field("message.parts", "must not be empty").details());
        assert_eq!(
            details.unwrap(),
            concat!(
                r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"},"#,
                r#"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.parts","description":"must not be empty"}]}]"#
            )
        );
    }

    #[test]
    fn causes_are_not_told() {
        let error = Error::internal("password is hunter2");
        assert!(!error.to_string().contains("hunter2"));
        assert!(!serde_json::to_string(&error.details()).unwrap().contains("hunter2"));
    }
}
