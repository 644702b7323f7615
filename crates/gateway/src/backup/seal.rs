//! A stream that only who knows a passphrase can read, and that nobody can change or cut short unnoticed: pieces of 64 KiB, each sealed
//! under its number and whether it is the last (the STREAM construction), with a key made of the passphrase.

use std::io::{self, BufRead, Read, Write};
use std::num::NonZeroU32;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2;

/// What a sealed stream begins with.
const MAGIC: &[u8; 16] = b"chancery-seal-1\n";
const SALT_BYTES: usize = 16;
const PREFIX_BYTES: usize = 7;
const PIECE_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;
/// How often the passphrase is hashed, so that guessing costs.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("it is not zero");

/// Seals what is written to it.
pub(super) struct Sealing<W> {
    out: W,
    seal: Seal,
    piece: Vec<u8>,
}

/// Opens what was sealed.
pub(super) struct Opening<R> {
    from: R,
    seal: Seal,
    /// What has been opened.
    open: Vec<u8>,
    at: usize,
    /// What comes next, still sealed; empty if nothing does.
    next: Vec<u8>,
}

struct Seal {
    key: LessSafeKey,
    prefix: [u8; PREFIX_BYTES],
    piece: u32,
}

/// Whether a stream begins as a sealed one does. Nothing is taken from it.
pub(super) fn is_sealed(from: &mut impl BufRead) -> io::Result<bool> {
    Ok(from.fill_buf()?.starts_with(MAGIC))
}

// === impl Seal ===

impl Seal {
    fn of(passphrase: &str, salt: [u8; SALT_BYTES], prefix: [u8; PREFIX_BYTES]) -> io::Result<Self> {
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, &salt, passphrase.as_bytes(), &mut key);
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &key).map_err(|_| io::Error::other("no key can be made"))?;
        Ok(Self { key: LessSafeKey::new(key), prefix, piece: 0 })
    }

    /// The number of the next piece, which is never used twice.
    fn nonce(&mut self, is_last: bool) -> io::Result<Nonce> {
        let mut nonce = [0; 12];
        nonce[..PREFIX_BYTES].copy_from_slice(&self.prefix);
        nonce[PREFIX_BYTES..11].copy_from_slice(&self.piece.to_be_bytes());
        nonce[11] = is_last.into();
        self.piece =
            self.piece.checked_add(1).ok_or_else(|| io::Error::other("it is too long to be sealed"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

// === impl Sealing ===

impl<W: Write> Sealing<W> {
    pub(super) fn begin(mut out: W, passphrase: &str) -> io::Result<Self> {
        let (mut salt, mut prefix) = ([0; SALT_BYTES], [0; PREFIX_BYTES]);
        for random in [&mut salt[..], &mut prefix] {
            getrandom::fill(random).map_err(io::Error::other)?;
        }
        out.write_all(MAGIC)?;
        out.write_all(&salt)?;
        out.write_all(&prefix)?;
        Ok(Self { out, seal: Seal::of(passphrase, salt, prefix)?, piece: Vec::with_capacity(PIECE_BYTES) })
    }

    fn put(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = self.seal.nonce(is_last)?;
        let sealed = self.seal.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.piece);
        sealed.map_err(|_| io::Error::other("it cannot be sealed"))?;
        self.out.write_all(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Writes the last piece. Without it nothing that was written can be read to its end.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.put(true)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE_BYTES && !bytes.is_empty() {
            self.put(false)?;
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// === impl Opening ===

impl<R: Read> Opening<R> {
    pub(super) fn begin(mut from: R, passphrase: &str) -> io::Result<Self> {
        let (mut magic, mut salt, mut prefix) = ([0; MAGIC.len()], [0; SALT_BYTES], [0; PREFIX_BYTES]);
        for part in [&mut magic[..], &mut salt, &mut prefix] {
            from.read_exact(part)?;
        }
        let seal = Seal::of(passphrase, salt, prefix)?;
        let mut opening = Self { from, seal, open: Vec::new(), at: 0, next: Vec::new() };
        opening.fetch()?;
        opening.turn()?;
        Ok(opening)
    }

    fn fetch(&mut self) -> io::Result<Vec<u8>> {
        let mut next = Vec::with_capacity(PIECE_BYTES + TAG_BYTES);
        (&mut self.from).take((PIECE_BYTES + TAG_BYTES) as u64).read_to_end(&mut next)?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Opens the next piece.
    fn turn(&mut self) -> io::Result<()> {
        let mut piece = self.fetch()?;
        let nonce = self.seal.nonce(self.next.is_empty())?;
        let opened = self.seal.key.open_in_place(nonce, Aad::empty(), &mut piece);
        let length = opened.map(|opened| opened.len()).map_err(|_| {
            let why = match self.seal.piece {
                1 => "the passphrase is another one, or the file was changed",
                _ => "the file was changed, or its end is missing",
            };
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        piece.truncate(length);
        (self.open, self.at) = (piece, 0);
        Ok(())
    }
}

impl<R: Read> Read for Opening<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.open.len() {
            if self.next.is_empty() {
                return Ok(0);
            }
            self.turn()?;
        }
        let taken = buffer.len().min(self.open.len() - self.at);
        buffer[..taken].copy_from_slice(&self.open[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "correct horse";

    fn sealed(bytes: &[u8]) -> Vec<u8> {
        let mut sealing = Sealing::begin(Vec::new(), SECRET).unwrap();
        sealing.write_all(bytes).unwrap();
        sealing.finish().unwrap()
    }

    fn opened(sealed: &[u8], passphrase: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Opening::begin(sealed, passphrase)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn what_was_sealed_is_opened_with_the_same_passphrase_alone() {
        for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES] {
            let bytes: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let sealed = sealed(&bytes);
            assert!(is_sealed(&mut &*sealed).unwrap());
            assert_eq!(opened(&sealed, SECRET).unwrap(), bytes, "{length}");
        }
        let error = opened(&sealed(b"x"), "correct mouse").unwrap_err();
        assert!(error.to_string().contains("the passphrase is another one"), "{error}");
    }

    #[test]
    fn nothing_can_be_changed_moved_or_cut_off() {
        let whole = sealed(&vec![7; 3 * PIECE_BYTES]);
        let (head, piece) = (MAGIC.len() + SALT_BYTES + PREFIX_BYTES, PIECE_BYTES + TAG_BYTES);
        for at in [20, head - 1, head + 5, head + piece + 5, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(opened(&changed, SECRET).is_err(), "{at}");
        }
        for length in [head, head + piece, head + 2 * piece, whole.len() - 1] {
            assert!(opened(&whole[..length], SECRET).is_err(), "{length}");
        }
        let mut swapped = whole;
        swapped[head..head + 2 * piece].rotate_left(piece);
        assert!(opened(&swapped, SECRET).is_err());
    }
}
