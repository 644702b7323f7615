//! Streams, and the other things that an agent may or may not do.

use chancery_protocol::{ErrorCode, Operation};
use serde_json::{Value, json};

use super::report::{Outcome, Stop, ensure, failed, skipped};
use super::wire::{Events, Wire, is_over, is_waiting};
use super::{Check, check, shape};

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("stream.order", Must, "a stream is a message, or a task, its events and its end", order),
    check!("stream.kept", Must, "a stream leads to the task that is kept", kept),
    check!("stream.over", Must, "a task that is over cannot be subscribed to", over),
    check!("stream.refused", Must, "streams are refused unless the card declares them", refused),
    check!("card.extended", Must, "the extended card is a card, and refused unless declared", extended_card),
];

async fn stream(wire: &Wire) -> Result<Events, Stop> {
    if !wire.can("streaming") {
        return skipped("the card declares no streams");
    }
    match wire.stream(Operation::SendStreamingMessage, json!({"message": wire.message})).await? {
        Ok(events) => Ok(events),
        Err(refusal) => failed(format!("it is refused: {refusal}")),
    }
}

async fn order(wire: &Wire) -> Outcome {
    let events = stream(wire).await?;
    let [first, rest @ ..] = &events.list[..] else { return failed("it has no events") };
    if first.get("message").is_some() {
        return ensure(rest.is_empty(), || format!("more comes after a message: {rest:?}"));
    }
    let task = &first["task"];
    ensure(task.is_object(), || format!("it does not begin with a task or a message: {first}"))?;
    let mut told = task.clone();
    for event in rest {
        ensure(!is_over(&told), || format!("the task is over, and goes on: {event}"))?;
        ensure(event.get("message").is_none(), || format!("a message comes in a task: {event}"))?;
        let (id, context) = match event.get("task") {
            Some(again) => (&again["id"], &again["contextId"]),
            None => {
                let update = event.as_object().and_then(|event| event.values().next()).unwrap_or(event);
                (&update["taskId"], &update["contextId"])
            }
        };
        ensure(*id == task["id"], || format!("an event of another task: {event}"))?;
        let same = *context == task["contextId"] || task["contextId"].is_null();
        ensure(same, || format!("an event of another context: {event}"))?;
        if let Some(status) = status_of(event) {
            told["status"] = status.clone();
        }
    }
    let finished = is_waiting(&told) || (is_over(&told) && events.ended);
    ensure(finished, || format!("it ends while the task is {}", told["status"]["state"]))
}

fn status_of(event: &Value) -> Option<&Value> {
    [event.get("task"), event.get("statusUpdate")].into_iter().flatten().find_map(|told| told.get("status"))
}

async fn kept(wire: &Wire) -> Outcome {
    let events = stream(wire).await?;
    let Some(task) = events.list.first().and_then(|event| event.get("task")) else {
        return skipped("the agent answers with a message");
    };
    let Some(last) = events.list.iter().rev().find_map(status_of) else { return failed("no status is told") };
    let seen = wire.result(Operation::GetTask, json!({"id": task["id"]})).await?;
    ensure(seen["status"]["state"] == last["state"], || format!("told was {last}, seen is {seen}"))
}

async fn over(wire: &Wire) -> Outcome {
    if !wire.can("streaming") {
        return skipped("the card declares no streams");
    }
    let task = wire.ended_task().await?;
    match wire.stream(Operation::SubscribeToTask, json!({"id": task["id"]})).await? {
        Ok(events) => failed(format!("it is not refused: {:?}", events.list)),
        Err(refusal) => refusal.expect(ErrorCode::UnsupportedOperation),
    }
}

async fn refused(wire: &Wire) -> Outcome {
    if wire.can("streaming") {
        return skipped("the card declares streams");
    }
    let task = wire.task().await.map_or(json!("any"), |task| task["id"].clone());
    for (operation, params) in [
        (Operation::SendStreamingMessage, json!({"message": wire.message})),
        (Operation::SubscribeToTask, json!({"id": task})),
    ] {
        match wire.stream(operation, params).await? {
            Ok(_) => return failed(format!("{} is not refused", operation.method())),
            Err(refusal) => refusal.expect(ErrorCode::UnsupportedOperation)?,
        }
    }
    Ok(())
}

async fn extended_card(wire: &Wire) -> Outcome {
    let reply = wire.call(Operation::GetExtendedAgentCard, json!({})).await?;
    match (wire.can("extendedAgentCard"), reply) {
        (false, Ok(card)) => failed(format!("it is not declared, and there: {card}")),
        (false, Err(refusal)) => refusal.expect(ErrorCode::UnsupportedOperation),
        (true, Err(refusal)) => match refusal.expect(ErrorCode::ExtendedAgentCardNotConfigured) {
            Ok(()) => skipped("it is declared, and there is none"),
            Err(_) => skipped(format!("it is refused, maybe for want of credentials: {refusal}")),
        },
        (true, Ok(card)) => match shape::AGENT_CARD.problem(&card) {
            None => Ok(()),
            Some(problem) => failed(format!("{problem}: {card}")),
        },
    }
}
