//! Tasks: looking at them, canceling them, and what happens once they are over.

use chancery_protocol::{ErrorCode, Operation};
use serde_json::json;

use super::report::{Outcome, ensure, failed, skipped};
use super::wire::{Wire, is_over, state};
use super::{Check, check, shape};

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("task.get", Must, "a task can be looked at by its id", get),
    check!("task.same", Must, "a task that is over stays as it is", same),
    check!("task.over", Must, "a task that is over takes no message", over),
    check!("task.cancel-over", Must, "a task that is over cannot be canceled", cancel_over),
    check!("task.at-once", Must, "a send that does not wait gives a task that can be looked at", at_once),
    check!("task.cancel", Must, "canceling gives the task, or says that it cannot be", cancel),
    check!("task.other-context", Must, "a task does not take a message of another context", other_context),
    check!("task.hidden", Must, "a task of somebody else does not exist", hidden),
];

async fn get(wire: &Wire) -> Outcome {
    let task = wire.task().await?;
    let seen = wire.result(Operation::GetTask, json!({"id": task["id"]})).await?;
    if let Some(problem) = shape::TASK.problem(&seen) {
        return failed(format!("{problem}: {seen}"));
    }
    let same = seen["id"] == task["id"] && seen["contextId"] == task["contextId"];
    ensure(same, || format!("the answer to the send was {task}, and now it is {seen}"))?;
    let went_on = !is_over(&task) || state(&task) == state(&seen);
    ensure(went_on, || format!("it was {}, and now it is {}", state(&task), state(&seen)))
}

async fn same(wire: &Wire) -> Outcome {
    let task = wire.ended_task().await?;
    let again = wire.result(Operation::GetTask, json!({"id": task["id"]})).await?;
    ensure(task == again, || format!("it was {task}, and now it is {again}"))
}

async fn over(wire: &Wire) -> Outcome {
    let task = wire.ended_task().await?;
    let mut message = wire.message.clone();
    message["taskId"] = task["id"].clone();
    let refusal = wire.refusal(Operation::SendMessage, json!({"message": message})).await?;
    refusal.expect(ErrorCode::UnsupportedOperation)
}

async fn cancel_over(wire: &Wire) -> Outcome {
    let task = wire.ended_task().await?;
    if state(&task) == "TASK_STATE_CANCELED" {
        return skipped("the task is canceled already, which may be answered either way");
    }
    let refusal = wire.refusal(Operation::CancelTask, json!({"id": task["id"]})).await?;
    refusal.expect(ErrorCode::TaskNotCancelable)
}

async fn at_once(wire: &Wire) -> Outcome {
    wire.task().await?;
    let params = json!({"message": wire.message, "configuration": {"returnImmediately": true}});
    let reply = wire.result(Operation::SendMessage, params).await?;
    if let Some(problem) = shape::SEND_MESSAGE_RESPONSE.problem(&reply) {
        return failed(format!("{problem}: {reply}"));
    }
    if reply["message"].is_object() {
        return skipped("the agent answers with a message");
    }
    let seen = wire.result(Operation::GetTask, json!({"id": reply["task"]["id"]})).await?;
    ensure(seen["id"] == reply["task"]["id"], || format!("sent {reply}, seen {seen}"))
}

async fn cancel(wire: &Wire) -> Outcome {
    wire.task().await?;
    let params = json!({"message": wire.message, "configuration": {"returnImmediately": true}});
    let reply = wire.result(Operation::SendMessage, params).await?;
    let id = &reply["task"]["id"];
    if id.is_null() {
        return skipped("the agent answers with a message");
    }
    match wire.call(Operation::CancelTask, json!({"id": id})).await? {
        Err(refusal) => refusal.expect(ErrorCode::TaskNotCancelable),
        Ok(task) => {
            if let Some(problem) = shape::TASK.problem(&task) {
                return failed(format!("{problem}: {task}"));
            }
            ensure(task["id"] == *id, || format!("another task is answered: {task}"))
        }
    }
}

async fn other_context(wire: &Wire) -> Outcome {
    let task = wire.task().await?;
    if is_over(&task) {
        return skipped("the task is over, and takes no message at all");
    }
    let mut message = wire.message.clone();
    message["taskId"] = task["id"].clone();
    message["contextId"] = json!("another-context");
    wire.refusal(Operation::SendMessage, json!({"message": message})).await?.expect(ErrorCode::InvalidParams)
}

async fn hidden(wire: &Wire) -> Outcome {
    let Some(other) = &wire.other else { return skipped("nobody else is known; name `other_caller`") };
    let task = wire.task().await?;
    let mut stranger = wire.clone();
    stranger.headers.clone_from(other);
    for operation in [Operation::GetTask, Operation::CancelTask] {
        let refusal = stranger.refusal(operation, json!({"id": task["id"]})).await?;
        refusal.expect(ErrorCode::TaskNotFound)?;
    }
    let page = stranger.result(Operation::ListTasks, json!({"pageSize": 100})).await?;
    let listed =
        page["tasks"].as_array().is_some_and(|tasks| tasks.iter().any(|known| known["id"] == task["id"]));
    ensure(!listed, || "it is listed".to_owned())
}
