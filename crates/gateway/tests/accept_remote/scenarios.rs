//! What a caller may go through with an agent. None of it asks where the agent is.
//!
//! There is no agent here that cannot stream or notify: the gateway does both in the place of one elsewhere that cannot, and its
//! card says so.

#![allow(clippy::needless_pass_by_value, reason = "what is said is written where it is said")]

use std::net::SocketAddr;
use std::thread;

use serde_json::{Value, json};

use crate::actor::{GO, REQUIRED};
use crate::http::{Response, exchange};
use crate::normal::normal;

/// Somebody who talks to agents, and writes down what it is told.
pub(crate) struct Caller {
    address: SocketAddr,
    agent: &'static str,
    headers: Vec<(&'static str, String)>,
    said: Vec<String>,
}

type Scenario = fn(&mut Caller);

pub(crate) const SCENARIOS: [(&str, Scenario); 21] = [
    ("a direct answer", |caller| _ = caller.say("reply")),
    ("a direct answer that takes a while", |caller| _ = caller.say("reply late")),
    ("a direct answer, streamed", |caller| _ = caller.stream("SendStreamingMessage", message("reply"))),
    ("a task", |caller| _ = caller.say("hello")),
    ("artifacts of every sort", |caller| {
        let task = caller.say("artifacts");
        caller.get(&task);
        _ = caller.stream("SendStreamingMessage", message("artifacts"));
    }),
    ("a stream", |caller| _ = caller.stream("SendStreamingMessage", message("stream"))),
    ("a question, and its answer", |caller| {
        let task = caller.say("ask");
        caller.get(&task);
        caller.ask("SendMessage", follow_up(&task, "that one"));
        caller.get(&task);
    }),
    ("a question, and its answer, streamed", |caller| {
        let first = caller.stream("SendStreamingMessage", message("ask"));
        let task = task_in(&first);
        // It goes on when the stream has begun, so that nobody can have missed anything.
        caller.watch("SendStreamingMessage", follow_up(&task, "stream when told"), || GO.add_permits(1));
    }),
    ("a login", |caller| {
        let task = caller.say("auth");
        caller.ask("SendMessage", follow_up(&task, "logged in"));
    }),
    ("a cancel", |caller| {
        let task = caller.start("wait");
        caller.wait_for(&task, "on it");
        caller.ask("CancelTask", json!({ "id": task }));
        caller.get(&task);
        caller.ask("CancelTask", json!({ "id": task }));
    }),
    ("a cancel, watched", |caller| {
        let task = caller.start("wait");
        caller.wait_for(&task, "on it");
        let mut other = Caller::new(caller.address);
        caller.watch("SubscribeToTask", json!({ "id": task }), || {
            other.ask("CancelTask", json!({ "id": task }));
        });
        caller.said.extend(other.said);
    }),
    ("refusals and failures of the agent's own", |caller| {
        for text in ["reject", "fail", "error", "panic"] {
            let task = caller.say(text);
            caller.get(&task);
            _ = caller.stream("SendStreamingMessage", message(text));
        }
    }),
    ("what it cost", |caller| _ = caller.say("usage")),
    ("a deadline", |caller| {
        caller.agent = "hasty";
        let task = caller.say("wait");
        caller.get(&task);
        _ = caller.stream("SendStreamingMessage", message("wait"));
    }),
    ("tasks that are not there", |caller| {
        for method in ["GetTask", "CancelTask"] {
            caller.ask(method, json!({ "id": "no-such-task" }));
        }
        caller.ask("SendMessage", follow_up("no-such-task", "hello"));
        caller.ask("GetTaskPushNotificationConfig", json!({ "taskId": "no-such-task", "id": "x" }));
        _ = caller.stream("SubscribeToTask", json!({ "id": "no-such-task" }));
    }),
    ("tasks that are over", |caller| {
        let task = caller.say("hello");
        caller.ask("CancelTask", json!({ "id": task }));
        caller.ask("SendMessage", follow_up(&task, "more"));
        _ = caller.stream("SubscribeToTask", json!({ "id": task }));
    }),
    ("what cannot be asked", |caller| {
        caller.ask("NoSuchMethod", json!({}));
        caller.ask("SendMessage", json!({}));
        caller
            .ask("SendMessage", json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [] } }));
        caller.ask("GetTask", json!({ "id": 7 }));
        caller.ask("ListTasks", json!({ "pageSize": 1000 }));
        caller.ask("GetExtendedAgentCard", json!({}));
        let image = json!([{ "raw": "AAEC", "mediaType": "image/png" }]);
        caller.ask(
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": image } }),
        );
    }),
    ("versions and extensions", |caller| {
        caller.agent = "strict";
        caller.say("hello");
        caller.headers.push(("A2A-Extensions", REQUIRED.to_owned()));
        caller.say("hello");
        caller.headers.push(("A2A-Version", "99.0".to_owned()));
        caller.say("hello");
    }),
    ("receivers of notifications", |caller| {
        let task = caller.say("ask");
        let config = json!({ "taskId": task, "id": "c-1", "url": "https://receiver.example/", "token": "t" });
        caller.ask("CreateTaskPushNotificationConfig", config);
        for method in ["GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"] {
            caller.ask("ListTaskPushNotificationConfigs", json!({ "taskId": task }));
            caller.ask(method, json!({ "taskId": task, "id": "c-1" }));
        }
    }),
    ("history and lists", |caller| {
        let task = caller.say("ask");
        caller.ask("SendMessage", follow_up(&task, "that one"));
        for length in [0, 1, 10] {
            caller.ask("GetTask", json!({ "id": task, "historyLength": length }));
        }
        let context = caller.ask("GetTask", json!({ "id": task }))["result"]["contextId"].clone();
        caller.ask("ListTasks", json!({ "contextId": context, "includeArtifacts": true }));
        caller.ask("ListTasks", json!({ "contextId": context, "status": "TASK_STATE_WORKING" }));
    }),
    ("a repeated send", |caller| {
        caller.headers.push(("Idempotency-Key", "once".to_owned()));
        caller.say("hello");
        caller.say("hello");
        caller.say("other");
    }),
];

