//! Where the body of an answer ends, and what of it is there already (RFC 9112, section 6).
//!
//! Knows bytes, and no connection: what has been read goes in, pieces of the body come out.

use bytes::{Buf as _, Bytes, BytesMut};
use httparse::Status;

use super::Broken;

/// How long the line may be that says how long a chunk is.
const MAX_SIZE_LINE: usize = 1024;
/// How much may follow the last chunk. Nobody reads it.
const MAX_TRAILER_BYTES: usize = 64 << 10;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes more.
    Length(u64),
    Chunked(Chunks),
    /// When the peer closes the connection.
    Close,
}

/// What comes next in a body that comes in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    Size,
    Data(u64),
    DataEnd,
    /// Lines, of which so many bytes have been seen.
    Trailers(usize),
    Over,
}

/// What is to be had of what has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Data(Bytes),
    /// More has to be read.
    Wanting,
    End,
}

impl Framing {
    /// How much is yet to come, as far as is known.
    pub(super) fn announced(self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(left),
            Self::Chunked(_) | Self::Close => None,
        }
    }

    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Over))
    }

    /// Takes the next piece out of what has been read.
    pub(super) fn next(&mut self, read: &mut BytesMut) -> Result<Piece, Broken> {
        match self {
            Self::Length(left) => Ok(take(left, read)),
            Self::Chunked(chunks) => chunks.next(read),
            Self::Close if read.is_empty() => Ok(Piece::Wanting),
            Self::Close => Ok(Piece::Data(read.split().freeze())),
        }
    }

    /// The peer has closed the connection, and everything that was read has been taken.
    pub(super) fn closed(self) -> Result<Piece, Broken> {
        match self {
            Self::Close => Ok(Piece::End),
            _ if self.is_over() => Ok(Piece::End),
            _ => Err(Broken::Incomplete),
        }
    }
}

impl Chunks {
    fn next(&mut self, read: &mut BytesMut) -> Result<Piece, Broken> {
        loop {
            match self {
                Self::Size => match size(read)? {
                    None => return Ok(Piece::Wanting),
                    Some(0) => *self = Self::Trailers(0),
                    Some(size) => *self = Self::Data(size),
                },
                Self::Data(0) => *self = Self::DataEnd,
                Self::Data(left) => return Ok(take(left, read)),
                Self::DataEnd => match read.get(..2) {
                    None => return Ok(Piece::Wanting),
                    Some(b"\r\n") => {
                        read.advance(2);
                        *self = Self::Size;
                    }
                    Some(_) => return Err(Broken::NotHttp),
                },
                Self::Trailers(seen) => {
                    let line = memchr::memchr(b'\n', read).map(|end| end + 1);
                    if *seen + line.unwrap_or(read.len()) > MAX_TRAILER_BYTES {
                        return Err(Broken::HeadTooLarge);
                    }
                    let Some(length) = line else { return Ok(Piece::Wanting) };
                    *seen += length;
                    let line = read.split_to(length);
                    if matches!(&line[..], b"\r\n" | b"\n") {
                        *self = Self::Over;
                    }
                }
                Self::Over => return Ok(Piece::End),
            }
        }
    }
}

/// As much as is there of so many bytes.
fn take(left: &mut u64, read: &mut BytesMut) -> Piece {
    if *left == 0 {
        return Piece::End;
    }
    if read.is_empty() {
        return Piece::Wanting;
    }
    let length = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
    *left -= length as u64;
    Piece::Data(read.split_to(length).freeze())
}

/// The size of the next chunk, taken off with its line; none if the line is not there yet.
fn size(read: &mut BytesMut) -> Result<Option<u64>, Broken> {
    let begins_well = read.first().is_none_or(u8::is_ascii_hexdigit);
    match httparse::parse_chunk_size(read) {
        Ok(Status::Complete((length, size))) if begins_well && length <= MAX_SIZE_LINE => {
            read.advance(length);
            Ok(Some(size))
        }
        Ok(Status::Partial) if begins_well && read.len() <= MAX_SIZE_LINE => Ok(None),
        _ => Err(Broken::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that comes in pieces of a size, to its end or as far as it goes.
    fn read(mut framing: Framing, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, bool, usize), String> {
        let (mut buffer, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = bytes.chunks(piece);
        loop {
            match framing.next(&mut buffer).map_err(|error| error.to_string())? {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::End => return Ok((body, true, buffer.len() + pieces.map(<[u8]>::len).sum::<usize>())),
                Piece::Wanting => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok((body, framing.closed().is_ok(), 0)),
                },
            }
        }
    }

    fn chunked(bytes: &[u8]) -> Result<(Vec<u8>, bool, usize), String> {
        let whole = read(Framing::Chunked(Chunks::Size), bytes, usize::MAX);
        for piece in [1, 2, 3, 7] {
            assert_eq!(whole, read(Framing::Chunked(Chunks::Size), bytes, piece), "in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn a_body_ends_where_its_length_says() {
        assert_eq!(read(Framing::Length(3), b"abcd", 2), Ok((b"abc".to_vec(), true, 1)));
        assert_eq!(read(Framing::Length(0), b"ab", 2), Ok((Vec::new(), true, 2)));
        assert_eq!(read(Framing::Length(5), b"abcd", 3), Ok((b"abcd".to_vec(), false, 0)));
        assert_eq!(read(Framing::Close, b"abcd", 3), Ok((b"abcd".to_vec(), true, 0)));
    }

    #[test]
    fn chunks_are_joined_and_trailers_left_out() {
        let whole = Ok((b"Wiki in chunks".to_vec(), true, 0));
        assert_eq!(chunked(b"4\r\nWiki\r\nA ;x=\"y\"\r\n in chunks\r\n0\r\n\r\n"), whole);
        assert_eq!(chunked(b"4\r\nWiki\r\n00a\r\n in chunks\r\n000\r\nexpires: now\r\nx: y\r\n\r\n"), whole);
        assert_eq!(chunked(b"0\r\n\r\nmore"), Ok((Vec::new(), true, 4)));
        for cut in ["", "4", "4\r\nWi", "4\r\nWiki", "4\r\nWiki\r\n", "0\r\n", "0\r\nx: y\r\n"] {
            assert!(matches!(chunked(cut.as_bytes()), Ok((_, false, 0))), "{cut:?}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bad in
            ["\r\n", "x\r\n", "-1\r\n", "4\r\nWikiX\r\n", "4\nWiki", "4\r\nWiki\n0", " 4\r\n", "4 4\r\n"]
        {
            assert!(chunked(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(chunked(b"12345678901234567\r\n").is_err());
        assert!(chunked(format!("4;{}", "x".repeat(2 * MAX_SIZE_LINE)).as_bytes()).is_err());
        assert!(
            chunked(format!("0\r\n{}", "x: y\r\n".repeat(MAX_TRAILER_BYTES / 6 + 1)).as_bytes()).is_err()
        );
    }

    proptest! {
        #[test]
        fn how_a_body_is_cut_makes_no_difference(bytes in "[0-9a-f;\r\n]{0,60}") {
            let _ = chunked(bytes.as_bytes());
        }

        #[test]
        fn what_is_sent_in_chunks_comes_whole(chunks in prop::collection::vec("[a-z]{1,40}", 0..8)) {
            let sent: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
            let read = chunked(format!("{sent}0\r\n\r\n").as_bytes());
            prop_assert_eq!(read, Ok((chunks.concat().into_bytes(), true, 0)));
        }
    }
}
