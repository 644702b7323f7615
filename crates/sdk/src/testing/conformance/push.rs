//! Push notification configurations. Whether anything is posted cannot be seen from here.

use chancery_protocol::{ErrorCode, Operation};
use serde_json::{Value, json};

use super::report::{Outcome, ensure, skipped};
use super::wire::Wire;
use super::{Check, check};

/// Nobody is there: the name is one that never will be.
const RECEIVER: &str = "https://receiver.example/hook";

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("push.refused", Must, "push notifications are refused unless the card declares them", refused),
    check!("push.configs", Must, "a push configuration can be made, seen, listed and deleted", configs),
];

async fn refused(wire: &Wire) -> Outcome {
    if wire.can("pushNotifications") {
        return skipped("the card declares push notifications");
    }
    for (operation, params) in [
        (Operation::CreateTaskPushNotificationConfig, json!({"taskId": "t", "url": RECEIVER})),
        (Operation::ListTaskPushNotificationConfigs, json!({"taskId": "t"})),
        (Operation::GetTaskPushNotificationConfig, json!({"taskId": "t", "id": "c"})),
        (Operation::DeleteTaskPushNotificationConfig, json!({"taskId": "t", "id": "c"})),
    ] {
        wire.refusal(operation, params).await?.expect(ErrorCode::PushNotificationNotSupported)?;
    }
    let configuration = json!({"taskPushNotificationConfig": {"url": RECEIVER}});
    let params = json!({"message": wire.message, "configuration": configuration});
    wire.refusal(Operation::SendMessage, params).await?.expect(ErrorCode::PushNotificationNotSupported)
}

async fn configs(wire: &Wire) -> Outcome {
    if !wire.can("pushNotifications") {
        return skipped("the card declares no push notifications");
    }
    let task = wire.task().await?["id"].clone();
    let config = json!({"taskId": task, "url": RECEIVER});
    let made = match wire.call(Operation::CreateTaskPushNotificationConfig, config).await? {
        Ok(made) => made,
        Err(refusal) => return skipped(format!("the agent does not take {RECEIVER}: {refusal}")),
    };
    let named = made["id"].as_str().is_some_and(|id| !id.is_empty()) && made["url"] == RECEIVER;
    ensure(named && made["taskId"] == task, || format!("what is made has no id, url or taskId: {made}"))?;
    let one = json!({"taskId": task, "id": made["id"]});
    let seen = wire.result(Operation::GetTaskPushNotificationConfig, one.clone()).await?;
    ensure(is_same(&seen, &made), || format!("made was {made}, seen is {seen}"))?;
    let all = json!({"taskId": task});
    let listed = wire.result(Operation::ListTaskPushNotificationConfigs, all.clone()).await?;
    ensure(has(&listed, &made), || format!("{made} is not in {listed}"))?;
    // Twice, since deleting what is not there changes nothing.
    for _ in 0..2 {
        let gone = wire.call(Operation::DeleteTaskPushNotificationConfig, one.clone()).await?;
        if let Err(refusal) = gone {
            refusal.expect(ErrorCode::TaskNotFound)?;
        }
    }
    let listed = wire.result(Operation::ListTaskPushNotificationConfigs, all).await?;
    ensure(!has(&listed, &made), || format!("{made} is deleted, and in {listed}"))
}

fn is_same(one: &Value, other: &Value) -> bool {
    ["id", "taskId", "url"].iter().all(|key| one[*key] == other[*key])
}

fn has(listed: &Value, config: &Value) -> bool {
    listed["configs"].as_array().is_some_and(|configs| configs.iter().any(|known| is_same(known, config)))
}
