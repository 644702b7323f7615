//! What comes of a message.

use chancery_protocol::{ErrorCode, Operation};
use serde_json::{Value, json};

use super::report::{Outcome, Stop, ensure, skipped};
use super::wire::{Wire, is_over, is_waiting, state};
use super::{Check, check};

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("send.reply", Must, "a message is answered with a task or a message", reply),
    check!("send.waits", Must, "a send waits until the task is over or somebody has to speak", waits),
    check!("send.context", Must, "a context that the client names is kept or refused", context),
    check!("send.history", Must, "no more of the history is shown than was asked for", history),
    check!("send.negative-history", Must, "a history of less than nothing is refused", negative_history),
    check!("metadata.values", Must, "metadata of a message comes back as it was", values),
    check!(
        "metadata.large-numbers",
        Should,
        "integers of more than 53 bits come back as they were",
        large_numbers
    ),
];

async fn reply(wire: &Wire) -> Outcome {
    let sample = wire.sample.get_or_init(|| async { wire.send(wire.message.clone()).await }).await;
    sample.as_ref().map(|_| ()).map_err(Stop::clone)
}

async fn waits(wire: &Wire) -> Outcome {
    let task = wire.task().await?;
    ensure(is_over(&task) || is_waiting(&task), || format!("the task is {}", state(&task)))
}

async fn context(wire: &Wire) -> Outcome {
    let mut message = wire.message.clone();
    message["contextId"] = json!("a-context-of-the-client");
    let reply = match wire.call(Operation::SendMessage, json!({"message": message})).await? {
        Ok(reply) => reply,
        Err(refusal) => return refusal.expect(ErrorCode::InvalidParams),
    };
    let answered = if reply["task"].is_object() { &reply["task"] } else { &reply["message"] };
    let context = &answered["contextId"];
    let kept = *context == message["contextId"] || (context.is_null() && reply["message"].is_object());
    ensure(kept, || format!("the context is {context}"))
}

async fn history(wire: &Wire) -> Outcome {
    let task = wire.task().await?;
    for length in [0, 1] {
        let task =
            wire.result(Operation::GetTask, json!({"id": task["id"], "historyLength": length})).await?;
        let shown = task["history"].as_array().map_or(0, Vec::len);
        ensure(shown <= length, || format!("{length} asked for, {shown} shown"))?;
    }
    Ok(())
}

async fn negative_history(wire: &Wire) -> Outcome {
    let task = wire.task().await?;
    let params = json!({"id": task["id"], "historyLength": -1});
    wire.refusal(Operation::GetTask, params).await?.expect(ErrorCode::InvalidParams)
}

/// The metadata of our message, as the task shows it.
async fn metadata(wire: &Wire, sent: &Value) -> Result<Value, Stop> {
    wire.task().await?;
    let mut message = wire.message.clone();
    message["messageId"] = json!("conformance-metadata");
    message["metadata"] = sent.clone();
    let reply = wire.send(message).await?;
    if reply["message"].is_object() {
        return skipped("the agent answers with a message");
    }
    let task = wire.result(Operation::GetTask, json!({"id": reply["task"]["id"]})).await?;
    let history = task["history"].as_array().cloned().unwrap_or_default();
    let ours = history.into_iter().find(|message| message["messageId"] == "conformance-metadata");
    match ours {
        Some(message) => Ok(message["metadata"].clone()),
        None => skipped("the agent does not show the message in the history"),
    }
}

async fn values(wire: &Wire) -> Outcome {
    let sent = json!({
        "https://example.com/ext/v1": {"text": "é\u{1f600}\"\\", "nothing": null, "no": false, "list": [1, [], {}]},
        "integer": 9_007_199_254_740_991_i64, "negative": -7, "fraction": 0.1, "small": 1e-300,
    });
    let seen = metadata(wire, &sent).await?;
    ensure(is_same(&sent, &seen), || format!("sent {sent}, seen {seen}"))
}

async fn large_numbers(wire: &Wire) -> Outcome {
    let sent = json!({"large": 12_345_678_901_234_567_890_u64, "larger": 9_007_199_254_740_993_i64});
    let seen = metadata(wire, &sent).await?;
    ensure(sent == seen, || format!("sent {sent}, seen {seen}"))
}

/// By value: `7` and `7.0` are the same.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value)| other.get(key).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}
