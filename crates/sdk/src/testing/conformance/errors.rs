//! Calls that must be refused, and how.

use chancery_protocol::{ErrorCode, Operation, ProtocolBinding};
use serde_json::{Value, json};

use super::report::{Outcome, Stop, ensure, failed, skipped};
use super::wire::{Binding, Refusal, Wire, open_envelope};
use super::{Check, check};

const UNKNOWN: &str = "3f7c1b52-0000-4000-8000-c0ffee000001";

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("version.unknown", Must, "a version that is not served is refused", version_unknown),
    check!("version.absent", Must, "a call without a version speaks 0.3", version_absent),
    check!("version.patch", Must, "the third number of a version makes no difference", version_patch),
    check!("error.malformed", Must, "a body that is no JSON is refused", malformed),
    check!("error.unknown-method", Must, "an operation that does not exist is refused", unknown_method),
    check!("error.empty-send", Must, "a send without a message is refused", empty_send),
    check!("error.empty-message", Must, "a message without parts is refused", empty_message),
    check!("error.media-type", Should, "a body that is said to be no JSON is refused", media_type),
    check!("error.unknown-task", Must, "a task that does not exist is not found", unknown_task),
    check!("error.alike", Must, "tasks that do not exist are answered alike", alike),
    check!("error.reason", Should, "an error of the protocol comes with its reason", reason),
    check!("jsonrpc.id", Must, "an answer has the id of its call, a text or a number", id),
    check!("extension.required", Must, "a call without a required extension is refused", required_extension),
];

async fn get_unknown(wire: &Wire) -> Result<Refusal, Stop> {
    wire.refusal(Operation::GetTask, json!({"id": UNKNOWN})).await
}

async fn version_unknown(wire: &Wire) -> Outcome {
    get_unknown(&wire.version(Some("99.0"))).await?.expect(ErrorCode::VersionNotSupported)
}

async fn version_absent(wire: &Wire) -> Outcome {
    let interfaces = wire.card["supportedInterfaces"].as_array().cloned().unwrap_or_default();
    if interfaces.iter().any(|interface| interface["protocolVersion"] == "0.3") {
        return skipped("the agent also speaks 0.3");
    }
    get_unknown(&wire.version(None)).await?.expect(ErrorCode::VersionNotSupported)
}

async fn version_patch(wire: &Wire) -> Outcome {
    get_unknown(&wire.version(Some("1.0.7"))).await?.expect(ErrorCode::TaskNotFound)
}

async fn malformed(wire: &Wire) -> Outcome {
    let answer = wire.post("{\"jsonrpc\": \"2.0\", \"id\":").await?;
    match wire.binding {
        Binding::HttpJson => expect(wire.open(&answer)?, ErrorCode::ParseError),
        Binding::JsonRpc => expect(open_envelope(answer.json()?, &Value::Null)?, ErrorCode::ParseError),
    }
}

fn expect(reply: Result<Value, Refusal>, code: ErrorCode) -> Outcome {
    match reply {
        Ok(result) => failed(format!("it is not refused: {result}")),
        Err(refusal) => refusal.expect(code),
    }
}

async fn unknown_method(wire: &Wire) -> Outcome {
    if wire.binding == Binding::JsonRpc {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "NoSuchOperation", "params": {}});
        let answer = wire.post(&call.to_string()).await?;
        return expect(wire.open(&answer)?, ErrorCode::MethodNotFound);
    }
    let url = format!("{}/no-such-operation", wire.url.trim_end_matches('/'));
    let answer = wire.http.fetch(&http::Method::GET, &url, &wire.headers, String::new()).await?;
    ensure(answer.status() == 404, || answer.excerpt())
}

async fn empty_send(wire: &Wire) -> Outcome {
    wire.refusal(Operation::SendMessage, json!({})).await?.expect(ErrorCode::InvalidParams)
}

