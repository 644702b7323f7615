//! `chancery serve` for callers without an A2A library: the plain profile, browsers, proxies, sockets in the file system,
//! probes, and the configuration that it writes for a beginner.

mod agreements;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
#[path = "../fleet/http.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod http;
mod invoke;
mod outside;
mod profile;
mod refusals;

use serde_json::{Value, json};

use http::{Answer, post};

const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";
const STREAM: &str = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";

/// A call with a text.
fn saying(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "invoke", "params": {"text": text}})
}

/// A call with these parameters.
fn with(params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "invoke", "params": params})
}

/// A request with an id that nobody else has.
async fn invoke(url: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("request-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let headers: Vec<_> = headers.iter().copied().chain([("x-request-id", id.as_str())]).collect();
    post(url, &headers, body).await
}

/// What is refused: the status, the code, its name and the reason.
fn told(answer: &Answer) -> (u16, i64, String, String) {
    let error = &answer.json()["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("{answer:?}"));
    (answer.status, code, text(&error["message"]), text(&error["data"]["reason"]))
}

fn refused(answer: &Answer, status: u16, code: i64, name: &str, reason: &str) {
    assert_eq!(told(answer), (status, code, name.to_owned(), reason.to_owned()), "{answer:?}");
}
