//! Errors that others wrote, read back: the `error` object of JSON-RPC and of HTTP+JSON alike.
//!
//! A peer's words are bounded and cleaned, since they end up in logs and in what we tell our own callers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::excerpt;
use crate::denied::{Denied, DeniedKind};
use crate::error::{ALL_ERROR_CODES, CHANCERY_DOMAIN, Error, ErrorCode, FieldViolation};

/// How much of a peer's message is kept.
const MAX_MESSAGE_CHARS: usize = 4096;
/// How much of any other text of a peer's is kept.
const MAX_FACT_CHARS: usize = 1024;
/// How many facts, and how many wrong fields, are kept.
const MAX_FACTS: usize = 64;

/// JSON-RPC says `data` what HTTP+JSON says `details`; the sign of `code` tells the two kinds of number apart.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(default)]
    code: Option<i64>,
    #[serde(default, borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    message: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    details: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(rename = "@type", default)]
    kind: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    field_violations: Vec<WireViolation>,
    #[serde(default)]
    retry_delay: String,
}

#[derive(Deserialize)]
struct WireViolation {
    #[serde(default)]
    field: String,
    #[serde(default)]
    description: String,
}

/// What the details of an error add up to.
#[derive(Default)]
struct Gathered {
    reason: String,
    domain: String,
    metadata: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
}

/// What the numbers of JSON-RPC mean in a version, where that is not what they mean in v1.0.
pub type ErrorNumbers = fn(i64) -> Option<ErrorCode>;

impl Error {
    /// Reads an `error` object; none if it is no such thing.
    pub fn decode(json: &[u8]) -> Option<Self> {
        Self::decode_by(json, |_| None)
    }

    /// The same, for a version with numbers of its own.
    pub fn decode_by(json: &[u8], numbers: ErrorNumbers) -> Option<Self> {
        let wire: Wire<'_> = serde_json::from_slice(json).ok()?;
        if wire.code.is_none() && wire.message.is_none() {
            return None;
        }
        let gathered = Gathered::read(wire.details.or(wire.data));
        let code = gathered.code(wire.code, wire.status.as_deref(), numbers);
        let message = wire.message.map(|text| excerpt(&text, MAX_MESSAGE_CHARS)).unwrap_or_default();
        let mut error = if message.is_empty() { Self::new(code) } else { Self::with_message(code, message) };
        gathered.complete(&mut error);
        Some(error)
    }
}

// === impl Gathered ===

impl Gathered {
    fn read(details: Option<&RawValue>) -> Self {
        let mut gathered = Self::default();
        // Older peers put anything there, so a detail that is none is passed over.
        let details: Vec<&RawValue> =
            details.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for raw in details.into_iter().take(MAX_FACTS) {
            let detail: Detail = serde_json::from_str(raw.get()).unwrap_or_default();
            match detail.kind.rsplit(['.', '/']).next().unwrap_or_default() {
                "ErrorInfo" => {
                    gathered.reason = excerpt(&detail.reason, MAX_FACT_CHARS);
                    gathered.domain = detail.domain;
                    gathered.metadata = detail.metadata;
                }
                "BadRequest" => gathered.violations.extend(
                    detail.field_violations.into_iter().take(MAX_FACTS).map(|violation| FieldViolation {
                        field: excerpt(&violation.field, MAX_FACT_CHARS),
                        description: excerpt(&violation.description, MAX_FACT_CHARS),
                    }),
                ),
                "RetryInfo" => gathered.retry_after = duration(&detail.retry_delay),
                _ => {}
            }
        }
        gathered.violations.truncate(MAX_FACTS);
        gathered
    }

    /// The reason decides; without one that is known, the number does.
    fn code(&self, number: Option<i64>, status: Option<&str>, numbers: ErrorNumbers) -> ErrorCode {
        let is_refusal = self.is_ours() && self.metadata.contains_key("gate");
        let by_reason = ALL_ERROR_CODES.iter().copied().find(|code| code.row().reason == self.reason);
        if let Some(code) = by_reason {
            return code;
        }
        match number {
            // What is unavailable has the number of what is internal; no gate ever refuses for that.
            Some(-32603) if is_refusal => ErrorCode::Unavailable,
            Some(number) if number < 0 => numbers(number).unwrap_or_else(|| by_jsonrpc(number)),
            Some(400) if is_refusal => ErrorCode::LineageRefused,
            number => by_status(number.unwrap_or_default(), status.unwrap_or_default()),
        }
    }

