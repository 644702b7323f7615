//! What a peer says to one request, down to the bytes and when they come.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most that is written as the answer to one request, by an answer that never ends.
const MAX_ENDLESS_BYTES: usize = 256 << 20;
/// How long nothing is said, at most, to a client that never gives up.
const MAX_SILENCE: Duration = Duration::from_secs(600);

/// An answer, good or bad. It begins as a good one, and what follows makes it worse.
///
/// ```
/// use chancery_sdk::testing::Reply;
///
/// let half = Reply::json(&serde_json::json!({"id": "t"})).cut_after(5);
/// let nothing = Reply::silence();
/// let slow = Reply::status(200).body("a body").drip(1, std::time::Duration::from_millis(10));
/// # drop((half, nothing, slow));
/// ```
#[must_use]
#[derive(Clone, Debug)]
pub struct Reply {
    form: Form,
    /// How many bytes of the body are sent.
    cut_after: Option<usize>,
    /// Bytes at a time, and the pause after them.
    drip: Option<(usize, Duration)>,
    /// Repeated after everything else, for as long as it is read.
    endless: Option<Bytes>,
    end: End,
}

#[derive(Clone, Debug)]
enum Form {
    Http { status: u16, headers: Vec<(String, String)>, body: Bytes, length: Length },
    Raw(Bytes),
}

/// How the length of a body is told.
#[derive(Clone, Copy, Debug)]
enum Length {
    True,
    Claimed(u64),
    Chunked,
    UntilClose,
}

/// What happens to the connection afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It takes the next request, unless the answer was cut.
    Keep,
    Close,
    Reset,
    Silence,
}

// === impl Reply ===

impl Reply {
    /// A status and an empty body.
    pub fn status(status: u16) -> Self {
        let form = Form::Http { status, headers: Vec::new(), body: Bytes::new(), length: Length::True };
        Self { form, cut_after: None, drip: None, endless: None, end: End::Keep }
    }

    /// Status 200 and JSON.
    pub fn json(body: &Value) -> Self {
        Self::status(200).header("content-type", "application/json").body(body.to_string())
    }

    /// Status 200 and server-sent events, in chunks.
    pub fn events(frames: impl Into<Bytes>) -> Self {
        Self::status(200).header("content-type", "text/event-stream").body(frames).chunked()
    }

    /// These bytes and nothing else, after which the connection is closed.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        let form = Form::Raw(bytes.into());
        Self { form, cut_after: None, drip: None, endless: None, end: End::Close }
    }

    /// Nothing, until the client gives up.
    pub fn silence() -> Self {
        Self::raw(Bytes::new()).then_silence()
    }

    /// Nothing: the connection is closed.
    pub fn close() -> Self {
        Self::raw(Bytes::new())
    }

    /// Nothing: the connection is reset.
    pub fn reset() -> Self {
        Self::raw(Bytes::new()).then_reset()
    }

    /// Another status.
    pub fn with_status(mut self, code: u16) -> Self {
        if let Form::Http { status, .. } = &mut self.form {
            *status = code;
        }
        self
    }

    /// One more header, or another value of one.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Form::Http { headers, .. } = &mut self.form {
            headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The body.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Form::Http { body, .. } = &mut self.form {
            *body = bytes.into();
        }
        self
    }

    /// Says that the body has this length, whatever it has.
    pub fn content_length(self, claimed: u64) -> Self {
        self.length(Length::Claimed(claimed))
    }

    /// Sends the body as one chunk, and says that it has ended.
    pub fn chunked(self) -> Self {
        self.length(Length::Chunked)
    }

    /// Does not say where the body ends: that is where the connection does.
    pub fn until_close(mut self) -> Self {
        if self.end == End::Keep {
            self.end = End::Close;
        }
        self.length(Length::UntilClose)
    }

    /// Sends only so many bytes of the body and then closes the connection, in the middle of a chunk if there is one.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        if self.end == End::Keep {
            self.end = End::Close;
        }
        self
    }

    /// Sends so many bytes at a time, with a pause after each.
    pub fn drip(mut self, bytes: usize, pause: Duration) -> Self {
        self.drip = Some((bytes.max(1), pause));
        self
    }

    /// Sends these bytes again and again after everything else, for as long as they are read, and then closes the
    /// connection. They belong to the body if that goes on [`until_close`](Self::until_close).
    pub fn then_endlessly(mut self, bytes: impl Into<Bytes>) -> Self {
        self.endless = Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty());
        if self.end == End::Keep {
            self.end = End::Close;
        }
        self
    }

    /// Says nothing more after this, and leaves the connection open.
    pub fn then_silence(mut self) -> Self {
        self.end = End::Silence;
        self
    }

    /// Resets the connection after this.
    pub fn then_reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }

    fn length(mut self, told: Length) -> Self {
        if let Form::Http { length, .. } = &mut self.form {
            *length = told;
        }
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let (status, headers, body, length) = match &self.form {
            Form::Raw(bytes) => return bytes.to_vec(),
            Form::Http { status, headers, body, length } => (status, headers, body, *length),
        };
        let mut head = format!("HTTP/1.1 {status} As told\r\n");
        for (name, value) in headers {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = match length {
            Length::True => write!(head, "content-length: {}\r\n\r\n", body.len()),
            Length::Claimed(claimed) => write!(head, "content-length: {claimed}\r\n\r\n"),
            Length::Chunked => write!(head, "transfer-encoding: chunked\r\n\r\n"),
            Length::UntilClose => write!(head, "connection: close\r\n\r\n"),
        };
        let mut bytes = head.into_bytes();
        let kept = self.cut_after.unwrap_or(body.len()).min(body.len());
        if !matches!(length, Length::Chunked) {
            bytes.extend_from_slice(&body[..kept]);
            return bytes;
        }
        if !body.is_empty() {
            bytes.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
            bytes.extend_from_slice(&body[..kept]);
        }
        if self.cut_after.is_none() {
            let end: &[u8] = if body.is_empty() { b"0\r\n\r\n" } else { b"\r\n0\r\n\r\n" };
            bytes.extend_from_slice(end);
        }
        bytes
    }

    /// Says it. Tells whether the connection can take another request.
    pub(super) async fn play(&self, stream: &mut TcpStream) -> bool {
        if self.write(stream).await.is_err() {
            return false;
        }
        match self.end {
            End::Keep => true,
            End::Close => false,
            End::Reset => {
                // Closing with unsent time left makes the system reset the connection.
                let _ = stream.set_zero_linger();
                false
            }
            End::Silence => {
                let gone = async { while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {} };
                let _ = tokio::time::timeout(MAX_SILENCE, gone).await;
                false
            }
        }
    }

    async fn write(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let bytes = self.bytes();
        let (size, pause) = self.drip.unwrap_or((bytes.len().max(1), Duration::ZERO));
        for piece in bytes.chunks(size) {
            stream.write_all(piece).await?;
            if self.drip.is_some() {
                tokio::time::sleep(pause).await;
            }
        }
        let Some(endless) = &self.endless else { return Ok(()) };
        let mut left = MAX_ENDLESS_BYTES / endless.len();
        while left > 0 {
            stream.write_all(endless).await?;
            left -= 1;
        }
        Ok(())
    }
}
