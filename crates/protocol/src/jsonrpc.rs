//! The JSON-RPC 2.0 envelope around a call and its answer.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call::Request;
use crate::decode::excerpt;
use crate::error::{Error, ErrorCode};
use crate::error_decode::ErrorNumbers;
use crate::field::Object;
use crate::one_pass;
use crate::operation::Operation;
use crate::write::write_json;

/// A request, its parameters not yet read.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Echoed in the answer, as it was written.
    pub id: RequestId<'a>,
    /// The name of the operation.
    pub method: Cow<'a, str>,
    /// The parameters, if there are any.
    pub params: Option<&'a RawValue>,
}

/// The id of a request: the JSON text of a string or a number, or `null` if none could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId<'a>(Cow<'a, str>);

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// An error as an answer has it.
#[derive(Serialize)]
pub struct ErrorObject<'a> {
    code: i32,
    message: &'a str,
    data: crate::error::Details<'a>,
}

// === impl ErrorObject ===

impl<'a> ErrorObject<'a> {
    /// The error with the code of v1.0.
    pub fn of(error: &'a Error) -> Self {
        Self { code: error.code().row().jsonrpc, message: error.message(), data: error.details() }
    }
}

// === impl RequestId ===

impl RequestId<'_> {
    /// The id of an answer to a request whose own could not be read.
    pub const NULL: RequestId<'static> = RequestId(Cow::Borrowed("null"));

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes a string or a number, of a size that bears repeating in every event of a stream.
    pub(crate) fn read(raw: &RawValue) -> Option<RequestId<'_>> {
        let text = raw.get();
        let allowed = text.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
        (allowed && text.len() <= MAX_ID_BYTES).then_some(RequestId(Cow::Borrowed(text)))
    }

    /// The same id, independent of the request's bytes.
    pub fn into_owned(self) -> RequestId<'static> {
        RequestId(Cow::Owned(self.0.into_owned()))
    }
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Reads an envelope. On failure the id comes along, so that the answer can still carry it.
    pub fn decode(body: &'a [u8]) -> Result<Self, (RequestId<'static>, Error)> {
        let Ok(text) = std::str::from_utf8(body) else {
            let error = Error::with_message(ErrorCode::ParseError, "Invalid JSON payload: not UTF-8");
            return Err((RequestId::NULL, error));
        };
        let Object::<Wire<'a>>(wire) =
            serde_json::from_str(text).map_err(|error| (RequestId::NULL, refuse(&error)))?;
        let id = wire.id.and_then(RequestId::read);
        let invalid = |what: &'static str| {
            let id = id.clone().map_or(RequestId::NULL, RequestId::into_owned);
            (id, Error::with_message(ErrorCode::InvalidRequest, what))
        };
        if wire.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(invalid("Request payload validation error: `jsonrpc` must be \"2.0\""));
        }
        let Some(method) =
            wire.method.and_then(|raw| serde_json::from_str(raw.get()).ok()).map(|Text(text)| text)
        else {
            return Err(invalid("Request payload validation error: `method` must be a string"));
        };
        if let Some(params) = wire.params
            && !params.get().starts_with('{')
        {
            return Err((
                id.map_or(RequestId::NULL, RequestId::into_owned),
                Error::invalid_field("params", "expected an object"),
            ));
        }
        let Some(id) = id else {
            return Err(invalid("Request payload validation error: `id` must be a string or a number"));
        };
        Ok(Self { id, method, params: wire.params })
    }

    /// The parameters; an empty object if there are none.
    pub fn params(&self) -> &'a [u8] {
        self.params.map_or(b"{}".as_slice(), |raw| raw.get().as_bytes())
    }
}

/// Reads a whole call. The id always comes along, so that every answer can carry it.
pub fn decode_call(body: &[u8]) -> (RequestId<'static>, Result<Request, Error>) {
    if let Some((id, request)) = decode_call_at_once(body) {
        return (id, Ok(request));
    }
    match Envelope::decode(body) {
        Err((id, error)) => (id, Err(error)),
        Ok(envelope) => {
            let request = match Operation::from_method(&envelope.method) {
                Some(operation) => Request::decode(operation, envelope.params()),
                None => Err(method_not_found(&envelope.method)),
            };
            (envelope.id.into_owned(), request)
        }
    }
}

/// Reads a call that is as nearly all are, in one pass. None says nothing but that an [`Envelope`] has to be read.
pub fn decode_call_at_once(body: &[u8]) -> Option<(RequestId<'static>, Request)> {
    one_pass::read(body).map(|(id, request)| (id.into_owned(), request))
}

/// There is no such method.
pub fn method_not_found(method: &str) -> Error {
    let text = format!("Method not found: {}", excerpt(method, MAX_METHOD_CHARS));
    Error::with_message(ErrorCode::MethodNotFound, text)
}

