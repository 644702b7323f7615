//! Messages of gRPC within a body: a flag, a length of four bytes, and the message.

use bytes::{Buf, Bytes, BytesMut};

/// The flag and the length.
pub(crate) const HEAD: usize = 5;

/// Why a body is not what gRPC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unframed {
    /// It is compressed, which nobody has agreed to.
    Compressed,
    TooLarge,
    /// There is not just one message where there has to be.
    NotOne,
}

/// Appends a frame, of which somebody writes the message.
pub(crate) fn put<E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let at = out.len();
    out.extend_from_slice(&[0; HEAD]);
    if let Err(error) = write(out) {
        out.truncate(at);
        return Err(error);
    }
    // What is larger than this has been refused long before.
    let length = u32::try_from(out.len() - at - HEAD).unwrap_or(u32::MAX);
    out[at + 1..at + HEAD].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The one message of a body.
pub(crate) fn single(body: &[u8]) -> Result<&[u8], Unframed> {
    let (head, message) = body.split_first_chunk::<HEAD>().ok_or(Unframed::NotOne)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    match head[0] {
        0 if usize::try_from(length) == Ok(message.len()) => Ok(message),
        0 => Err(Unframed::NotOne),
        _ => Err(Unframed::Compressed),
    }
}

/// Takes messages from a body as it comes.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The most bytes that one message may have.
    limit: usize,
    held: BytesMut,
}

impl Frames {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, held: BytesMut::new() }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// Whether a message has begun and not ended.
    pub(crate) fn is_within(&self) -> bool {
        !self.held.is_empty()
    }

    /// The next message, if all of it is there. No more than a limit's worth and one piece is ever held.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Unframed> {
        let Some(head) = self.held.first_chunk::<HEAD>() else { return Ok(None) };
        if head[0] != 0 {
            return Err(Unframed::Compressed);
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).map_err(|_| Unframed::TooLarge)?;
        if length > self.limit {
            return Err(Unframed::TooLarge);
        }
        if self.held.len() < HEAD + length {
            return Ok(None);
        }
        self.held.advance(HEAD);
        Ok(Some(self.held.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, |out| {
            out.extend_from_slice(message);
            Ok::<_, ()>(())
        })
        .unwrap();
        out
    }

    #[test]
    fn a_body_has_one_message() {
        assert_eq!(frame(b"abc"), b"\0\0\0\0\x03abc");
        assert_eq!(single(&frame(b"abc")), Ok(&b"abc"[..]));
        assert_eq!(single(&frame(b"")), Ok(&b""[..]));
        for wrong in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x02abc", b"\0\0\0\0\x04abc"] {
            assert_eq!(single(wrong), Err(Unframed::NotOne), "{wrong:?}");
        }
        assert_eq!(single(b"\x01\0\0\0\0"), Err(Unframed::Compressed));
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let all = [frame(b"one"), frame(b""), frame(&[b'x'; 300])].concat();
        for size in 1..9 {
            let mut frames = Frames::new(300);
            let mut found = Vec::new();
            for piece in all.chunks(size) {
                frames.push(piece);
                while let Some(message) = frames.next().unwrap() {
                    found.push(message.len());
                }
            }
            assert_eq!((found, frames.is_within()), (vec![3, 0, 300], false));
        }
    }

    #[test]
    fn what_is_too_large_is_refused_by_its_head() {
        let mut frames = Frames::new(299);
        frames.push(&frame(&[b'x'; 300])[..HEAD]);
        assert_eq!(frames.next(), Err(Unframed::TooLarge));
    }
}
