//! What a program says: passed on as it comes, counted, and never cut within a letter.

use std::collections::VecDeque;
use std::fmt;

use chancery_sdk::{ArtifactWriter, Turn, TurnOver};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::kinds::pacing::{MOST_AT_ONCE, OutputPacing};
use crate::kinds::turn_secrets::{Held, TurnSecrets};

/// How much of what is said about errors is kept: the end of it.
const TAIL: usize = 4 * 1024;

/// How it ended.
pub(super) enum Said {
    /// It said all that it had to say.
    All,
    /// It would have said more than it may.
    TooMuch,
}

/// The end of what a program said about errors, for the log.
#[derive(Debug)]
pub(super) struct Complaints(pub(super) Vec<u8>);

/// Passes on what a program says, as one artifact, without what it was given for its turn alone.
pub(super) async fn stream(
    turn: &Turn,
    mut from: impl AsyncRead + Unpin,
    most: u64,
    secrets: &TurnSecrets,
) -> Result<Said, TurnOver> {
    let mut artifact: Option<ArtifactWriter<'_>> = None;
    let (mut held, mut total) = (Vec::with_capacity(MOST_AT_ONCE), 0_u64);
    let mut begun = Held::new();
    loop {
        let before = held.len();
        let is_end = fill(&mut from, &mut held).await;
        total = total.saturating_add((held.len() - before) as u64);
        if total > most {
            return Ok(Said::TooMuch);
        }
        let text = secrets.piece(&mut begun, &whole_letters(&mut held, is_end), is_end);
        if is_end {
            match artifact.take() {
                Some(artifact) if !text.is_empty() => artifact.finish(text).await?,
                None if total > 0 => turn.begin_artifact("output").finish(text).await?,
                _ => {}
            }
            return Ok(Said::All);
        }
        if !text.is_empty() {
            artifact.get_or_insert_with(|| turn.begin_artifact("output")).append(text).await?;
        }
    }
}

/// Reads what is to be shown at once. Whether that was the end.
async fn fill(from: &mut (impl AsyncRead + Unpin), held: &mut Vec<u8>) -> bool {
    let mut pacing = OutputPacing::default();
    while held.len() < MOST_AT_ONCE {
        let Some(read) = pacing.more(from.read_buf(held)).await else { return false };
        // A pipe that cannot be read is at its end.
        if read.unwrap_or_default() == 0 {
            return true;
        }
        pacing.hold();
    }
    false
}

/// Takes the text out, except for a letter of which only the beginning is there. What is no text is marked as such.
fn whole_letters(held: &mut Vec<u8>, is_end: bool) -> String {
    let end = match std::str::from_utf8(held) {
        Err(error) if error.error_len().is_none() && !is_end => error.valid_up_to(),
        Err(_) if !is_end => {
            // Something is wrong further up; the last letter may be cut off all the same.
            let cut = (1..=3.min(held.len())).find(|back| held[held.len() - back] >= 0xC0);
            let is_cut = cut.filter(|back| held[held.len() - back].leading_ones() as usize > *back);
            held.len() - is_cut.unwrap_or_default()
        }
        _ => held.len(),
    };
    let rest = held.split_off(end);
    let text = String::from_utf8_lossy(held).into_owned();
    *held = rest;
    text
}

/// Reads all that is said about errors, and keeps the end.
pub(super) async fn tail(mut from: impl AsyncRead + Unpin) -> Vec<u8> {
    let (mut kept, mut read) = (VecDeque::new(), [0; 1024]);
    while let Ok(count @ 1..) = from.read(&mut read).await {
        kept.extend(&read[..count]);
        let over = kept.len().saturating_sub(TAIL);
        kept.drain(..over);
    }
    kept.into()
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.trim_ascii() {
            b"" => f.write_str("the program said nothing about it"),
            said => write!(f, "the program said last: {}", String::from_utf8_lossy(said)),
        }
    }
}

impl std::error::Error for Complaints {}

#[cfg(test)]
mod tests {
    use super::whole_letters;

    #[test]
    fn a_letter_that_is_cut_off_waits_for_its_rest() {
        let mut held = "grü".as_bytes()[..3].to_vec();
        assert_eq!(whole_letters(&mut held, false), "gr");
        held.extend("ü".as_bytes()[1..].iter());
        assert_eq!(whole_letters(&mut held, false), "ü");
        assert!(held.is_empty());
    }

    #[test]
    fn what_is_no_text_is_marked_and_holds_nothing_up() {
        let mut held = b"a\xFFb\xC3".to_vec();
        assert_eq!(whole_letters(&mut held, false), "a\u{FFFD}b");
        assert_eq!(held, b"\xC3");
        assert_eq!(whole_letters(&mut held, true), "\u{FFFD}");
    }
}
