//! The errors of the protocol.

use serde_json::json;

use crate::caller::{follow_up, message};
use crate::judge::Scenario;

pub(crate) const ALL: [Scenario; 6] = [
    ("tasks that are not there", |caller| {
        for method in ["GetTask", "CancelTask"] {
            caller.ask(method, &json!({"id": "no-such-task"}));
        }
        caller.ask("SendMessage", &follow_up("no-such-task", "hello"));
        caller.ask("GetTaskPushNotificationConfig", &json!({"taskId": "no-such-task", "id": "x"}));
        caller.stream("SubscribeToTask", &json!({"id": "no-such-task"}));
        caller.stream("SendStreamingMessage", &follow_up("no-such-task", "hello"));
    }),
    ("tasks that are over", |caller| {
        let task = caller.say("tck-complete-task");
        caller.cancel(&task);
        caller.answer(&task, "more");
        caller.stream("SubscribeToTask", &json!({"id": task}));
        caller.stream("SendStreamingMessage", &follow_up(&task, "more"));
    }),
    ("a task in the wrong context", |caller| {
        let task = caller.say("tck-input-required");
        let mut params = follow_up(&task, "hello");
        params["message"]["contextId"] = "another".into();
        caller.ask("SendMessage", &params);
    }),
    ("media types that it does not take", |caller| {
        let parts = json!([{"raw": "AAEC", "mediaType": "image/png"}]);
        caller
            .ask("SendMessage", &json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}));
        let mut params = message("tck-complete-task");
        params["configuration"] = json!({"acceptedOutputModes": ["image/png"]});
        caller.ask("SendMessage", &params);
    }),
    ("what cannot be asked", |caller| {
        caller.ask("NoSuchMethod", &json!({}));
        caller.ask("SendMessage", &json!({}));
        caller.ask("SendMessage", &json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}));
        caller.ask("GetTask", &json!({"id": 7}));
        caller.ask("ListTasks", &json!({"pageSize": 1000}));
        caller.ask("GetExtendedAgentCard", &json!({}));
        caller.post("", "{\"jsonrpc\": ");
        caller.post("", "[]");
    }),
    ("a version that nobody speaks", |caller| {
        caller.headers.push(("A2A-Version", "99.0".to_owned()));
        caller.say("tck-complete-task");
    }),
];
