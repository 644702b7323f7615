//! What must be true of every caller's task after a restart.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::load::{Role, Witness};
use crate::wire::{Call, Frame};

/// What is said of a task that was being worked on.
const RESTARTED: &str = "The server was restarted while it worked on this task";

/// Checks one caller's task, and gives the number of events that were read back.
pub(crate) async fn check(address: SocketAddr, witness: &Witness, chance: usize) -> usize {
    let tasks = in_context(address, witness).await;
    let known = witness.task();
    assert!(tasks.len() <= 1, "{witness:?} has {tasks:?}");
    assert!(known.is_none() || known.as_ref() == tasks.first(), "{witness:?} has {tasks:?}");
    if witness.caller.role.has_key() {
        retried(address, witness, tasks.first()).await;
    }
    let tasks = in_context(address, witness).await;
    if witness.caller.role.has_key() {
        assert_eq!(tasks.len(), 1, "{witness:?}");
    }
    let Some(task) = tasks.first() else { return 0 };
    if witness.caller.role.agent() == "ask" {
        asked(address, witness, task).await
    } else {
        streamed(address, witness, task, chance).await
    }
}

/// The ids of what came of a caller's message.
async fn in_context(address: SocketAddr, witness: &Witness) -> Vec<String> {
    let list = Call::list(witness.caller.role.agent(), &json!({"contextId": witness.caller.context}));
    let page = list.result(address).await.unwrap();
    let tasks = page["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

/// A repeated call joins the task that the first one made, if it made any, and several repeats join one task.
async fn retried(address: SocketAddr, witness: &Witness, known: Option<&String>) {
    let call = witness.caller.call();
    let retry = async || match witness.caller.role {
        Role::KeyedStream => {
            let frames = call.all(address).await;
            frames[0].event(witness.caller.binding)["task"]["id"].clone()
        }
        _ => call.result(address).await.unwrap()["task"]["id"].clone(),
    };
    let (one, other) = tokio::join!(retry(), retry());
    assert_eq!(one, other, "{witness:?}");
    assert!(known.is_none_or(|known| one == json!(known)), "{witness:?} is given {one}, not {known:?}");
}

/// A stream's task: whole from its first event to its end, and what was seen of it is the beginning.
async fn streamed(address: SocketAddr, witness: &Witness, task: &str, chance: usize) -> usize {
    let binding = witness.caller.binding;
    let resume = async |after: usize| Call::resume(binding, "stream", task, after as u64).all(address).await;
    let all = resume(0).await;
    let numbers: Vec<_> = all.iter().map(|frame| frame.number).collect();
    assert!(numbers.iter().copied().eq(1..=all.len() as u64), "{witness:?}: {numbers:?}");
    assert_eq!(all[..witness.frames.len().min(all.len())], witness.frames, "what was seen is there");
    assert!(!witness.ended || all.len() == witness.frames.len(), "what has ended goes on: {witness:?}");
    let chunks = ended(witness, &all);
    assert!(chunks <= witness.caller.chunks, "{witness:?}");
    for after in [witness.frames.len(), chance % (all.len() + 1)] {
        assert_eq!(resume(after).await, all[after..], "after {after}: {witness:?}");
    }
    all.len()
}

/// The events end the task, once, and its chunks are the ones that one run makes. Gives the number of those.
fn ended(witness: &Witness, all: &[Frame]) -> usize {
    let events: Vec<_> = all.iter().map(|frame| frame.event(witness.caller.binding)).collect();
    let chunks: Vec<_> = events
        .iter()
        .filter_map(|event| event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str())
        .map(|text| text.trim_end().to_owned())
        .collect();
    let expected: Vec<_> = (1..=chunks.len()).map(|number| format!("chunk {number}")).collect();
    assert_eq!(chunks, expected, "{witness:?}");
    let status = |event: &Value| {
        let said = ["task", "statusUpdate"].into_iter().find_map(|kind| event.get(kind))?;
        Some(said["status"].clone())
    };
    let ends = events.iter().filter_map(status).filter(is_over).count();
    assert_eq!(ends, 1, "{witness:?}: {events:?}");
    let last = events.last().and_then(status).unwrap_or_default();
    let whole = chunks.len() == witness.caller.chunks;
    match last["state"].as_str() {
        Some("TASK_STATE_COMPLETED") => assert!(whole, "{witness:?}: {events:?}"),
        Some("TASK_STATE_FAILED") => assert_eq!(last["message"]["parts"][0]["text"], RESTARTED),
        _ => panic!("{witness:?} does not end: {last}"),
    }
    chunks.len()
}

fn is_over(status: &Value) -> bool {
    ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].iter().any(|state| status["state"] == *state)
}

/// A task that asks back waits, unless it was being worked on, and goes on when it is answered.
async fn asked(address: SocketAddr, witness: &Witness, task: &str) -> usize {
    let get = async || Call::get("ask", task).result(address).await.unwrap();
    let found = get().await;
    if witness.caller.role == Role::Ask && witness.told.is_some() {
        assert_eq!(Some(&found), witness.told.as_ref(), "it has not changed");
    }
    if let Some(told) = &witness.told_again {
        assert_eq!(&found, told, "it has not changed");
    }
    let answer = witness.caller.answer(task);
    let waits = found["status"]["state"] == "TASK_STATE_INPUT_REQUIRED";
    if waits || (witness.caller.role == Role::AskAndAnswer && is_taken(&found)) {
        let replies = tokio::join!(answer.result(address), answer.result(address));
        let (one, other) = (replies.0.unwrap(), replies.1.unwrap());
        assert_eq!(one["task"]["id"], task, "{witness:?}");
        assert_eq!(one["task"]["status"], other["task"]["status"], "{witness:?}");
    }
    let done = get().await;
    assert!(is_over(&done["status"]), "{witness:?}: {done}");
    if waits {
        assert_eq!(done["artifacts"][0]["parts"][0]["text"], "Hello, Ada", "{witness:?}: {done}");
    } else if done["status"]["state"] == "TASK_STATE_FAILED" {
        assert_eq!(done["status"]["message"]["parts"][0]["text"], RESTARTED, "{witness:?}: {done}");
    }
    let said = done["history"].as_array().unwrap().iter();
    assert!(said.filter(|message| message["parts"][0]["text"] == "Ada").count() <= 1, "{witness:?}: {done}");
    1
}

/// Whether the second message has been taken into the task.
fn is_taken(task: &Value) -> bool {
    task["history"].as_array().unwrap().iter().any(|message| message["parts"][0]["text"] == "Ada")
}
