//! How a call ended: `grpc-status` and its companions, which stand in the trailers, or in the head if nothing else does.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chancery_protocol::{Details, Error, ErrorCode};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::protobuf::{from_json, rpc, to_json};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// It went well.
const OK: i32 = 0;
/// The caller does not wait any longer.
pub(crate) const DEADLINE_EXCEEDED: i32 = 4;

/// The names of the codes, by their number.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// How much of a text, and how many bytes of details, are put into trailers. Many readers take 8 KiB in all.
const MOST_CHARS: usize = 1024;
const MOST_DETAIL_BYTES: usize = 3072;

/// Visible ASCII stands for itself, but for the sign that the rest is written with.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Writers differ about padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

// === writing ===

/// It went well.
pub(crate) fn ok() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(STATUS, HeaderValue::from_static("0"));
    headers
}

/// It did not, for this reason.
pub(crate) fn put(headers: &mut HeaderMap, error: &Error) {
    put_as(headers, error.code().row().grpc.0, error);
}

/// The same, with a code of gRPC's own.
pub(crate) fn put_as(headers: &mut HeaderMap, code: i32, error: &Error) {
    headers.insert(STATUS, HeaderValue::from(code));
    let message: String = error.message().chars().take(MOST_CHARS).collect();
    let message = utf8_percent_encode(&message, ESCAPED).to_string();
    if let Ok(value) = HeaderValue::try_from(message) {
        headers.insert(MESSAGE, value);
    }
    let details = details(code, error).or_else(|| details(code, &Error::new(error.code())));
    if let Some(value) = details.and_then(|bytes| HeaderValue::try_from(STANDARD_NO_PAD.encode(bytes)).ok()) {
        headers.insert(DETAILS, value);
    }
}

/// `google.rpc.Status`, unless it is too large to be sent.
fn details(code: i32, error: &Error) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Status<'a> {
        code: i32,
        message: &'a str,
        details: Details<'a>,
    }
    let message = if error.message().len() > MOST_CHARS { "" } else { error.message() };
    let json = serde_json::to_vec(&Status { code, message, details: error.details() }).ok()?;
    let mut bytes = Vec::with_capacity(json.len());
    from_json(&mut bytes, &rpc::STATUS, &json).ok()?;
    (bytes.len() <= MOST_DETAIL_BYTES).then_some(bytes)
}

// === reading ===

/// What trailers, or a head, say about how the call ended; none if they say nothing.
pub(crate) fn read(headers: &HeaderMap) -> Option<Result<(), Error>> {
    let code: i32 = headers.get(STATUS)?.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    if code == OK {
        return Some(Ok(()));
    }
    let message = headers.get(MESSAGE).map(|value| percent_decode(value.as_bytes()).decode_utf8_lossy());
    let told = headers.get(DETAILS).and_then(|value| LENIENT.decode(value.as_bytes()).ok());
    let told = told.and_then(|bytes| to_json(&rpc::STATUS, &bytes).ok());
    Some(Err(error(code, message, told.as_deref())))
}

/// The same words as on the other bindings, so that they are read by the same rules.
fn error(code: i32, message: Option<Cow<'_, str>>, told: Option<&[u8]>) -> Error {
    #[derive(Default, Deserialize)]
    struct Told<'a> {
        #[serde(borrow, default)]
        details: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct Status<'a> {
        code: i32,
        status: &'a str,
        message: Cow<'a, str>,
        details: Option<&'a RawValue>,
    }
    let Told { details } = told.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or("UNKNOWN");
    let (name, http) = match name {
        // Whoever had no time, or was told to stop, may have both later.
        "CANCELLED" | "DEADLINE_EXCEEDED" | "ABORTED" => ("UNAVAILABLE", 503),
        "FAILED_PRECONDITION" => (name, 400),
        _ => (name, 0),
    };
    let message = message.filter(|text| !text.is_empty()).unwrap_or(Cow::Borrowed(name));
    let json = serde_json::to_vec(&Status { code: http, status: name, message, details });
    let read = json.ok().and_then(|json| Error::decode(&json));
    let read = read.unwrap_or_else(|| Error::new(ErrorCode::Internal));
    match (name, read.code()) {
        // What cannot be found is a task, if it is not said otherwise.
        ("NOT_FOUND", ErrorCode::Internal) => {
            Error::with_message(ErrorCode::TaskNotFound, read.message().to_owned())
        }
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chancery_protocol::{ALL_ERROR_CODES, Denied, DeniedKind};
    use std::time::Duration;

    fn back(error: &Error) -> Error {
        let mut headers = HeaderMap::new();
        put(&mut headers, error);
        read(&headers).unwrap().unwrap_err()
    }

    fn details_of(error: &Error) -> String {
        serde_json::to_string(&error.details()).unwrap()
    }

    #[test]
    fn every_error_comes_back() {
        for code in ALL_ERROR_CODES {
            let error = Error::with_message(code, "100 % \u{fc}ber\nall").about("taskId", "t");
            let read = back(&error);
            assert_eq!((read.code(), details_of(&read)), (code, details_of(&error)));
            assert_eq!(read.message(), "100 % \u{fc}berall");
            assert_eq!(NAMES[usize::try_from(code.row().grpc.0).unwrap()], code.row().grpc.1);
        }
        let wrong = Error::invalid_field("message.parts", "must not be empty");
        assert_eq!(back(&wrong).violations(), wrong.violations());
        let busy = Error::new(ErrorCode::Unavailable).retry_after(Duration::from_millis(1500));
        assert_eq!(back(&busy).wait(), busy.wait());
        for kind in DeniedKind::ALL {
            let denied = Denied::new("budget", kind, "BUDGET_EXCEEDED");
            assert_eq!(back(&Error::from(denied.clone())).denied(), Some(&denied));
        }
    }

    #[test]
    fn what_others_write_is_read_too() {
        let read = |code: &'static str, message: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(STATUS, HeaderValue::from_static(code));
            headers.insert(MESSAGE, HeaderValue::from_static(message));
            super::read(&headers).unwrap().map_err(|error| (error.code(), error.message().to_owned()))
        };
        assert_eq!(read("0", ""), Ok(()));
        assert_eq!(read("12", "no%20such"), Err((ErrorCode::MethodNotFound, "no such".to_owned())));
        assert_eq!(read("4", ""), Err((ErrorCode::Unavailable, "UNAVAILABLE".to_owned())));
        assert_eq!(read("5", "t"), Err((ErrorCode::TaskNotFound, "t".to_owned())));
        assert_eq!(read("x", "?"), Err((ErrorCode::Internal, "?".to_owned())));
        assert_eq!(read("99", "%ff%"), Err((ErrorCode::Internal, "\u{fffd}%".to_owned())));
        assert!(super::read(&HeaderMap::new()).is_none());
    }

    #[test]
    fn trailers_stay_small() {
        let long = "y".repeat(100_000);
        let error = Error::with_message(ErrorCode::TaskNotFound, long.clone()).about("taskId", long);
        let mut headers = HeaderMap::new();
        put(&mut headers, &error);
        let size: usize = headers.values().map(HeaderValue::len).sum();
        assert!(size < 8000, "{size}");
        assert_eq!(super::read(&headers).unwrap().unwrap_err().code(), ErrorCode::TaskNotFound);
    }
}
