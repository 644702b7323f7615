//! The requests, as bytes that are written as they are.

use std::net::SocketAddr;

/// The text of every unary message; `limit` knows it too, for its canned task.
pub(crate) const TEXT: &str = include_str!("../../message.txt");
const MESSAGE_ID: &str = "01930000-0000-7000-8000-000000000000";

/// Where the agent behind a gateway is called, and with what key.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) key: Option<String>,
}

/// One request; its message id can be changed in place, so that no two calls share one.
#[derive(Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    /// Where the last twelve digits of the message id are, if it has one.
    id_at: Option<usize>,
}

// === impl Door ===

impl Door {
    /// The same with a key that nobody has, if it needs one.
    pub(crate) fn with_another_key(&self) -> Option<Self> {
        let mut key = self.key.clone()?;
        let last = key.pop()?;
        key.push(if last == '0' { '1' } else { '0' });
        Some(Self { key: Some(key), ..self.clone() })
    }
}

// === impl Request ===

impl Request {
    pub(crate) fn send_message(to: SocketAddr) -> Self {
        Self::message(to, "SendMessage", TEXT)
    }

    pub(crate) fn stream(to: SocketAddr, chunks: u32, pause_ms: u32) -> Self {
        Self::message(to, "SendStreamingMessage", &format!("stream {chunks} {pause_ms}"))
    }

    /// The same two, through a gateway.
    pub(crate) fn send_message_through(door: &Door) -> Self {
        Self::post(door, "SendMessage", &format!(r#"{{"message":{}}}"#, message_json(TEXT)))
    }

    pub(crate) fn stream_through(door: &Door, chunks: u32) -> Self {
        let message = message_json(&format!("stream {chunks} 0"));
        Self::post(door, "SendStreamingMessage", &format!(r#"{{"message":{message}}}"#))
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
        Self::post(&Door { address: to, path: "/", key: None }, method, params)
    }

    fn post(door: &Door, method: &str, params: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let Door { address, path, key } = door;
        let key = key.as_ref().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let bytes = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nA2A-Version: 1.0\r\n{key}Content-Length: {}\r\n\r\n{body}",
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
    fn another_key_is_as_long() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let door = |key: &str| Door { address, path: "/", key: Some(key.to_owned()) };
        assert_eq!(door("chk_7").with_another_key().unwrap().key.unwrap(), "chk_0");
        assert_eq!(door("chk_0").with_another_key().unwrap().key.unwrap(), "chk_1");
        assert!(Door { key: None, ..door("") }.with_another_key().is_none());
    }

    #[test]
    fn numbers_the_message_in_place() {
        let mut request = Request::send_message(SocketAddr::from(([127, 0, 0, 1], 80)));
        let text = String::from_utf8(request.numbered(0xab_cdef).to_vec()).unwrap();
        assert!(text.contains(r#""messageId":"01930000-0000-7000-8000-000000abcdef""#));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
}
