//! Counts server-sent events in a chunked body, whatever way its bytes were cut.

use anyhow::bail;
use memchr::{memchr, memmem};

/// How much of the end of a stream is kept to see how it ended.
const TAIL: usize = 1024;

/// Takes the chunked transfer encoding off.
#[derive(Default)]
pub(crate) struct Dechunker {
    state: State,
}

#[derive(Clone, Copy, Default)]
enum State {
    /// Before a chunk's size.
    #[default]
    Start,
    /// In the digits of the size.
    Size(usize),
    /// Behind the digits, before the line feed.
    Extension(usize),
    /// In the data, with so much left.
    Data(usize),
    /// Behind the data, before the line feed.
    AfterData,
    /// Behind the last chunk, before the line feed. No server here sends trailers.
    Ending,
    Done,
}

/// Counts events by their `data:` lines; each of ours has exactly one.
pub(crate) struct EventCounter {
    count: u64,
    at_line_start: bool,
    tail: Vec<u8>,
}

// === impl Dechunker ===

impl Dechunker {
    pub(crate) fn done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Passes the data in `bytes` on to `sink`, slice by slice.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut sink: impl FnMut(&[u8])) -> anyhow::Result<()> {
        while let Some(&byte) = bytes.first() {
            if let State::Data(left) = self.state {
                let take = left.min(bytes.len());
                sink(&bytes[..take]);
                bytes = &bytes[take..];
                self.state = if take == left { State::AfterData } else { State::Data(left - take) };
                continue;
            }
            self.state = self.state.step(byte)?;
            bytes = &bytes[1..];
        }
        Ok(())
    }
}

// === impl State ===

impl State {
    /// The state after one byte that is not data.
    fn step(self, byte: u8) -> anyhow::Result<Self> {
        Ok(match (self, byte) {
            (Self::Start, _) => Self::Size(digit(byte)?),
            (Self::Size(size) | Self::Extension(size), b'\n') if size == 0 => Self::Ending,
            (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size),
            (Self::Size(size), b'\r' | b';') | (Self::Extension(size), _) => Self::Extension(size),
            (Self::Size(size), _) => Self::Size(size * 16 + digit(byte)?),
            (Self::AfterData, b'\n') => Self::Start,
            (Self::AfterData, b'\r') => Self::AfterData,
            (Self::Ending, b'\n') => Self::Done,
            (Self::Ending, b'\r') => Self::Ending,
            _ => bail!("bad chunked encoding"),
        })
    }
}

fn digit(byte: u8) -> anyhow::Result<usize> {
    match char::from(byte).to_digit(16) {
        Some(digit) => Ok(digit as usize),
        None => bail!("bad chunk size"),
    }
}

// === impl EventCounter ===

impl Default for EventCounter {
    fn default() -> Self {
        Self { count: 0, at_line_start: true, tail: Vec::with_capacity(2 * TAIL) }
    }
}

impl EventCounter {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether the last event said that the task is completed.
    pub(crate) fn ends_completed(&self) -> bool {
        let last = memmem::rfind(&self.tail, b"data:").map_or(&self.tail[..], |at| &self.tail[at..]);
        memmem::find(last, b"TASK_STATE_COMPLETED").is_some()
            || memmem::find(last, br#""state":"completed""#).is_some()
    }

    pub(crate) fn feed(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            if self.at_line_start && rest[0] == b'd' {
                self.count += 1;
            }
            match memchr(b'\n', rest) {
                Some(end) => {
                    self.at_line_start = true;
                    rest = &rest[end + 1..];
                }
                None => {
                    self.at_line_start = false;
                    break;
                }
            }
        }
        self.keep(data);
    }

    fn keep(&mut self, data: &[u8]) {
        let last = &data[data.len().saturating_sub(TAIL)..];
        if self.tail.len() + last.len() > 2 * TAIL {
            let surplus = self.tail.len().saturating_sub(TAIL);
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str =
        "id: 1\ndata: {\"a\":1}\n\n: still here\n\ndata: {\"state\":\"TASK_STATE_COMPLETED\"}\n\n";

    #[test]
    fn counts_events_however_the_bytes_are_cut() {
        let (left, right) = EVENTS.split_at(11);
        let body = format!("{:x}\r\n{left}\r\n{:x};x=y\r\n{right}\r\n0\r\n\r\n", left.len(), right.len());
        for size in 1..body.len() {
            let (mut chunks, mut events) = (Dechunker::default(), EventCounter::default());
            for piece in body.as_bytes().chunks(size) {
                assert!(!chunks.done());
                chunks.feed(piece, |data| events.feed(data)).unwrap();
            }
            assert!(chunks.done());
            assert_eq!(events.count(), 2);
            assert!(events.ends_completed());
        }
    }

    #[test]
    fn sees_a_stream_that_was_cut_short() {
        let mut events = EventCounter::default();
        events.feed(EVENTS.as_bytes());
        events.feed(b"data: {\"error\":{}}\n\n");
        assert!(!events.ends_completed());
    }

    #[test]
    fn refuses_a_body_that_is_not_chunked() {
        assert!(Dechunker::default().feed(b"data: x", |_| {}).is_err());
    }
}
