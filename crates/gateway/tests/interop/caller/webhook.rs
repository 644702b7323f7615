//! A receiver of notifications: takes everything, and remembers it.

use std::io;

use chancery_sdk::TaskId;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Complaint, Step};

/// It closes when this is dropped.
pub(super) struct Webhook {
    url: String,
    notices: mpsc::Receiver<Notice>,
    listening: JoinHandle<()>,
}

/// One notification as it came.
pub(super) struct Notice {
    headers: Vec<(String, String)>,
    body: Value,
}

/// How many notifications may wait to be looked at.
const QUEUED: usize = 64;

impl Webhook {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let (tell, notices) = mpsc::channel(QUEUED);
        let listening = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut connection = BufReader::new(connection);
                    while take(&mut connection, &tell).await.is_some() {}
                });
            }
        });
        Ok(Self { url, notices, listening })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Everything up to the notification that a task has completed.
    pub(super) async fn until_completed(&mut self, task: &TaskId) -> Step<Vec<Notice>> {
        let mut seen = Vec::new();
        loop {
            let notice =
                self.notices.recv().await.ok_or_else(|| Complaint("the webhook is closed".into()))?;
            let is_end = notice.completes(task);
            seen.push(notice);
            if is_end {
                return Ok(seen);
            }
        }
    }
}

/// Reads a request and answers it, as long as there are some.
async fn take(connection: &mut BufReader<TcpStream>, tell: &mpsc::Sender<Notice>) -> Option<()> {
    line(connection).await?;
    let mut headers = Vec::new();
    while let Some((name, value)) = line(connection).await?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).ok()?;
    tell.send(Notice { headers, body }).await.ok()?;
    connection.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.ok()
}

async fn line(connection: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    connection.read_line(&mut line).await.ok().filter(|length| *length > 0)?;
    Some(line.trim_end().to_owned())
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Notice {
    pub(super) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// Whether it says that the task has completed, in the words of any version: an event of v1.0, or the whole task.
    fn completes(&self, task: &TaskId) -> bool {
        let event =
            ["task", "statusUpdate"].into_iter().find_map(|kind| self.body.get(kind)).unwrap_or(&self.body);
        let id = event.get("taskId").or_else(|| event.get("id")).and_then(Value::as_str);
        let state = event["status"]["state"].as_str();
        id == Some(task.as_str()) && matches!(state, Some("TASK_STATE_COMPLETED" | "completed"))
    }
}
