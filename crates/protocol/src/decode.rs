//! From bytes to the model: a fast parse first, and only if it fails a second one that tracks where.

use serde::de::{DeserializeOwned, Error as _};

use crate::error::{Error, ErrorCode};
use crate::field::Object;

/// Reads the parameters of a request. What is wrong is said with its field path.
pub fn decode_params<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    read(json).map_err(|_| explain::<T>(json))
}

/// Reads what an agent answered. What is wrong there is the agent's fault.
pub fn decode_reply<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    read(json).map_err(|_| Error::new(ErrorCode::InvalidAgentResponse).caused_by(explain::<T>(json)))
}

/// Looking at all bytes at once for UTF-8 is cheaper than having the parser look at each string; nor does the parser
/// look at those that it passes over, which may be handed on.
fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text).map(|Object(value)| value)
}

/// What is wrong with a reply, as its decoder explained it.
pub(crate) fn causes(error: &Error) -> String {
    let cause = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Error>());
    let Some(cause) = cause else { return error.message().to_owned() };
    match cause.violations().first() {
        Some(violation) if violation.field.is_empty() => violation.description.clone(),
        Some(violation) => format!("{}: {}", violation.field, violation.description),
        None => cause.message().to_owned(),
    }
}

fn explain<T: DeserializeOwned>(json: &[u8]) -> Error {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let failed = match serde_path_to_error::deserialize::<_, Object<T>>(&mut deserializer) {
        Err(failed) => failed,
        // The value itself is fine, so it is followed by something, or something that was passed over is not text.
        Ok(_) => {
            let wrong = if std::str::from_utf8(json).is_ok() { "trailing characters" } else { "not UTF-8" };
            return Error::with_message(ErrorCode::ParseError, format!("Invalid JSON payload: {wrong}"));
        }
    };
    let inner = failed.inner();
    let text = without_position(inner);
    // A number beyond all floats is good JSON, whatever serde_json thinks.
    if !inner.is_data() && text != "number out of range" {
        return Error::with_message(ErrorCode::ParseError, format!("Invalid JSON payload: {inner}"));
    }
    let path = failed.path().to_string();
    // The keys of maps are not ours.
    let path = if path == "." { String::new() } else { excerpt(&path, MAX_PATH_CHARS) };
    match missing_field(&text) {
        Some(field) => Error::invalid_field(join(&path, field), "is required"),
        None => Error::invalid_field(path, without_value(&text)),
    }
}

/// Enough for any path of the protocol's own.
const MAX_PATH_CHARS: usize = 160;

/// What a stranger wrote, short and clean enough to be repeated.
pub(crate) fn excerpt(text: &str, most_chars: usize) -> String {
    text.chars().filter(|character| !character.is_control()).take(most_chars).collect()
}

/// serde repeats the value that it did not expect: of any length, and perhaps a secret in the wrong place.
fn without_value(text: &str) -> String {
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    let kind = found.split(['"', '`']).next().unwrap_or_default().trim_end();
    format!("{kind}, expected {expected}")
}

/// serde reports a missing field at its parent and names it only in the text.
fn missing_field(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.strip_suffix('`')
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ListTasksRequest, SendMessageRequest};

    fn field(json: &str) -> (String, String) {
        let error = decode_params::<SendMessageRequest>(json.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidParams, "{error}");
        (error.violations()[0].field.clone(), error.violations()[0].description.clone())
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        assert_eq!(field("{}"), ("message".into(), "is required".into()));
        assert_eq!(field(r#"{"message":{}}"#).0, "message.messageId");
        assert_eq!(
            field(r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{}]}}"#).0,
            "message.parts[1]"
        );
        let (path, text) =
            field(r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","metadata":7}]}}"#);
        assert_eq!((path.as_str(), text.as_str()), ("message.parts[0].metadata", "expected a JSON object"));
        assert_eq!(
            field(r#"{"message":{"messageId":7,"role":"ROLE_USER","parts":[]}}"#).0,
            "message.messageId"
        );
    }

    #[test]
    fn broken_json_is_a_parse_error() {
        for json in ["", "{", "{\"message\"", "nul", "{}x", "\u{0}"] {
            let error = decode_params::<ListTasksRequest>(json.as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ParseError, "{json:?}");
        }
    }

    #[test]
    fn values_are_not_repeated() {
        let secret = "hunter2, expected \\u0007 `x` at line 1 ".repeat(1000);
        let (path, text) = field(&format!(r#"{{"message":"{secret}"}}"#));
        assert_eq!((path.as_str(), text.as_str()), ("message", "invalid type: string, expected an object"));
        let (path, text) = field(r#"{"message":{"messageId":7654321}}"#);
        assert_eq!(
            (path.as_str(), text.as_str()),
            ("message.messageId", "invalid type: integer, expected a string")
        );
    }

    #[test]
    fn paths_with_keys_of_strangers_are_short_and_clean() {
        let card = format!(r#"{{"securitySchemes":{{"\u0007{}":7}}}}"#, "k".repeat(10_000));
        let error = decode_params::<crate::card::AgentCard>(card.as_bytes()).unwrap_err();
        let path = &error.violations()[0].field;
        assert!(path.starts_with("securitySchemes.kkk") && path.len() == MAX_PATH_CHARS, "{path}");
    }

    #[test]
    fn unknown_state_in_a_filter_is_refused() {
        assert!(decode_params::<ListTasksRequest>(br#"{"status":"TASK_STATE_WORKING"}"#).is_ok());
        assert!(decode_params::<ListTasksRequest>(br#"{"status":null}"#).is_ok());
        let error = decode_params::<ListTasksRequest>(br#"{"status":"DONE"}"#).unwrap_err();
        assert_eq!(error.violations()[0].field, "status");
        let error = decode_params::<ListTasksRequest>(br#"{"status":{}}"#).unwrap_err();
        let expected = "invalid type: map, expected a task state such as TASK_STATE_WORKING";
        assert_eq!(error.violations()[0].description, expected);
    }
}
