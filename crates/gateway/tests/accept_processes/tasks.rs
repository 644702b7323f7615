//! What becomes of tasks: questions, cancels, time that is up, callers that leave and come back, notifications, lists.

use serde_json::json;

use crate::caller::{Caller, follow_up, message};
use crate::judge::Scenario;
use crate::receiver::Receiver;

pub(crate) const ALL: [Scenario; 20] = [
    ("a question, and its answer", |caller| {
        let task = caller.say("tck-input-required");
        caller.get(&task);
        caller.answer(&task, "tck-complete-task");
        caller.get(&task);
    }),
    ("questions, until it is done", |caller| {
        let task = caller.say("tck-multi-turn");
        caller.answer(&task, "more");
        caller.answer(&task, "done");
        caller.ask("GetTask", &json!({"id": task, "historyLength": 10}));
    }),
    ("a question and its answer, streamed", |caller| {
        let mut reading = caller.watch("SendStreamingMessage", &message("tck-multi-turn"));
        while reading.next() {}
        let task = reading.task();
        caller.end(reading);
        caller.stream("SendStreamingMessage", &follow_up(&task, "done"));
        caller.get(&task);
    }),
    ("a login", |caller| {
        let task = caller.say("tck-auth-required");
        caller.get(&task);
        caller.answer(&task, "signed in");
        caller.get(&task);
    }),
    ("a cancel", |caller| {
        let task = caller.start("tck-cancel");
        caller.wait_for(&task, "TASK_STATE_WORKING");
        caller.cancel(&task);
        caller.get(&task);
        caller.cancel(&task);
    }),
    ("a cancel of what waits for its caller", |caller| {
        let task = caller.say("tck-input-required");
        caller.cancel(&task);
        caller.answer(&task, "too late");
        caller.get(&task);
    }),
    ("a cancel, watched", |caller| {
        let task = caller.start("tck-cancel");
        caller.wait_for(&task, "TASK_STATE_WORKING");
        let mut reading = caller.watch("SubscribeToTask", &json!({"id": task}));
        reading.next();
        caller.cancel(&task);
        while reading.next() {}
        caller.end(reading);
    }),
    ("a subscription to the end", |caller| {
        let task = caller.start("tck-long-running");
        caller.wait_for(&task, "TASK_STATE_WORKING");
        caller.stream("SubscribeToTask", &json!({"id": task}));
        caller.get(&task);
    }),
    ("a send that returns immediately", |caller| {
        let task = caller.start("tck-long-running");
        caller.wait_for(&task, "TASK_STATE_COMPLETED");
        caller.get(&task);
    }),
    ("a send whose caller leaves", |caller| {
        let task = caller.leave("tck-long-running");
        caller.wait_for(&task, "TASK_STATE_COMPLETED");
        caller.get(&task);
    }),
    ("a stream that is taken up again", |caller| {
        let mut reading = caller.watch("SendStreamingMessage", &message("tck-long-running"));
        reading.next();
        reading.next();
        resume(caller, &reading.task(), reading.last());
        caller.end(reading);
    }),
    ("a stream that is taken up again when it is over", |caller| {
        let mut reading = caller.watch("SendStreamingMessage", &message("tck-stream-chunked"));
        reading.next();
        let seen = reading.last().to_owned();
        while reading.next() {}
        resume(caller, &reading.task(), &seen);
        caller.end(reading);
    }),
    ("a deadline", |caller| {
        caller.hurry();
        let task = caller.say("tck-cancel");
        caller.get(&task);
    }),
    ("a deadline, streamed", |caller| {
        caller.hurry();
        caller.stream("SendStreamingMessage", &message("tck-cancel"));
    }),
    ("a deadline of a send that returned immediately", |caller| {
        caller.hurry();
        let task = caller.start("tck-cancel");
        caller.wait_for(&task, "TASK_STATE_FAILED");
        caller.get(&task);
    }),
    ("notifications", |caller| {
        let receiver = Receiver::start();
        let mut params = message("tck-stream-chunked");
        let push = json!({"id": "c", "url": receiver.url("/hook"), "token": "t"});
        params["configuration"] = json!({"taskPushNotificationConfig": push});
        caller.ask("SendMessage", &params);
        caller.receive(&receiver);
    }),
    ("receivers of notifications", |caller| {
        let task = caller.say("tck-input-required");
        let config = json!({"taskId": task, "id": "c-1", "url": "https://receiver.example/", "token": "t"});
        caller.ask("CreateTaskPushNotificationConfig", &config);
        for method in ["GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"] {
            caller.ask("ListTaskPushNotificationConfigs", &json!({"taskId": task}));
            caller.ask(method, &json!({"taskId": task, "id": "c-1"}));
        }
    }),
    ("lists", |caller| {
        let context = "the-context-of-lists";
        for text in ["tck-complete-task", "tck-input-required", "tck-artifact-text"] {
            let mut params = message(text);
            params["message"]["contextId"] = context.into();
            caller.ask("SendMessage", &params);
        }
        caller.ask("ListTasks", &json!({"contextId": context, "includeArtifacts": true, "historyLength": 5}));
        caller.ask("ListTasks", &json!({"contextId": context, "status": "TASK_STATE_INPUT_REQUIRED"}));
        let (_, page) = caller.exchange("ListTasks", &json!({"contextId": context, "pageSize": 2}));
        let next = page["result"]["nextPageToken"].clone();
        caller.note("a page", &page["result"]["tasks"]);
        caller.ask("ListTasks", &json!({"contextId": context, "pageSize": 2, "pageToken": next}));
    }),
    ("a send that is repeated under a key", |caller| {
        caller.headers.push(("Idempotency-Key", "once".to_owned()));
        caller.say("tck-artifact-text");
        caller.say("tck-artifact-text");
        caller.say("tck-complete-task");
    }),
    ("a bare message that is repeated under a key", |caller| {
        caller.headers.push(("Idempotency-Key", "twice".to_owned()));
        caller.say("tck-message-response");
        caller.say("tck-message-response");
        caller.say("tck-complete-task");
    }),
];

/// Takes up the stream of a task after an event.
fn resume(caller: &mut Caller, task: &str, after: &str) {
    caller.headers.push(("Last-Event-ID", after.to_owned()));
    caller.stream("SubscribeToTask", &json!({"id": task}));
    caller.headers.pop();
}
