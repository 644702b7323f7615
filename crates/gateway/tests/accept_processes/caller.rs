//! A client of the agent that writes down every answer, without ids, times and what differs from run to run.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::http::{Response, exchange};
use crate::normal::normal;
use crate::receiver::{Notice, Receiver};

pub(crate) struct Caller {
    address: SocketAddr,
    /// Where the agent has little time.
    hasty: SocketAddr,
    pub(crate) headers: Vec<(&'static str, String)>,
    said: Vec<String>,
}

/// A stream that is read: each event with its number.
pub(crate) struct Reading {
    response: Response,
    what: String,
    events: Vec<(String, Value)>,
    last: String,
}

/// What a transcript ends with that does not come to its end.
pub(crate) const BROKE_OFF: &str = "it broke off";
/// For how long something may fail to come about.
const PATIENCE: Duration = Duration::from_secs(20);
/// Says where something comes from.
const PROVENANCE: &str = "urn:chancery:ext:provenance:v1";
/// States in which a task may be found, depending on how fast it is looked at.
const RUNNING: [&str; 2] = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"];

// === impl Caller ===

impl Caller {
    pub(crate) fn new(address: SocketAddr, hasty: SocketAddr) -> Self {
        Self { address, hasty, headers: Vec::new(), said: Vec::new() }
    }

    /// The same, where the agent has little time.
    pub(crate) fn hurry(&mut self) {
        self.address = self.hasty;
    }

    pub(crate) fn transcript(&self) -> String {
        normal(&self.said.join("\n").replace(&self.address.to_string(), "<address>"))
    }

    pub(crate) fn note(&mut self, what: &str, value: &Value) {
        self.said.push(format!("{what} {}", plain(value)));
    }

