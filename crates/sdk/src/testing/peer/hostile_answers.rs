//! What hostile peers say to a look at the card, and to a call that wants one answer.

use std::time::Duration;

use chancery_protocol::ProtocolBinding;
use serde_json::{Value, json};

use super::heard::Heard;
use super::reply::Reply;

/// Where nobody should be led to.
const METADATA_SERVICE: &str = "http://169.254.169.254/latest/meta-data/";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

fn task() -> Value {
    json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}})
}

/// The answer that a good peer gives.
pub(super) fn good(heard: &Heard) -> Reply {
    heard.result(&task())
}

fn page() -> Reply {
    Reply::status(200).header("content-type", "text/html").body("<!doctype html><p>It works!</p>")
}

// === cards ===

pub(super) fn card_invalid_json(_: &Heard, _: &ProtocolBinding) -> Reply {
    Reply::json(&json!({})).body("{\"name\": \"peer\",")
}

pub(super) fn card_web_page(_: &Heard, _: &ProtocolBinding) -> Reply {
    page()
}

pub(super) fn card_without_interface(heard: &Heard, binding: &ProtocolBinding) -> Reply {
    let mut card = heard.card(binding);
    card["supportedInterfaces"] = json!([]);
    Reply::json(&card)
}

pub(super) fn card_unknown_binding(heard: &Heard, binding: &ProtocolBinding) -> Reply {
    let mut card = heard.card(binding);
    card["supportedInterfaces"][0]["protocolBinding"] = json!("https://peer.example/bindings/semaphore");
    Reply::json(&card)
}

pub(super) fn card_metadata_service(heard: &Heard, binding: &ProtocolBinding) -> Reply {
    let mut card = heard.card(binding);
    card["supportedInterfaces"][0]["url"] = json!(METADATA_SERVICE);
    Reply::json(&card)
}

pub(super) fn card_redirect(_: &Heard, _: &ProtocolBinding) -> Reply {
    Reply::status(302).header("location", METADATA_SERVICE)
}

pub(super) fn card_endless(_: &Heard, _: &ProtocolBinding) -> Reply {
    Reply::json(&json!({})).body("{\"name\": \"").until_close().then_endlessly(vec![b'x'; 1 << 16])
}

pub(super) fn card_silence(_: &Heard, _: &ProtocolBinding) -> Reply {
    Reply::silence()
}

// === connections ===

pub(super) fn close(_: &Heard) -> Reply {
    Reply::close()
}

pub(super) fn reset(_: &Heard) -> Reply {
    Reply::reset()
}

pub(super) fn silence(_: &Heard) -> Reply {
    Reply::silence()
}

pub(super) fn not_http(_: &Heard) -> Reply {
    Reply::raw("SSH-2.0-OpenSSH_9.9\r\n\r\n")
}

pub(super) fn half_head(_: &Heard) -> Reply {
    Reply::raw("HTTP/1.1 200 OK\r\ncontent-ty")
}

pub(super) fn endless_header(_: &Heard) -> Reply {
    Reply::raw(format!("{HEAD}x-endless: ")).then_endlessly(vec![b'x'; 1 << 16])
}

pub(super) fn endless_headers(_: &Heard) -> Reply {
    Reply::raw(HEAD).then_endlessly("x-another: header\r\n".repeat(1000))
}

// === bodies ===

pub(super) fn length_too_large(heard: &Heard) -> Reply {
    good(heard).content_length(100_000).cut_after(usize::MAX)
}

pub(super) fn length_too_small(heard: &Heard) -> Reply {
    good(heard).content_length(20).cut_after(usize::MAX)
}

pub(super) fn length_gigantic(heard: &Heard) -> Reply {
    good(heard).content_length(1 << 50).then_silence()
}

pub(super) fn chunk_cut(heard: &Heard) -> Reply {
    good(heard).chunked().cut_after(20)
}

pub(super) fn chunk_size_nonsense(_: &Heard) -> Reply {
    Reply::raw(format!("{HEAD}transfer-encoding: chunked\r\n\r\nmany\r\n{}\r\n0\r\n\r\n", task()))
}

pub(super) fn chunks_unfinished(heard: &Heard) -> Reply {
    good(heard).chunked().cut_after(usize::MAX)
}

pub(super) fn drip(heard: &Heard) -> Reply {
    let body = format!("{}{}", " ".repeat(1 << 16), heard.json());
    good(heard).body(body).drip(1, Duration::from_millis(100))
}

pub(super) fn endless_body(heard: &Heard) -> Reply {
    good(heard).body("").until_close().then_endlessly(" ".repeat(1 << 16))
}

// === answers that are none ===

pub(super) fn redirect(_: &Heard) -> Reply {
    Reply::status(307).header("location", METADATA_SERVICE)
}

pub(super) fn server_error(_: &Heard) -> Reply {
    page().with_status(500)
}

pub(super) fn web_page(_: &Heard) -> Reply {
    page()
}

pub(super) fn empty(heard: &Heard) -> Reply {
    good(heard).body("")
}

pub(super) fn invalid_json(heard: &Heard) -> Reply {
    good(heard).body("{\"jsonrpc\": \"2.0\", \"id\": ")
}

pub(super) fn invalid_utf_8(heard: &Heard) -> Reply {
    let body =
        heard.envelope(&json!({"id": "MARK", "status": {"state": "TASK_STATE_COMPLETED"}})).to_string();
    let (before, after) = body.split_once("MARK").unwrap_or((&body, ""));
    let bytes = [before.as_bytes(), b"\xff\xfe", after.as_bytes()].concat();
    good(heard).body(bytes)
}

pub(super) fn deep_json(heard: &Heard) -> Reply {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut task = task();
    task["metadata"] = json!({"deep": "MARK"});
    let body = heard.envelope(&task).to_string().replace("\"MARK\"", &deep);
    good(heard).body(body)
}

pub(super) fn no_status(heard: &Heard) -> Reply {
    heard.result(&json!({"id": "t"}))
}

pub(super) fn wrong_id(_: &Heard) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": "the id of somebody else", "result": task()}))
}

pub(super) fn no_envelope(_: &Heard) -> Reply {
    Reply::json(&task())
}

pub(super) fn empty_envelope(heard: &Heard) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": heard.json()["id"]}))
}
