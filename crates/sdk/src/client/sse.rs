//! Server-sent events, read piece by piece as they come, within limits.
//!
//! Any way of cutting the same bytes into pieces gives the same frames. What is left when the bytes end belongs to a
//! frame that never was.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// One frame: what stood between two empty lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its `id`, if that is a number; 0 if not.
    pub(crate) number: u64,
    /// Its `data`, the lines of which are joined by line feeds.
    pub(crate) data: Bytes,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The most bytes that one frame may have.
    limit: usize,
    /// A line that has not ended yet.
    line: BytesMut,
    data: BytesMut,
    has_data: bool,
    number: u64,
    frames: VecDeque<Frame>,
    /// A line feed right now belongs to the carriage return before it.
    after_return: bool,
    /// Whether nothing has been read yet.
    at_start: bool,
    /// How long the peer wants us to wait before coming back.
    pub(crate) retry: Option<Duration>,
}

/// A frame that is larger than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrameTooLarge;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Reader {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: BytesMut::new(),
            data: BytesMut::new(),
            has_data: false,
            number: 0,
            frames: VecDeque::new(),
            after_return: false,
            at_start: true,
            retry: None,
        }
    }

    /// The most bytes that one frame may have.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The next frame that is complete.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, mut piece: &[u8]) -> Result<(), FrameTooLarge> {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            let (line, ending, rest) = (&piece[..end], piece[end], &piece[end + 1..]);
            piece = rest;
            let second_half = std::mem::replace(&mut self.after_return, ending == b'\r');
            if second_half && ending == b'\n' && line.is_empty() {
                continue;
            }
            self.check(line.len())?;
            self.end_line(line);
        }
        self.check(piece.len())?;
        if !piece.is_empty() {
            self.after_return = false;
            self.line.extend_from_slice(piece);
        }
        Ok(())
    }

    fn check(&self, more: usize) -> Result<(), FrameTooLarge> {
        let held = self.line.len() + self.data.len();
        if held.saturating_add(more) > self.limit { Err(FrameTooLarge) } else { Ok(()) }
    }

    fn end_line(&mut self, end: &[u8]) {
        if self.line.is_empty() && !self.at_start {
            return self.read_line(end);
        }
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(end);
        let line = match std::mem::take(&mut self.at_start) {
            true => whole.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&whole),
            false => &whole,
        };
        self.read_line(line);
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            return self.end_frame();
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.extend_from_slice(b"\n");
                }
                self.data.extend_from_slice(value);
            }
            b"id" => self.number = number(value).unwrap_or_default(),
            b"retry" => self.retry = number(value).map(Duration::from_millis).or(self.retry),
            // A comment, the name of the event (what it is, its data says), or something of tomorrow's.
            _ => {}
        }
    }

    fn end_frame(&mut self) {
        let number = std::mem::take(&mut self.number);
        if std::mem::take(&mut self.has_data) {
            let data = self.data.split().freeze();
            self.frames.push_back(Frame { number, data });
        }
    }
}

/// Digits only: the standard library would also take `+1`.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(u64, String)> {
        let mut reader = Reader::new(1 << 20);
        let mut frames = Vec::new();
        for piece in pieces {
            reader.push(piece).unwrap();
            while let Some(frame) = reader.next() {
                frames.push((frame.number, String::from_utf8_lossy(&frame.data).into_owned()));
            }
        }
        frames
    }

    fn whole(text: &str) -> Vec<(u64, String)> {
        read([text.as_bytes()])
    }

    fn frame(number: u64, data: &str) -> (u64, String) {
        (number, data.to_owned())
    }

    #[test]
    fn fields_are_read_as_the_standard_has_them() {
        assert_eq!(whole("id: 7\ndata: a\n\n"), [frame(7, "a")]);
        assert_eq!(whole("data:a\ndata:  b\ndata\n\n"), [frame(0, "a\n b\n")]);
        assert_eq!(whole(": hello\nevent: error\nretry: x\nfoo: bar\ndata: a\n\n"), [frame(0, "a")]);
        assert_eq!(whole("id: 1\ndata: a\n\ndata: b\n\n"), [frame(1, "a"), frame(0, "b")]);
        assert_eq!(whole("id: +1\ndata: a\n\nid: x\ndata: b\n\n"), [frame(0, "a"), frame(0, "b")]);
        assert_eq!(whole("id: 3\n\n: nothing\n\n\n"), []);
        assert_eq!(whole("data: never ended\n"), []);
        assert_eq!(whole("data\n\n"), [frame(0, "")]);
    }

    #[test]
    fn all_line_ends_are_known() {
        for text in ["data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r", "data: a\n\r\ndata: b\r\n\n"]
        {
            assert_eq!(whole(text), [frame(0, "a"), frame(0, "b")], "{text:?}");
        }
        assert_eq!(whole("\u{feff}data: a\n\n"), [frame(0, "a")]);
        assert_eq!(whole("\u{feff}\u{feff}data: a\n\n"), []);
    }

    #[test]
    fn a_frame_may_not_grow_without_end() {
        let mut reader = Reader::new(100);
        assert_eq!(reader.push(&[b'x'; 101]), Err(FrameTooLarge));
        let mut reader = Reader::new(100);
        let line = format!("data: {}\n", "x".repeat(40));
        assert_eq!(reader.push(line.as_bytes()), Ok(()));
        assert_eq!(reader.push(line.as_bytes()), Ok(()));
        assert_eq!(reader.push(line.as_bytes()), Err(FrameTooLarge));
        let mut reader = Reader::new(100);
        for _ in 0..1000 {
            assert_eq!(reader.push(b": keep-alive\n\n"), Ok(()));
        }
    }

    #[test]
    fn the_peer_may_say_when_to_come_back() {
        let mut reader = Reader::new(100);
        reader.push(b"retry: 1500\n\n").unwrap();
        assert_eq!(reader.retry, Some(Duration::from_millis(1500)));
    }

    fn texts() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            "data: ?[a-z{}:\" é]{0,12}",
            "id: [0-9]{1,4}",
            ": [a-z]{0,5}",
            "event: error",
            "[a-z:]{0,6}",
            Just(String::new()),
            Just("\u{feff}data".to_owned()),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n")];
        proptest::collection::vec((line, end), 0..24)
            .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
    }

    proptest! {
        #[test]
        fn any_way_of_cutting_gives_the_same_frames(text in texts(), sizes in proptest::collection::vec(1usize..7, 1..64)) {
            let expected = whole(&text);
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for size in sizes.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(read(pieces), expected);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let one_by_one = read(bytes.chunks(1));
            prop_assert_eq!(one_by_one, read([&bytes[..]]));
        }
    }
}
