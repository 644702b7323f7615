//! What an agent answers: messages, tasks, artifacts, streams, and what it is called by other versions and bindings.

use serde_json::json;

use crate::caller::{Caller, message};
use crate::judge::Scenario;

pub(crate) const ALL: [Scenario; 18] = [
    ("its card", |caller| _ = caller.look(".well-known/agent-card.json")),
    ("a bare message", |caller| _ = caller.say("tck-message-response")),
    ("a bare message, streamed", |caller| {
        caller.stream("SendStreamingMessage", &message("tck-message-response"));
    }),
    ("a task that says something", |caller| looked_at(caller, "tck-complete-task")),
    ("an artifact of text", |caller| looked_at(caller, "tck-artifact-text")),
    ("an artifact with a file", |caller| looked_at(caller, "tck-artifact-file")),
    ("an artifact with the URL of a file", |caller| looked_at(caller, "tck-artifact-file-url")),
    ("an artifact with data", |caller| looked_at(caller, "tck-artifact-data")),
    ("parts of every sort, sent back", |caller| {
        let parts = json!([
            {"text": "tck-echo Grüße, \"世界\"\n", "metadata": {"z": 1, "a": [1.50, 2]}},
            {"data": {"b": 1, "a": [null, true, "é"]}},
            {"raw": "AAEC/f7/", "filename": "x.bin", "mediaType": "application/octet-stream"},
        ]);
        caller.ask(
            "SendMessage",
            &json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": parts}}),
        );
    }),
    ("a stream of chunks", |caller| caller.stream("SendStreamingMessage", &message("tck-stream-chunked"))),
    ("a stream of a file", |caller| {
        caller.stream("SendStreamingMessage", &message("tck-stream-artifact-file"));
    }),
    ("a stream of a task that says nothing", |caller| {
        caller.stream("SendStreamingMessage", &message("tck-stream-002"));
    }),
    ("an answer as a whole to what could be streamed", |caller| looked_at(caller, "tck-stream-chunked")),
    ("a rejection", |caller| both_ways(caller, "tck-reject-task")),
    ("a failure", |caller| both_ways(caller, "tck-task-failure")),
    ("contexts, metadata and ids of the caller's own", |caller| {
        let message = json!({"messageId": "mine", "contextId": "my-context", "role": "ROLE_USER",
            "parts": [{"text": "tck-complete-task"}], "metadata": {"urn:mine": {"b": 1.50, "a": 2}},
            "extensions": ["urn:mine"], "referenceTaskIds": ["no-such-task"]});
        let answer = caller.ask("SendMessage", &json!({"message": message, "metadata": {"urn:mine": true}}));
        let id = answer["result"]["task"]["id"].as_str().unwrap_or_default().to_owned();
        caller.get(&id);
    }),
    ("a caller of v0.3", |caller| {
        caller.headers.push(("A2A-Version", "0.3".to_owned()));
        let ask = |method: &str, params: serde_json::Value| {
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
        };
        let said = |text: &str| json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": text}]}});
        let sent = caller.post("", &ask("message/send", said("tck-artifact-text")));
        caller.post("", &ask("tasks/get", json!({"id": sent["result"]["id"]})));
        caller.post("", &ask("message/send", said("tck-message-response")));
        caller.post("", &ask("message/stream", said("tck-message-response")));
        caller.post("v1/message:send", &json!({"request": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "tck-complete-task"}]}, "configuration": {"blocking": true}}).to_string());
    }),
    ("callers by REST and of the plain profile", |caller| {
        let sent = caller.post("message:send", &message("tck-artifact-text").to_string());
        let id = sent["task"]["id"].as_str().unwrap_or_default().to_owned();
        caller.look(&format!("tasks/{id}"));
        caller.look("tasks/no-such-task");
        caller.headers.push(("X-Request-ID", "one".to_owned()));
        let plain =
            json!({"jsonrpc": "2.0", "id": 1, "method": "invoke", "params": {"text": "tck-artifact-text"}});
        caller.post("invoke", &plain.to_string());
        caller.post("invoke", &plain.to_string());
    }),
];

/// Sends, and looks at what is kept of it, with more or less of what was said.
fn looked_at(caller: &mut Caller, text: &str) {
    let task = caller.say(text);
    caller.get(&task);
    for length in [0, 1, 10] {
        caller.ask("GetTask", &json!({"id": task, "historyLength": length}));
    }
}

/// Sends once as a whole and once as a stream.
fn both_ways(caller: &mut Caller, text: &str) {
    let task = caller.say(text);
    caller.get(&task);
    caller.stream("SendStreamingMessage", &message(text));
}