    fn is_ours(&self) -> bool {
        self.domain.eq_ignore_ascii_case(CHANCERY_DOMAIN)
    }

    fn complete(mut self, error: &mut Error) {
        let is_ours = self.is_ours();
        error.0.violations = self.violations;
        error.0.retry_after = self.retry_after;
        if is_ours {
            error.0.denied = denied(&self.reason, &mut self.metadata, error.code(), self.retry_after);
            error.0.reason = Some(Cow::Owned(self.reason));
        }
        error.0.metadata = match &error.0.denied {
            Some(denied) => denied.facts(),
            None => Vec::new(),
        };
        let rest = self.metadata.into_iter().take(MAX_FACTS);
        error.0.metadata.extend(rest.map(|(key, value)| {
            (Cow::Owned(excerpt(&key, MAX_FACT_CHARS)), excerpt(&value, MAX_FACT_CHARS))
        }));
    }
}

/// A refusal by a gate, taken out of the facts that told it.
fn denied(
    reason: &str,
    facts: &mut BTreeMap<String, String>,
    code: ErrorCode,
    retry_after: Option<Duration>,
) -> Option<Denied> {
    let kind = DeniedKind::ALL.into_iter().find(|kind| kind.code() == code)?;
    let mut take = |name: &str| facts.remove(name).map(|text| excerpt(&text, MAX_FACT_CHARS));
    let mut denied = Denied::new(take("gate")?, kind, reason.to_owned());
    denied.limit = take("limit");
    denied.observed = take("observed");
    denied.remaining = take("remaining");
    denied.hint = take("hint");
    denied.retry_after = retry_after;
    Some(denied)
}

fn by_jsonrpc(number: i64) -> ErrorCode {
    let known = ALL_ERROR_CODES.iter().copied().find(|code| i64::from(code.row().jsonrpc) == number);
    known.unwrap_or(ErrorCode::Internal)
}

/// The status alone says little: the nearest code that claims no more than it does.
fn by_status(number: i64, status: &str) -> ErrorCode {
    match (number, status) {
        (_, "UNAUTHENTICATED") | (401, _) => ErrorCode::Unauthenticated,
        (_, "PERMISSION_DENIED") | (403, _) => ErrorCode::PermissionDenied,
        (_, "RESOURCE_EXHAUSTED") | (429, _) => ErrorCode::ResourceExhausted,
        (_, "UNAVAILABLE") | (502..=504, _) => ErrorCode::Unavailable,
        (_, "UNIMPLEMENTED") | (404 | 405 | 501, _) => ErrorCode::MethodNotFound,
        (_, "FAILED_PRECONDITION") => ErrorCode::UnsupportedOperation,
        (_, "INVALID_ARGUMENT") | (400 | 422, _) => ErrorCode::InvalidParams,
        (415, _) => ErrorCode::ContentTypeNotSupported,
        _ => ErrorCode::Internal,
    }
}