// === impl Caller ===

impl Caller {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, agent: "actor", headers: Vec::new(), said: Vec::new() }
    }

    /// All that it was told, without what nobody can know beforehand.
    pub(crate) fn transcript(&self) -> String {
        normal(&self.said.join("\n"))
    }

    /// Sends a message and gives the id of the task.
    fn say(&mut self, text: &str) -> String {
        let answer = self.ask("SendMessage", message(text));
        answer["result"]["task"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// The same without waiting for what comes of it.
    fn start(&mut self, text: &str) -> String {
        let mut request = message(text);
        request["configuration"] = json!({ "returnImmediately": true });
        let answer: Value =
            serde_json::from_str(&self.exchange("SendMessage", request).1).expect("it is JSON");
        answer["result"]["task"]["id"].as_str().expect("it has a task").to_owned()
    }

    fn get(&mut self, task: &str) {
        self.ask("GetTask", json!({ "id": task }));
    }

    /// Looks at a task until it says this. How often is not written down.
    fn wait_for(&mut self, task: &str, text: &str) {
        while !self.exchange("GetTask", json!({ "id": task })).1.contains(text) {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let (status, body) = self.exchange(method, params);
        self.said.push(format!("{method} {status} {body}"));
        serde_json::from_str(&body).expect("it is JSON")
    }

    /// What a stream says, frame by frame.
    fn stream(&mut self, method: &str, params: Value) -> String {
        let (status, body) = self.exchange(method, params);
        self.said.push(format!("{method} {status}\n{body}"));
        body
    }

    /// The same, with something done once it has begun.
    fn watch(&mut self, method: &str, params: Value, begun: impl FnOnce()) {
        let mut body = String::new();
        let mut response = self.open(method, &params);
        let mut begun = Some(begun);
        while let Some(line) = response.next_line() {
            body.push_str(&line);
            if line == "\n"
                && let Some(begun) = begun.take()
            {
                begun();
            }
        }
        self.said.push(format!("{method} {}\n{body}", response.status));
    }

    fn exchange(&self, method: &str, params: Value) -> (u16, String) {
        let response = self.open(method, &params);
        (response.status, response.text())
    }

    fn open(&self, method: &str, params: &Value) -> Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut headers = vec![("Content-Type", "application/json".to_owned())];
        headers.extend(self.headers.iter().cloned());
        if !headers.iter().any(|(name, _)| *name == "A2A-Version") {
            headers.push(("A2A-Version", "1.0".to_owned()));
        }
        let target = format!("/agents/{}/", self.agent);
        exchange(self.address, "POST", &target, &headers, body.as_bytes())
    }
}

fn message(text: &str) -> Value {
    let parts = json!([{ "text": text }]);
    json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": parts } })
}

fn follow_up(task: &str, text: &str) -> Value {
    let parts = json!([{ "text": text }]);
    json!({ "message": { "messageId": "m-2", "taskId": task, "role": "ROLE_USER", "parts": parts } })
}

/// The id of the task that a stream begins with.
fn task_in(frames: &str) -> String {
    let first = frames.lines().find_map(|line| line.strip_prefix("data:")).expect("it says something");
    let event: Value = serde_json::from_str(first).expect("it is JSON");
    event["result"]["task"]["id"].as_str().expect("it begins with a task").to_owned()
}
