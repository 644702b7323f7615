//! Sees whether the head of a request of HTTP/1.1 says in two ways how long its body is. hyper believes the encoding and forgets the
//! length, so whoever is behind it cannot know; a proxy in front may have believed the length.
//!
//! What is read is passed on as it is. Where one request ends and the next begins is followed beside hyper; should the two ever
//! disagree, hyper's own rule holds, which is safe: it closes the connection after such a request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether some request of a connection said it in two ways. Travels in the extensions of the heads of its requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Ambiguous(Arc<AtomicBool>);

/// A connection that is looked at as it is read.
pub(super) struct Watched<S> {
    stream: S,
    place: Place,
    /// What of a head has been read so far.
    head: Vec<u8>,
    ambiguous: Ambiguous,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    /// So many bytes more.
    Body(u64),
    /// The line that says how long the next chunk is; so long it is by what was read of it, if the number goes on.
    ChunkSize(u64, bool),
    /// So many bytes more of a chunk, with the end of its line.
    Chunk(u64),
    /// Lines until an empty one; whether this one has anything so far.
    Trailers(bool),
    /// Nothing is followed any more.
    Lost,
}

/// A head that is longer than this hyper refuses, or it is none.
const LONGEST_HEAD: usize = 64 << 10;

// === impl Ambiguous ===

impl Ambiguous {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Watched ===

impl<S> Watched<S> {
    pub(super) fn new(stream: S, ambiguous: Ambiguous) -> Self {
        Self { stream, place: Place::Head, head: Vec::new(), ambiguous }
    }

    fn look(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.place != Place::Lost {
            let taken = match self.place {
                Place::Head => self.head(bytes),
                Place::Body(left) => {
                    let taken = left.min(bytes.len() as u64);
                    let left = left - taken;
                    self.place = if left == 0 { Place::Head } else { Place::Body(left) };
                    taken as usize
                }
                Place::Chunk(left) => {
                    let taken = left.min(bytes.len() as u64);
                    let left = left - taken;
                    self.place = if left == 0 { Place::ChunkSize(0, true) } else { Place::Chunk(left) };
                    taken as usize
                }
                Place::ChunkSize(size, goes_on) => {
                    self.place = after_size(size, goes_on, bytes[0]);
                    1
                }
                Place::Trailers(has_any) => {
                    self.place = match bytes[0] {
                        b'\n' if !has_any => Place::Head,
                        b'\n' => Place::Trailers(false),
                        b'\r' => Place::Trailers(has_any),
                        _ => Place::Trailers(true),
                    };
                    1
                }
                Place::Lost => return,
            };
            bytes = &bytes[taken..];
        }
    }

    /// Takes what belongs to a head, and says how much that is.
    fn head(&mut self, bytes: &[u8]) -> usize {
        let before = self.head.len();
        if before == 0 && matches!(bytes[0], b'\r' | b'\n') {
            // Empty lines may come before a head.
            return 1;
        }
        // The end may have begun in what was read before.
        let from = before.saturating_sub(3);
        self.head.extend_from_slice(bytes);
        let Some(end) = end_of_head(&self.head, from) else {
            if self.head.len() > LONGEST_HEAD {
                (self.place, self.head) = (Place::Lost, Vec::new());
            }
            return bytes.len();
        };
        let (place, is_ambiguous) = framing(&self.head[..end]);
        if is_ambiguous {
            self.ambiguous.0.store(true, Ordering::Relaxed);
        }
        self.place = place;
        self.head.clear();
        end - before
    }
}

/// Where a head ends, with the empty line; lines may end without a carriage return.
fn end_of_head(head: &[u8], from: usize) -> Option<usize> {
    let newlines = head[from..].iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(place, _)| from + place + 1).find(|next| {
        let lines = &head[..next - 1];
        lines.strip_suffix(b"\r").unwrap_or(lines).last() == Some(&b'\n')
    })
}

/// How the body after a head is framed, and whether that is said in two ways.
fn framing(head: &[u8]) -> (Place, bool) {
    let (mut length, mut is_chunked) = (None, false);
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            // hyper refuses what is no number, and two that differ.
            length = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok()).or(Some(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            is_chunked = true;
        }
    }
    match (is_chunked, length) {
        (true, length) => (Place::ChunkSize(0, true), length.is_some()),
        (false, Some(length)) if length > 0 => (Place::Body(length), false),
        (false, _) => (Place::Head, false),
    }
}

/// After a byte of the line that says how long a chunk is.
fn after_size(size: u64, goes_on: bool, byte: u8) -> Place {
    match (byte, char::from(byte).to_digit(16)) {
        (b'\n', _) if size == 0 => Place::Trailers(false),
        (b'\n', _) => size.checked_add(2).map_or(Place::Lost, Place::Chunk),
        (_, Some(digit)) if goes_on => {
            let size = size.checked_mul(16).and_then(|size| size.checked_add(u64::from(digit)));
            size.map_or(Place::Lost, |size| Place::ChunkSize(size, true))
        }
        // What an extension says is passed over.
        _ => Place::ChunkSize(size, false),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.look(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of requests, however they come in pieces.
    fn seen(requests: &[&str]) -> bool {
        let all = requests.concat();
        let mut found = Vec::new();
        for piece in [1, 2, 3, 7, all.len()] {
            let mut watched = Watched::new((), Ambiguous::default());
            all.as_bytes().chunks(piece).for_each(|bytes| watched.look(bytes));
            found.push(watched.ambiguous.is_so());
        }
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}: {all}");
        found[0]
    }

    const BOTH: &str = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const LENGTH: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab\r\n\r";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1a\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";

    #[test]
    fn a_length_beside_an_encoding_is_seen_wherever_it_stands() {
        assert!(seen(&[BOTH]));
        assert!(seen(&[LENGTH, CHUNKED, "GET / HTTP/1.1\r\n\r\n", BOTH]));
        assert!(seen(&["POST / HTTP/1.1\ntransfer-encoding:chunked\nCONTENT-LENGTH:3\n\n"]));
        assert!(seen(&[
            "\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
        ]));
    }

    #[test]
    fn what_stands_in_bodies_is_no_head() {
        assert!(!seen(&[LENGTH, CHUNKED, LENGTH]));
        let body = BOTH.replace("Content", "Xontent").replace("Xontent", "Content");
        let hidden = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(!seen(&[&hidden, CHUNKED]));
        let chunk = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        assert!(!seen(&[&chunk, LENGTH]));
    }
}