/// A `google.protobuf.Duration` as JSON: seconds with up to nine decimals, and an `s`.
fn duration(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.strip_suffix('s').map(|text| text.split_once('.').unwrap_or((text, "")))?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{RequestId, write_error};

    /// Through the wire of JSON-RPC and back.
    fn back(error: &Error) -> Error {
        let mut body = Vec::new();
        write_error(&mut body, &RequestId::NULL, error);
        let object: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&body).unwrap();
        Error::decode(object["error"].get().as_bytes()).unwrap()
    }

    fn details(error: &Error) -> String {
        serde_json::to_string(&error.details()).unwrap()
    }

    #[test]
    fn every_code_comes_back_as_itself() {
        for code in ALL_ERROR_CODES {
            let error = Error::with_message(code, "précise").about("taskId", "t").about("a", "b");
            let read = back(&error.retry_after(Duration::from_millis(1500)));
            assert_eq!((read.code(), read.message()), (code, "précise"));
            assert_eq!(read.wait(), Some(Duration::from_millis(1500)));
            assert_eq!(read.fact("taskId"), Some("t"));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_error_comes_back_as_it_was(
            at in 0..ALL_ERROR_CODES.len(),
            message in "[ -~é漢]{1,80}",
            facts in proptest::collection::btree_map("[a-z]{1,8}", "[ -~]{0,40}", 0..4),
            fields in proptest::collection::vec(("[a-z.]{0,12}", "[ -~]{0,40}"), 0..4),
            wait in proptest::option::of(0u64..1_000_000),
        ) {
            let mut error = Error::with_message(ALL_ERROR_CODES[at], message);
            error.0.metadata = facts.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect();
            error.0.violations =
                fields.into_iter().map(|(field, description)| FieldViolation { field, description }).collect();
            error.0.retry_after = wait.map(Duration::from_millis);
            let read = back(&error);
            proptest::prop_assert_eq!((read.code(), read.message()), (error.code(), error.message()));
            proptest::prop_assert_eq!(details(&read), details(&error));
        }

        #[test]
        fn nothing_that_a_peer_writes_panics(json in "\\PC{0,64}") {
            let wrapped = format!(r#"{{"code":-32000,"message":"x","data":[{json}]}}"#);
            let read = [Error::decode(json.as_bytes()), Error::decode(wrapped.as_bytes())];
            proptest::prop_assert!(read.into_iter().flatten().all(|error| !error.message().is_empty()));
        }
    }

    #[test]
    fn wrong_fields_come_back() {
        let error = Error::invalid_field("message.parts", "must not be empty");
        let read = back(&error);
        assert_eq!(read.violations(), error.violations());
        assert_eq!(details(&read), details(&error));
    }

    #[test]
    fn a_refusal_comes_back_as_one() {
        for kind in DeniedKind::ALL {
            let mut denied = Denied::new("budget", kind, "BUDGET_EXCEEDED");
            denied.limit = Some("5 USD".to_owned());
            denied.remaining = Some("0 USD".to_owned());
            denied.hint = Some("ask for more".to_owned());
            denied.retry_after = Some(Duration::from_secs(60));
            let read = back(&Error::from(denied.clone()));
            assert_eq!(read.denied(), Some(&denied));
            assert_eq!(read.reason(), "BUDGET_EXCEEDED");
            assert_eq!(details(&read), details(&Error::from(denied)));
        }
    }

    #[test]
    fn what_older_peers_write_is_read_too() {
        let read = |json: &str| Error::decode(json.as_bytes()).map(|error| error.code());
        assert_eq!(
            read(r#"{"code":-32001,"message":"x","data":"free text"}"#),
            Some(ErrorCode::TaskNotFound)
        );
        assert_eq!(read(r#"{"code":-32099,"message":"x","data":{"a":[]}}"#), Some(ErrorCode::Internal));
        assert_eq!(
            read(r#"{"code":404,"status":"NOT_FOUND","message":"x"}"#),
            Some(ErrorCode::MethodNotFound)
        );
        assert_eq!(
            read(r#"{"code":503,"message":"x","details":[7,{"@type":1}]}"#),
            Some(ErrorCode::Unavailable)
        );
        assert_eq!(read(r#"{"message":"x"}"#), Some(ErrorCode::Internal));
        for json in ["{}", "[]", "7", "", r#"{"code":"x"}"#] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn a_peer_cannot_flood_us() {
        let long = "y".repeat(100_000);
        let facts: Vec<_> = (0..1000).map(|i| format!(r#""k{i}":"{long}""#)).take(200).collect();
        let json = format!(
            r#"{{"code":-32603,"message":"\u0007{long}","data":[{{"@type":"x/google.rpc.ErrorInfo","metadata":{{{}}}}}]}}"#,
            facts.join(",")
        );
        let error = Error::decode(json.as_bytes()).unwrap();
        assert_eq!(error.message().len(), MAX_MESSAGE_CHARS);
        assert!(details(&error).len() < 2 * MAX_FACTS * MAX_FACT_CHARS);
    }

    #[test]
    fn durations_are_read_as_protojson_has_them() {
        assert_eq!(duration("3s"), Some(Duration::from_secs(3)));
        assert_eq!(duration("0.000000001s"), Some(Duration::from_nanos(1)));
        for text in ["", "s", "3", "-1s", "1.1234567890s", "+1s", "99999999999999999999s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