async fn empty_message(wire: &Wire) -> Outcome {
    let mut message = wire.message.clone();
    message["parts"] = json!([]);
    let refusal = wire.refusal(Operation::SendMessage, json!({"message": message})).await?;
    refusal.expect(ErrorCode::InvalidParams)
}

async fn media_type(wire: &Wire) -> Outcome {
    let send = json!({"message": wire.message});
    let body = match wire.binding {
        Binding::JsonRpc => json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": send}),
        Binding::HttpJson => send,
    };
    let answer = wire.with("content-type", Some("text/plain")).post(&body.to_string()).await?;
    let is_error = answer.json().is_ok_and(|body| body.get("error").is_some());
    ensure(answer.head.status.is_client_error() || is_error, || answer.excerpt())
}

async fn unknown_task(wire: &Wire) -> Outcome {
    let mut message = wire.message.clone();
    message["taskId"] = json!(UNKNOWN);
    for (operation, params) in [
        (Operation::GetTask, json!({"id": UNKNOWN})),
        (Operation::CancelTask, json!({"id": UNKNOWN})),
        (Operation::SendMessage, json!({"message": message})),
    ] {
        wire.refusal(operation, params).await?.expect(ErrorCode::TaskNotFound)?;
    }
    if !wire.can("streaming") {
        return Ok(());
    }
    match wire.stream(Operation::SubscribeToTask, json!({"id": UNKNOWN})).await? {
        Ok(events) => failed(format!("SubscribeToTask is not refused: {:?}", events.list)),
        Err(refusal) => refusal.expect(ErrorCode::TaskNotFound),
    }
}

/// Somebody who guesses must not learn from how the answer looks whether a guess was close.
async fn alike(wire: &Wire) -> Outcome {
    let mut seen = Vec::new();
    for id in [UNKNOWN, "3f7c1b52-0000-4000-8000-c0ffee000002", "no-such-task"] {
        let refusal = wire.refusal(Operation::GetTask, json!({"id": id})).await?;
        refusal.expect(ErrorCode::TaskNotFound)?;
        let mut error = refusal.error.to_string().replace(id, "…");
        // When it was answered tells nothing.
        if let Some(at) = error.find("\"timestamp\":\"") {
            let end = error[at + 13..].find('"').map_or(error.len(), |end| at + 13 + end);
            error.replace_range(at..end, "");
        }
        seen.push(error);
    }
    ensure(seen.windows(2).all(|pair| pair[0] == pair[1]), || format!("they are not: {}", seen.join(" / ")))
}

async fn reason(wire: &Wire) -> Outcome {
    let refusal = get_unknown(wire).await?;
    let reason = ErrorCode::TaskNotFound.row().reason;
    let info = refusal.error.to_string();
    let known = info.contains(reason) && info.contains(chancery_protocol::DOMAIN);
    ensure(known, || format!("there is no ErrorInfo of {}: {info}", chancery_protocol::DOMAIN))
}

async fn id(wire: &Wire) -> Outcome {
    if wire.binding != Binding::JsonRpc {
        return skipped(format!("only {} has ids", ProtocolBinding::JsonRpc));
    }
    for id in [json!("a text"), json!(0), json!(9_007_199_254_740_991_u64)] {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "GetTask", "params": {"id": UNKNOWN}});
        let answer = wire.post(&call.to_string()).await?;
        expect(open_envelope(answer.json()?, &id)?, ErrorCode::TaskNotFound)?;
    }
    Ok(())
}

async fn required_extension(wire: &Wire) -> Outcome {
    if !wire.headers.contains_key(chancery_protocol::EXTENSIONS_HEADER) {
        return skipped("the card requires no extension");
    }
    let bare = wire.with(chancery_protocol::EXTENSIONS_HEADER, None);
    let refusal = bare.refusal(Operation::SendMessage, json!({"message": wire.message})).await?;
    refusal.expect(ErrorCode::ExtensionSupportRequired)
}
