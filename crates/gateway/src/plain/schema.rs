//! The schemas of the bodies: published, and what is sent is held to them.

use std::sync::LazyLock;

use chancery_sdk::{Body, Visitor};
use http::{HeaderValue, Response, header};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::{
    Answer, Failed, Field, Health, InvokeEvent, InvokeRequest, InvokeResult, NegotiateRequest,
    NegotiateResponse,
};
use super::failure::Failure;

/// Where they are found.
pub(super) const PATH: &str = "/schemas";

/// A body that may be sent.
pub(super) trait Sent: DeserializeOwned {
    /// The name of its schema.
    const NAME: &'static str;
}

impl Sent for NegotiateRequest {
    const NAME: &'static str = "negotiate-request";
}

impl Sent for InvokeRequest {
    const NAME: &'static str = "invoke-request";
}

/// The schemas by name.
static SCHEMAS: LazyLock<Vec<(&'static str, Value)>> = LazyLock::new(|| {
    vec![
        (NegotiateRequest::NAME, reads::<NegotiateRequest>()),
        ("negotiate-response", writes::<NegotiateResponse>()),
        (InvokeRequest::NAME, reads::<InvokeRequest>()),
        ("invoke-response", writes::<Answer<InvokeResult>>()),
        ("invoke-event", writes::<Answer<InvokeEvent>>()),
        ("health", writes::<Health>()),
        ("error", writes::<Failed>()),
    ]
});

fn reads<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// What is written may lack what is left out when there is nothing to say.
fn writes<T: JsonSchema>() -> Value {
    let schema: Schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.to_value()
}

fn named(name: &str) -> Option<&'static Value> {
    SCHEMAS.iter().find(|(known, _)| *known == name).map(|(_, schema)| schema)
}

/// Reads a body that fits its schema; says of any other everything that does not fit.
pub(super) fn read<T: Sent>(body: &[u8], value: &Value) -> Result<T, Failure> {
    let schema = named(T::NAME).unwrap_or(&Value::Null);
    let fields: Vec<_> =
        crate::config::misfits(value, schema).into_iter().map(|(path, what)| Field { path, what }).collect();
    if let Some(first) = fields.first() {
        let place = if first.path.is_empty() { "the body" } else { &first.path };
        let detail = format!("`{place}` {}; the schema is at {PATH}/{}", first.what, T::NAME);
        return Err(Failure::invalid("SCHEMA", detail).fields(fields));
    }
    serde_json::from_slice(body).map_err(|error| Failure::invalid("SCHEMA", error.to_string()))
}

/// The list of schemas, or one of them.
pub(super) fn show(visitor: &Visitor, url: &str, name: &str) -> Response<Body> {
    let shown = match name {
        "" => {
            let all =
                SCHEMAS.iter().map(|(name, _)| ((*name).to_owned(), format!("{url}{PATH}/{name}").into()));
            json!({"schemas": all.collect::<serde_json::Map<_, _>>()})
        }
        name => match named(name) {
            Some(schema) => schema.clone(),
            None => return visitor.nowhere(),
        },
    };
    let mut response = Response::new(Body::from(shown.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/schema+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(body: &Value) -> Option<String> {
        read::<InvokeRequest>(body.to_string().as_bytes(), body)
            .err()
            .map(|failure| failure.detail().to_owned())
    }

    #[test]
    fn what_fits_is_read_and_everything_else_is_told_where() {
        let fine = json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": "hello"}});
        assert_eq!(reason(&fine), None);
        let parts =
            json!([{"text": "hello"}, {"data": {"a": [1, {"b": null}]}, "mediaType": "application/json"}]);
        let fine = json!({"jsonrpc": "2.0", "id": "x", "method": "invoke", "params": {"parts": parts}});
        assert_eq!(reason(&fine), None);
        for (wrong, place) in [
            (json!([]), "the body"),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "invoke"}), "params"),
            (json!({"jsonrpc": "1.0", "id": 1, "method": "invoke", "params": {}}), "jsonrpc"),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}), "method"),
            (json!({"jsonrpc": "2.0", "id": [], "method": "invoke", "params": {}}), "id"),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"txt": "x"}}), "params.txt"),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": ""}}), "params.text"),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"parts": []}}), "params.parts"),
            (
                json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"timeoutMs": 0}}),
                "params.timeoutMs",
            ),
        ] {
            let told = reason(&wrong).unwrap_or_else(|| panic!("{wrong} was taken"));
            assert!(told.starts_with(&format!("`{place}`")), "{wrong}: {told}");
        }
    }
}
