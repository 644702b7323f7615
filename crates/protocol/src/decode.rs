//! From bytes to the model: a fast parse first, and only if it fails a second one that tracks where.

use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorCode};

/// Reads the parameters of a request. What is wrong is said with its field path.
pub fn decode_params<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|_| explain::<T>(json))
}

/// Reads what an agent answered. What is wrong there is the agent's fault.
pub fn decode_reply<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json)
        .map_err(|_| Error::new(ErrorCode::InvalidAgentResponse).caused_by(explain::<T>(json)))
}

fn explain<T: DeserializeOwned>(json: &[u8]) -> Error {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let failed = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(failed) => failed,
        // The value itself is fine, so it is followed by something.
        Ok(_) => {
            return Error::with_message(ErrorCode::ParseError, "Invalid JSON payload: trailing characters");
        }
    };
    let inner = failed.inner();
    if !inner.is_data() {
        return Error::with_message(ErrorCode::ParseError, format!("Invalid JSON payload: {inner}"));
    }
    let path = failed.path().to_string();
    let path = if path == "." { String::new() } else { path };
    let text = without_position(inner);
    match missing_field(&text) {
        Some(field) => Error::invalid_field(join(&path, field), "is required"),
        None => Error::invalid_field(path, text),
    }
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
    fn unknown_state_in_a_filter_is_refused() {
        assert!(decode_params::<ListTasksRequest>(br#"{"status":"TASK_STATE_WORKING"}"#).is_ok());
        assert!(decode_params::<ListTasksRequest>(br#"{"status":null}"#).is_ok());
        let error = decode_params::<ListTasksRequest>(br#"{"status":"DONE"}"#).unwrap_err();
        assert_eq!(error.violations()[0].field, "status");
    }
}
