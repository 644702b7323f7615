//! Lists of tasks: what they have, in which order, page by page.

use chancery_protocol::{ErrorCode, Operation, Timestamp};
use serde_json::{Value, json};

use super::report::{Outcome, Stop, ensure, failed, skipped};
use super::wire::Wire;
use super::{Check, check, shape};

/// How many pages are looked at.
const MAX_PAGES: usize = 50;

pub(super) static CHECKS: &[Check<Wire>] = &[
    check!("list.page", Must, "a list has all of its members, and the task in it", page),
    check!("list.artifacts", Must, "artifacts are listed only if asked for", artifacts),
    check!("list.order", Must, "the newest status comes first", order),
    check!("list.pages", Must, "pages join to the whole list, without gap or duplicate", pages),
    check!("list.nothing", Must, "a context without tasks has an empty list", nothing),
    check!("list.status", Must, "a list by state has no task in another state", status),
    check!("list.refused", Must, "page sizes and tokens that are none are refused", refused),
];

async fn list(wire: &Wire, params: Value) -> Result<Value, Stop> {
    let page = wire.result(Operation::ListTasks, params).await?;
    match shape::LIST_TASKS_RESPONSE.problem(&page) {
        None => Ok(page),
        Some(problem) => failed(format!("{problem}: {}", super::http::excerpt(&page.to_string()))),
    }
}

fn ids(page: &Value) -> Vec<&Value> {
    page["tasks"].as_array().into_iter().flatten().map(|task| &task["id"]).collect()
}

/// The context of the task that is known; there is a list for it.
async fn context(wire: &Wire) -> Result<(Value, Value), Stop> {
    let task = wire.task().await?;
    let context = task["contextId"].clone();
    if context.is_null() { skipped("tasks have no context") } else { Ok((task, context)) }
}

async fn page(wire: &Wire) -> Outcome {
    let (task, context) = context(wire).await?;
    let page = list(wire, json!({"contextId": context})).await?;
    ensure(ids(&page).contains(&&task["id"]), || format!("{} is not in it: {page}", task["id"]))?;
    let total = page["totalSize"].as_u64().unwrap_or_default();
    ensure(total >= ids(&page).len() as u64, || format!("it has more than its total: {page}"))
}

async fn artifacts(wire: &Wire) -> Outcome {
    let (_, context) = context(wire).await?;
    for params in [json!({"contextId": context}), json!({"contextId": context, "includeArtifacts": false})] {
        let page = list(wire, params).await?;
        let mut tasks = page["tasks"].as_array().into_iter().flatten();
        ensure(tasks.all(|task| task.get("artifacts").is_none()), || format!("there are some: {page}"))?;
    }
    list(wire, json!({"contextId": context, "includeArtifacts": true})).await.map(|_| ())
}

async fn order(wire: &Wire) -> Outcome {
    wire.task().await?;
    let page = list(wire, json!({"pageSize": 100})).await?;
    let times = page["tasks"].as_array().into_iter().flatten();
    let times = times.filter_map(|task| Timestamp::parse(task["status"]["timestamp"].as_str()?).ok());
    let times: Vec<_> = times.collect();
    ensure(times.is_sorted_by(|one, next| one >= next), || format!("the times are {times:?}"))
}

async fn pages(wire: &Wire) -> Outcome {
    let (_, context) = context(wire).await?;
    let mut message = wire.message.clone();
    message["contextId"] = context.clone();
    if let Err(refusal) = wire.call(Operation::SendMessage, json!({"message": message})).await? {
        return skipped(format!("there cannot be two tasks in a context: {refusal}"));
    }
    let whole = list(wire, json!({"contextId": context})).await?;
    let (mut found, mut token) = (Vec::new(), json!(""));
    for _ in 0..MAX_PAGES {
        let page = list(wire, json!({"contextId": context, "pageSize": 1, "pageToken": token})).await?;
        ensure(ids(&page).len() <= 1, || format!("a page of one has more: {page}"))?;
        ensure(page["pageSize"] == 1, || format!("`pageSize` is not that which was asked for: {page}"))?;
        ensure(page["totalSize"] == whole["totalSize"], || format!("the total changes: {page}"))?;
        found.extend(ids(&page).into_iter().cloned());
        token = page["nextPageToken"].clone();
        if token == "" {
            break;
        }
    }
    ensure(token == "", || format!("there is no last page among {MAX_PAGES}"))?;
    let expected = ids(&whole);
    ensure(found.iter().eq(expected), || format!("the pages have {found:?}, the list is {whole}"))
}

async fn nothing(wire: &Wire) -> Outcome {
    let page = list(wire, json!({"contextId": "a-context-that-nobody-has-named"})).await?;
    let empty = page["tasks"] == json!([]) && page["totalSize"] == 0 && page["nextPageToken"] == "";
    ensure(empty, || page.to_string())
}

async fn status(wire: &Wire) -> Outcome {
    wire.task().await?;
    for state in ["TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"] {
        let page = list(wire, json!({"status": state})).await?;
        let mut tasks = page["tasks"].as_array().into_iter().flatten();
        ensure(tasks.all(|task| task["status"]["state"] == state), || format!("{state}: {page}"))?;
    }
    Ok(())
}

async fn refused(wire: &Wire) -> Outcome {
    for params in [
        json!({"pageSize": 0}),
        json!({"pageSize": -1}),
        json!({"pageSize": 101}),
        json!({"pageToken": "no-token-of-yours"}),
        json!({"historyLength": -1}),
        json!({"status": "TASK_STATE_UNHEARD_OF"}),
    ] {
        match wire.call(Operation::ListTasks, params.clone()).await? {
            Ok(page) => return failed(format!("{params} is not refused: {page}")),
            Err(refusal) => refusal.expect(ErrorCode::InvalidParams)?,
        }
    }
    Ok(())
}
