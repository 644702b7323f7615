//! Sees to it that calls go over the wire that is under test, and over no other.

use std::error::Error;

use chancery_sdk::Interceptor;
use chancery_sdk::protocol::Operation;
use hyper::http::request::Parts;

use crate::wire::Binding;

/// Stops every call on another binding.
pub(super) struct Witness(pub(super) Binding);

impl Interceptor for Witness {
    fn before(
        &self,
        operation: Option<Operation>,
        head: &mut Parts,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let spoken = spoken(head);
        match operation {
            Some(_) if spoken != self.0 => Err(format!("a call over {}", spoken.as_str()).into()),
            _ => Ok(()),
        }
    }
}

/// What a request is, by what it looks like.
fn spoken(head: &Parts) -> Binding {
    let kind = head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let path = head.uri.path();
    if kind.starts_with("application/grpc") {
        Binding::Grpc
    } else if ["/message:", "/tasks", "/card", "/extendedAgentCard"].iter().any(|part| path.contains(part)) {
        Binding::HttpJson
    } else {
        Binding::JsonRpc
    }
}
