//! A receiver of push notifications: takes everything, and remembers it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::schema;

#[derive(Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    notices: mpsc::Receiver<Notice>,
}

/// One notification as it came.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) request_line: String,
    headers: Vec<(String, String)>,
    pub(crate) event: Value,
}

/// For how long nothing may come.
const PATIENCE: Duration = Duration::from_secs(10);

// === impl Receiver ===

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().unwrap();
        let (tell, notices) = mpsc::channel();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || while take(&connection, &tell).is_some() {});
            }
        });
        Self { address, notices }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn next(&self) -> Notice {
        let notice = self.notices.recv_timeout(PATIENCE).expect("a notification");
        schema::check(&schema::STREAM_RESPONSE, &notice.event);
        notice
    }

    /// Everything up to the end of the task.
    pub(crate) fn rest(&self) -> Vec<Notice> {
        let mut notices = vec![self.next()];
        while !notices.last().is_some_and(Notice::is_end) {
            notices.push(self.next());
        }
        notices
    }

    /// Whether nothing has come that was not asked for.
    pub(crate) fn is_silent(&self) -> bool {
        self.notices.try_recv().is_err()
    }
}

/// Reads a request and answers it, as long as there are some.
fn take(connection: &TcpStream, tell: &mpsc::Sender<Notice>) -> Option<()> {
    let mut lines = BufReader::new(connection);
    let request_line = line(&mut lines)?;
    let mut headers = Vec::new();
    while let Some((name, value)) = line(&mut lines)?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let event = serde_json::from_slice(&body).ok()?;
    tell.send(Notice { request_line, headers, event }).ok()?;
    // The sender waits for the answer, so nothing of the next request has been read yet.
    (&*connection).write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()
}

fn line(source: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    source.read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(line.trim_end().to_owned())
}

// === impl Notice ===

impl Notice {
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    pub(crate) fn state(&self) -> Option<&str> {
        ["task", "statusUpdate"].iter().find_map(|kind| self.event[kind]["status"]["state"].as_str())
    }

    fn is_end(&self) -> bool {
        ["TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"].iter().any(|end| self.state() == Some(end))
    }
}