/// How much of an unknown method is repeated.
const MAX_METHOD_CHARS: usize = 64;

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

const MAX_ID_BYTES: usize = 1024;

fn refuse(error: &serde_json::Error) -> Error {
    if error.is_data() {
        Error::with_message(
            ErrorCode::InvalidRequest,
            "Request payload validation error: expected one request object",
        )
    } else {
        Error::with_message(ErrorCode::ParseError, format!("Invalid JSON payload: {error}"))
    }
}

// === requests ===

/// A whole request with a number as its id.
pub fn write_call(out: &mut Vec<u8>, id: u64, request: &Request) -> Result<(), Error> {
    write_call_head(out, id, request.operation().method());
    request.write_json(out)?;
    out.push(b'}');
    Ok(())
}

/// What stands before the parameters of a request; after them there is one brace to close.
pub fn write_call_head(out: &mut Vec<u8>, id: u64, method: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
    out.extend_from_slice(br#","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":"#);
}

// === answers ===

/// Why an answer is none.
#[derive(Debug)]
pub enum NoAnswer {
    /// The peer says that it failed.
    Failed(Error),
    /// What came is not an answer to this request; this is what is wrong with it.
    Unreadable(String),
}

/// Reads the result out of an answer to the request with this id.
pub fn decode_answer<T: DeserializeOwned>(body: &[u8], id: u64) -> Result<T, NoAnswer> {
    if let Ok(text) = std::str::from_utf8(body)
        && let Ok(Object(answer)) = serde_json::from_str::<Object<Answer<'_, T>>>(text)
        && let (Some(Object(result)), None) = (answer.result, answer.error)
        && answer.id.is_some_and(|answered| is_same(answered, id))
    {
        return Ok(result);
    }
    let result = answer_result(body, id)?;
    crate::decode::decode_reply(result.as_bytes())
        .map_err(|error| NoAnswer::Unreadable(crate::decode::causes(&error)))
}

/// The text of the result in an answer to the request with this id; `null` if it has none.
pub fn answer_result(body: &[u8], id: u64) -> Result<&str, NoAnswer> {
    answer_result_by(body, id, |_| None)
}

/// The same, for a version with error numbers of its own.
pub fn answer_result_by(body: &[u8], id: u64, numbers: ErrorNumbers) -> Result<&str, NoAnswer> {
    let unreadable = |what: &str| NoAnswer::Unreadable(what.to_owned());
    let text = std::str::from_utf8(body).map_err(|_| unreadable("not UTF-8"))?;
    let Object(answer) = serde_json::from_str::<Object<Outline<'_>>>(text)
        .map_err(|_| unreadable("not a JSON-RPC response object"))?;
    let own = answer.id.is_some_and(|answered| is_same(answered, id));
    if let Some(error) = answer.error.and_then(|raw| Error::decode_by(raw.get().as_bytes(), numbers)) {
        // Whoever could not read the request could not read its id either.
        let none = answer.id.is_none_or(|answered| answered.get() == "null");
        return Err(if own || none { NoAnswer::Failed(error) } else { unreadable(WRONG_ID) });
    }
    if !own {
        return Err(unreadable(WRONG_ID));
    }
    if answer.error.is_some() {
        return Err(unreadable("its `error` is not an error object"));
    }
    // Some peers leave out a result that is empty.
    Ok(answer.result.map_or("null", RawValue::get))
}

const WRONG_ID: &str = "its `id` is not that of the request";

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Answer<'a, T> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default = "Option::default")]
    result: Option<Object<T>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn is_same(answered: &RawValue, id: u64) -> bool {
    answered.get() == itoa::Buffer::new().format(id)
}

/// What stands before a result.
pub fn write_result_head(out: &mut Vec<u8>, id: &RequestId<'_>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_str().as_bytes());
    out.extend_from_slice(br#","result":"#);
}

/// A whole answer that says what failed.
pub fn write_error(out: &mut Vec<u8>, id: &RequestId<'_>, error: &Error) {
    write_error_as(out, id, error.code().row().jsonrpc, error);
}

/// The same, with the code that another version has for it.
pub fn write_error_as(out: &mut Vec<u8>, id: &RequestId<'_>, code: i32, error: &Error) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_str().as_bytes());
    out.extend_from_slice(br#","error":"#);
    // Writing strings and numbers into memory cannot fail.
    let _ = write_json(out, &ErrorObject { code, ..ErrorObject::of(error) });
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(body: &str) -> (String, ErrorCode) {
        let (id, error) = Envelope::decode(body.as_bytes()).unwrap_err();
        (id.as_str().to_owned(), error.code())
    }

    #[test]
    fn keeps_the_id_as_it_was_written() {
        for id in ["1", "\"r1\"", "-7", "1.0"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"GetTask","params":{{"id":"t"}}}}"#);
            let envelope = Envelope::decode(body.as_bytes()).unwrap();
            assert_eq!((envelope.id.as_str(), &*envelope.method), (id, "GetTask"));
            assert_eq!(envelope.params(), br#"{"id":"t"}"#);
        }
    }

    #[test]
    fn refuses_what_is_no_request() {
        assert_eq!(fails("{"), ("null".into(), ErrorCode::ParseError));
        assert_eq!(fails("[]"), ("null".into(), ErrorCode::InvalidRequest));
        assert_eq!(fails(r#" ["2.0",1,"GetTask",{"id":"t"}]"#), ("null".into(), ErrorCode::InvalidRequest));
        assert_eq!(fails("7"), ("null".into(), ErrorCode::InvalidRequest));
        assert_eq!(fails("{}"), ("null".into(), ErrorCode::InvalidRequest));
        assert_eq!(
            fails(r#"{"jsonrpc":"1.0","id":3,"method":"x"}"#),
            ("3".into(), ErrorCode::InvalidRequest)
        );
        assert_eq!(fails(r#"{"jsonrpc":"2.0","id":3,"method":7}"#), ("3".into(), ErrorCode::InvalidRequest));
        assert_eq!(fails(r#"{"jsonrpc":"2.0","method":"x"}"#), ("null".into(), ErrorCode::InvalidRequest));
        assert_eq!(
            fails(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#),
            ("null".into(), ErrorCode::InvalidRequest)
        );
        assert_eq!(
            fails(r#"{"jsonrpc":"2.0","id":3,"method":"x","params":[]}"#),
            ("3".into(), ErrorCode::InvalidParams)
        );
    }

    #[test]
    fn one_pass_and_two_steps_read_the_same() {
        let message = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;
        let bodies = [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{message}}}"#),
            format!(r#"{{"params":{message},"method":"SendMessage","id":1,"jsonrpc":"2.0","x":[]}}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage"}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask","params":{"id":"t"}}"#.to_owned(),
            r#"{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"t"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"t"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["","t"]}"#.to_owned(),
        ];
        for body in bodies {
            let two_steps =
                Envelope::decode(body.as_bytes()).map_err(|(_, error)| error).and_then(|envelope| {
                    let operation =
                        Operation::from_method(&envelope.method).ok_or(ErrorCode::MethodNotFound)?;
                    Request::decode(operation, envelope.params())
                });
            let (_, one_pass) = decode_call(body.as_bytes());
            match (one_pass, two_steps) {
                (Ok(one), Ok(two)) => assert_eq!(format!("{one:?}"), format!("{two:?}"), "{body}"),
                (Err(one), Err(two)) => assert_eq!(one.code(), two.code(), "{body}"),
                (one, two) => panic!("{body}: {one:?} but {two:?}"),
            }
        }
    }

    #[test]
    fn only_the_answer_to_the_request_is_one() {
        let read = |body: &str| match decode_answer::<crate::request::GetTaskRequest>(body.as_bytes(), 7) {
            Ok(read) => Ok(read.id.to_string()),
            Err(NoAnswer::Failed(error)) => Err(format!("{:?}", error.code())),
            Err(NoAnswer::Unreadable(what)) => Err(what),
        };
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"result":{"id":"t"}}"#), Ok("t".to_owned()));
        assert_eq!(read(r#"{"result":{"id":"t"},"error":null,"id":7}"#), Ok("t".to_owned()));
        assert_eq!(read(r#"{"id":8,"result":{"id":"t"}}"#), Err(WRONG_ID.to_owned()));
        assert_eq!(read(r#"{"id":"7","result":{"id":"t"}}"#), Err(WRONG_ID.to_owned()));
        assert_eq!(read(r#"{"result":{"id":"t"}}"#), Err(WRONG_ID.to_owned()));
        let failed = r#""error":{"code":-32001,"message":"no"}"#;
        assert_eq!(read(&format!("{{\"id\":7,{failed}}}")), Err("TaskNotFound".to_owned()));
        assert_eq!(read(&format!("{{\"id\":null,{failed}}}")), Err("TaskNotFound".to_owned()));
        assert_eq!(read(&format!("{{\"id\":8,{failed}}}")), Err(WRONG_ID.to_owned()));
        assert_eq!(
            read(r#"{"id":7,"result":{"id":7}}"#),
            Err("id: invalid type: integer, expected a string".to_owned())
        );
        assert!(read("[]").unwrap_err().contains("not a JSON-RPC response"));
        assert!(read(r#"{"id":7,"error":7}"#).unwrap_err().contains("error object"));
    }

    #[test]
    fn errors_carry_code_and_reason() {
        let mut out = Vec::new();
        write_error(&mut out, &RequestId::NULL, &Error::new(ErrorCode::TaskNotFound));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Task not found","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#
        );
    }
}
