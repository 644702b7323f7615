//! What a peer does wrong, told once: one line of the log for each fault of each peer, whether the call got over it or not.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use chancery_protocol::Operation;
use parking_lot::Mutex;

use super::secrets::Secrets;
use super::settings::Settings;

/// The faults of one peer that have been told. There are as many as there are kinds of them and operations.
#[derive(Debug)]
pub(crate) struct Faults {
    /// What the log calls the peer.
    peer: String,
    told: Mutex<BTreeSet<(Fault, &'static str)>>,
    settings: Arc<Settings>,
}

/// Something that a peer does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Its answer cannot be read.
    UnreadableAnswer,
    /// An event of its stream cannot be read.
    UnreadableEvent,
    /// What it says in v1.0 has the form of v0.3.
    OlderForm,
    /// It does not understand the version that its card names, or leaves open.
    OtherVersion,
    /// What it does with a task cannot be.
    ImpossibleTask,
}

/// How a peer's bytes begin, for a line of the log. Long words may be secrets or files.
struct Excerpt<'a>(&'a [u8]);

const EXCERPT_BYTES: usize = 240;
/// How much is looked through for secrets first.
const READ_BYTES: usize = 4 * EXCERPT_BYTES;
const LONGEST_WORD: usize = 40;

// === impl Faults ===

impl Faults {
    pub(crate) fn of(peer: String, settings: Arc<Settings>) -> Self {
        Self { peer, told: Mutex::default(), settings }
    }

    /// What the peer was sent that nobody is to read.
    pub(crate) fn secrets(&self, lineage: Option<&str>) -> Secrets {
        Secrets::of(&self.settings, lineage)
    }

    /// What the log calls the peer.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// Tells of a fault, unless that has been done.
    pub(crate) fn tell(&self, fault: Fault, operation: Operation, cause: &dyn fmt::Display, bytes: &[u8]) {
        let method = operation.method();
        if !self.told.lock().insert((fault, method)) {
            return;
        }
        let Self { peer, .. } = self;
        let secrets = self.secrets(None);
        let bytes = secrets.without(&String::from_utf8_lossy(&bytes[..bytes.len().min(READ_BYTES)]));
        let (bytes, cause) = (Excerpt(bytes.as_bytes()), secrets.without(&cause.to_string()));
        tracing::warn!(agent = %peer, method, cause, %bytes, "agent {peer}: {}", fault.text());
    }
}

// === impl Fault ===

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Self::UnreadableAnswer => "its answer cannot be read",
            Self::UnreadableEvent => "an event of its stream cannot be read",
            Self::OlderForm => "it says in version 1.0 what has the form of 0.3, and is read so",
            Self::OtherVersion => "it does not understand the version that it was called in",
            Self::ImpossibleTask => "it says of a task what cannot be",
        }
    }
}

// === impl Excerpt ===

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = &self.0[..self.0.len().min(EXCERPT_BYTES)];
        let text = String::from_utf8_lossy(begin);
        let is_part =
            |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.' | '+' | '/' | '=');
        for piece in text.split_inclusive(|char| !is_part(char)) {
            let word = piece.trim_end_matches(|char| !is_part(char));
            let kept = if word.len() > LONGEST_WORD { "…" } else { word };
            write!(f, "{kept}{}", piece[word.len()..].escape_debug())?;
        }
        if self.0.len() > begin.len() { f.write_char('…') } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_shows_no_long_word() {
        let shown = |bytes: &[u8]| Excerpt(bytes).to_string();
        assert_eq!(shown(b"{\"id\":1}"), "{\\\"id\\\":1}");
        assert_eq!(shown(b"a\nb\xff\x1b"), "a\\nb\u{fffd}\\u{1b}");
        let token = format!("Bearer {}.{}", "x".repeat(30), "y".repeat(30));
        assert_eq!(shown(token.as_bytes()), "Bearer …");
        assert!(shown(&b"word ".repeat(1000)).len() < 2 * EXCERPT_BYTES);
    }
}
