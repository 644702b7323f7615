//! A keep-alive connection that understands just enough HTTP/1.1 to tell where a reply ends.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::sse::{Dechunker, EventCounter};

pub(crate) struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// Where the digits of the status are in an answer.
const STATUS: std::ops::Range<usize> = "HTTP/1.1 ".len().."HTTP/1.1 200".len();

/// How long the body is.
enum Length {
    Known(usize),
    Chunked,
}

/// What came of one stream.
pub(crate) struct StreamEnd {
    pub(crate) events: u64,
    /// Whether the task was seen to complete.
    pub(crate) complete: bool,
}

// === impl Connection ===

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// One unary call; the body of a 200 with a result, or an error.
    pub(crate) async fn call(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.socket.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = self.head().await?;
        let Length::Known(length) = length else {
            bail!("a unary reply without Content-Length");
        };
        while self.buffer.len() < head + length {
            self.fill().await?;
        }
        let body = &self.buffer[head..head + length];
        let is_answer = body.starts_with(br#"{"task""#) || memmem::find(body, br#""result""#).is_some();
        ensure!(is_answer, "no result: {}", String::from_utf8_lossy(body));
        Ok(body)
    }

    /// The status that one call is answered with; nothing more can be asked here then.
    pub(crate) async fn status(mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.socket.write_all(request).await?;
        while self.buffer.len() < STATUS.end {
            self.fill().await?;
        }
        Ok(std::str::from_utf8(&self.buffer[STATUS])?.parse()?)
    }

    /// One streaming call, to its end; `on_events` hears of new events as they arrive.
    pub(crate) async fn stream(
        &mut self,
        request: &[u8],
        mut on_events: impl FnMut(u64),
    ) -> anyhow::Result<StreamEnd> {
        self.socket.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = self.head().await?;
        if let Length::Known(_) = length {
            bail!("not a stream: {}", String::from_utf8_lossy(&self.buffer[head..]));
        }
        let (mut chunks, mut events) = (Dechunker::default(), EventCounter::default());
        self.buffer.drain(..head);
        loop {
            let before = events.count();
            chunks.feed(&self.buffer, |data| events.feed(data))?;
            if events.count() > before {
                on_events(events.count() - before);
            }
            if chunks.done() {
                return Ok(StreamEnd { events: events.count(), complete: events.ends_completed() });
            }
            self.buffer.clear();
            self.fill().await?;
        }
    }

    /// Reads until the header is whole; where the body starts, and how long it is.
    async fn head(&mut self) -> anyhow::Result<(usize, Length)> {
        let end = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.fill().await?;
        };
        let head = &self.buffer[..end];
        ensure!(head.starts_with(b"HTTP/1.1 200"), "not a 200: {}", String::from_utf8_lossy(&self.buffer));
        Ok((end + 4, Length::of(head)?))
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        let read = self.socket.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

// === impl Length ===

impl Length {
    fn of(head: &[u8]) -> anyhow::Result<Self> {
        for line in head.split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                let digits = std::str::from_utf8(value)?;
                return Ok(Self::Known(digits.parse().context("a Content-Length that is no number")?));
            }
            if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
                return Ok(Self::Chunked);
            }
        }
        bail!("a reply of unknown length: {}", String::from_utf8_lossy(head))
    }
}