    /// Sends a message and gives the id of the task.
    pub(crate) fn say(&mut self, text: &str) -> String {
        let answer = self.ask("SendMessage", &message(text));
        answer["result"]["task"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Goes on with a task.
    pub(crate) fn answer(&mut self, task: &str, text: &str) {
        self.ask("SendMessage", &follow_up(task, text));
    }

    /// Sends without waiting for what comes of it. How far the task is by then differs from run to run.
    pub(crate) fn start(&mut self, text: &str) -> String {
        let mut params = message(text);
        params["configuration"] = json!({"returnImmediately": true});
        let (status, answer) = self.exchange("SendMessage", &params);
        let task = &answer["result"]["task"];
        let is_running = RUNNING.map(Value::from).contains(&task["status"]["state"]);
        self.said.push(format!("SendMessage at once: {status} running: {is_running}"));
        task["id"].as_str().unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
    }

    pub(crate) fn get(&mut self, task: &str) {
        self.ask("GetTask", &json!({"id": task}));
    }

    pub(crate) fn cancel(&mut self, task: &str) {
        self.ask("CancelTask", &json!({"id": task}));
    }

    /// Looks at a task until it is so. How often is not written down.
    pub(crate) fn wait_for(&mut self, task: &str, state: &str) {
        let begun = Instant::now();
        loop {
            let (_, answer) = self.exchange("GetTask", &json!({"id": task}));
            if answer["result"]["status"]["state"] == state {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "it never is {state}: {answer}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let (status, answer) = self.exchange(method, params);
        self.said.push(format!("{method} {status} {}", plain(&answer)));
        answer
    }

    /// The same without a word about it.
    pub(crate) fn exchange(&self, method: &str, params: &Value) -> (u16, Value) {
        let response = self.open(method, params);
        (response.status, response.json())
    }

    /// A body that is sent as it is.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Value {
        let response = self.request("POST", path, body);
        self.tell(&format!("POST {path}"), response)
    }

    pub(crate) fn look(&mut self, path: &str) -> Value {
        let response = self.request("GET", path, "");
        self.tell(&format!("GET {path}"), response)
    }

    fn tell(&mut self, what: &str, response: Response) -> Value {
        let status = response.status;
        let text = response.text();
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        self.said.push(format!("{what} {status} {}", plain(&value)));
        value
    }

    /// Reads a stream to its end.
    pub(crate) fn stream(&mut self, method: &str, params: &Value) {
        let mut reading = self.watch(method, params);
        while reading.next() {}
        self.end(reading);
    }

    /// Begins to read a stream.
    pub(crate) fn watch(&self, method: &str, params: &Value) -> Reading {
        let response = self.open(method, params);
        let what = format!("{method} {} {}", response.status, response.media_type());
        Reading { response, what, events: Vec::new(), last: String::new() }
    }

    /// Writes down what was read of a stream.
    pub(crate) fn end(&mut self, reading: Reading) {
        self.said.push(reading.what);
        self.said.extend(reading.events.iter().map(|(number, event)| format!("{number}: {}", plain(event))));
    }

    /// Sends a message and goes away before there is an answer, as soon as the task is seen to run.
    pub(crate) fn leave(&mut self, text: &str) -> String {
        let context = "a caller that leaves";
        let mut params = message(text);
        params["message"]["contextId"] = context.into();
        let body = envelope("SendMessage", &params);
        let mut connection = TcpStream::connect(self.address).expect("a connection");
        let head = format!(
            "POST /agents/conformance/ HTTP/1.1\r\nHost: {}\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        std::io::Write::write_all(&mut connection, format!("{head}{body}").as_bytes()).expect("it is taken");
        let begun = Instant::now();
        let id = loop {
            let (_, listed) = self.exchange("ListTasks", &json!({"contextId": context}));
            if let Some(id) = listed["result"]["tasks"][0]["id"].as_str() {
                break id.to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "the task is never seen: {listed}");
            std::thread::sleep(Duration::from_millis(10));
        };
        connection.shutdown(Shutdown::Both).expect("it is still there");
        id
    }

    /// Writes down what came to a receiver of notifications, to the end of the task.
    pub(crate) fn receive(&mut self, receiver: &Receiver) {
        let notices: Vec<Notice> = receiver.rest();
        for notice in notices {
            self.said.push(format!("pushed {}", plain(&notice.event)));
        }
    }

    fn open(&self, method: &str, params: &Value) -> Response {
        self.request("POST", "", &envelope(method, params))
    }

    /// Anything below the path of the agent.
    pub(crate) fn request(&self, verb: &str, path: &str, body: &str) -> Response {
        let mut headers = vec![("Content-Type", "application/json".to_owned())];
        headers.extend(self.headers.iter().cloned());
        if !headers.iter().any(|(name, _)| *name == "A2A-Version") {
            headers.push(("A2A-Version", "1.0".to_owned()));
        }
        exchange(self.address, verb, &format!("/agents/conformance/{path}"), &headers, body.as_bytes())
    }
}

// === impl Reading ===

impl Reading {
    /// Whether there was another event.
    pub(crate) fn next(&mut self) -> bool {
        while let Some(line) = self.response.next_line() {
            let line = line.trim_end();
            if let Some(number) = line.strip_prefix("id:") {
                self.last = number.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                let event = serde_json::from_str(data).expect("it is JSON");
                self.events.push((self.last.clone(), event));
                return true;
            } else if !line.is_empty() && !line.starts_with(':') {
                // It is no stream, but an answer.
                let answer = serde_json::from_str(line).unwrap_or_else(|_| line.into());
                self.events.push((String::new(), answer));
            }
        }
        false
    }

    /// The number of the last event.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    /// The id of the task that it begins with.
    pub(crate) fn task(&self) -> String {
        let (_, first) = self.events.first().unwrap_or_else(|| panic!("nothing came: {}", self.what));
        first["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("no task: {first}")).to_owned()
    }
}

fn envelope(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

pub(crate) fn message(text: &str) -> Value {
    json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

pub(crate) fn follow_up(task: &str, text: &str) -> Value {
    json!({"message": {"messageId": "m-2", "taskId": task, "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// The same without where it comes from, and without signatures, which differ with everything that is signed.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let is_kept = |item: &&Value| item["uri"] != PROVENANCE;
            let mut kept: Vec<_> = items.iter().filter(is_kept).map(plain).collect();
            // In which order a card declares extensions says nothing. What has no URI stays where it is.
            kept.sort_by_key(|item| item["uri"].as_str().map(str::to_owned));
            kept.into()
        }
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(name, _)| *name != PROVENANCE && *name != "signatures");
            let plain = |(name, value): (&String, &Value)| match name.as_str() {
                // It depends on what was played before.
                "remainingMicroUsd" => (name.clone(), "<remaining>".into()),
                "timestamp" => (name.clone(), "<time>".into()),
                _ => (name.clone(), plain(value)),
            };
            let kept: Map<String, Value> = kept.map(plain).collect();
            let is_empty = |name: &str, value: &Value| name == "metadata" && *value == json!({});
            Value::Object(kept.into_iter().filter(|(name, value)| !is_empty(name, value)).collect())
        }
        // What goes through Protocol Buffers is a double: 2 is the same as 2.0.
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}
