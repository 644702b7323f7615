//! The requests, as bytes that are written as they are.

use std::net::SocketAddr;

/// The text of every unary message; `limit` knows it too, for its canned task.
pub(crate) const TEXT: &str = include_str!("../../message.txt");
const MESSAGE_ID: &str = "01930000-0000-7000-8000-000000000000";

/// How a message is put.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speech {
    JsonRpc,
    /// HTTP+JSON.
    Rest,
    /// JSON-RPC of version 0.3.
    OldJsonRpc,
}

/// One request; its message id can be changed in place, so that no two calls share one.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the last twelve digits of the message id are, if it has one.
    id_at: Option<usize>,
}

// === impl Request ===

impl Request {
    pub(crate) fn send_message(to: SocketAddr) -> Self {
        Self::message(to, "SendMessage", TEXT)
    }

    pub(crate) fn stream(to: SocketAddr, chunks: u32, pause_ms: u32) -> Self {
        Self::message(to, "SendStreamingMessage", &format!("stream {chunks} {pause_ms}"))
    }

    /// The same two, however they are put.
    pub(crate) fn send_message_in(speech: Speech, to: SocketAddr) -> Self {
        Self::message_in(speech, to, ["SendMessage", "message:send", "message/send"], TEXT)
    }

    pub(crate) fn stream_in(speech: Speech, to: SocketAddr, chunks: u32, pause_ms: u32) -> Self {
        let names = ["SendStreamingMessage", "message:stream", "message/stream"];
        Self::message_in(speech, to, names, &format!("stream {chunks} {pause_ms}"))
    }

    fn message_in(speech: Speech, to: SocketAddr, [method, path, old]: [&str; 3], text: &str) -> Self {
        match speech {
            Speech::JsonRpc => Self::message(to, method, text),
            Speech::Rest => {
                let body = format!(r#"{{"message":{}}}"#, message_json(text));
                Self::post(to, &format!("/{path}"), "A2A-Version: 1.0\r\n", &body)
            }
            Speech::OldJsonRpc => {
                let message = format!(
                    r#"{{"kind":"message","messageId":"{MESSAGE_ID}","role":"user","parts":[{{"kind":"text","text":"{text}"}}]}}"#
                );
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"{old}","params":{{"message":{message}}}}}"#
                );
                Self::post(to, "/", "", &body)
            }
        }
    }

    /// Begins a task that gives one chunk and then works for an hour; answered at once.
    pub(crate) fn long_work(to: SocketAddr) -> Self {
        let message = message_json("stream 2 3600000");
        let configuration = r#"{"returnImmediately":true}"#;
        Self::call(to, "SendMessage", &format!(r#"{{"message":{message},"configuration":{configuration}}}"#))
    }

    pub(crate) fn subscribe(to: SocketAddr, id: &str) -> Self {
        Self::call(to, "SubscribeToTask", &format!(r#"{{"id":"{id}"}}"#))
    }

    pub(crate) fn list_tasks(to: SocketAddr) -> Self {
        Self::call(to, "ListTasks", r#"{"pageSize":50}"#)
    }

    pub(crate) fn get_task(to: SocketAddr, id: &str) -> Self {
        Self::call(to, "GetTask", &format!(r#"{{"id":"{id}"}}"#))
    }

    fn message(to: SocketAddr, method: &str, text: &str) -> Self {
        Self::call(to, method, &format!(r#"{{"message":{}}}"#, message_json(text)))
    }

    fn call(to: SocketAddr, method: &str, params: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Self::post(to, "/", "A2A-Version: 1.0\r\n", &body)
    }

    fn post(to: SocketAddr, path: &str, version: &str, body: &str) -> Self {
        let bytes = format!(
            "POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{version}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes();
        let id_at = memchr::memmem::find(&bytes, MESSAGE_ID.as_bytes()).map(|at| at + MESSAGE_ID.len() - 12);
        Self { bytes, id_at }
    }

    /// The bytes to write, under the message id that ends in `number`.
    pub(crate) fn numbered(&mut self, number: u64) -> &[u8] {
        if let Some(at) = self.id_at {
            for (place, digit) in self.bytes[at..at + 12].iter_mut().rev().enumerate() {
                *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
            }
        }
        &self.bytes
    }
}

fn message_json(text: &str) -> String {
    format!(r#"{{"messageId":"{MESSAGE_ID}","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_the_message_in_place() {
        let mut request = Request::send_message(SocketAddr::from(([127, 0, 0, 1], 80)));
        let text = String::from_utf8(request.numbered(0xab_cdef).to_vec()).unwrap();
        assert!(text.contains(r#""messageId":"01930000-0000-7000-8000-000000abcdef""#));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
}
