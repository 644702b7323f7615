//! Whether a chain is whole: every entry has the hash of what it says, and follows the one before it.

use std::borrow::Cow;

use chancery_protocol::Timestamp;
use serde::Deserialize;

use super::{AuditEntry, AuditHash, AuditHead};

/// Follows a chain from where it begins, one entry after the other.
#[derive(Debug)]
pub struct AuditVerifier {
    /// The entry before the next one.
    last: AuditHead,
    begins: AuditHead,
    wanted: Option<Wanted>,
    report: AuditReport,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// How many entries there are.
    pub entries: u64,
    /// The last one; the one that the log begins after, if there is none.
    pub head: Option<AuditHead>,
    /// What is wrong, in plain words, as many things as are listed; nothing if the chain is whole.
    pub problems: Vec<String>,
}

/// An entry that somebody has kept the hash of.
#[derive(Debug)]
struct Wanted {
    hash: AuditHash,
    number: Option<u64>,
    is_found: bool,
}

/// What links an entry to the one before it.
#[derive(Deserialize)]
struct Link<'a> {
    number: u64,
    at: Timestamp,
    #[serde(borrow)]
    previous: Cow<'a, str>,
}

/// No more problems than this are listed.
const MOST_PROBLEMS: usize = 100;

impl AuditVerifier {
    /// For a log that begins after an entry: [`AuditHead::NONE`], or what its checkpoint says.
    pub fn new(begins: AuditHead) -> Self {
        Self { last: begins, begins, wanted: None, report: AuditReport::default() }
    }

    /// Has it look for an entry that was seen before: by its hash, and by its number if that is known.
    #[must_use]
    pub fn leading_to(mut self, hash: AuditHash, number: Option<u64>) -> Self {
        let is_found = hash == self.begins.hash;
        self.wanted = Some(Wanted { hash, number, is_found });
        self
    }

    /// Looks at the next entry.
    pub fn take(&mut self, entry: &AuditEntry) {
        let (number, last) = (entry.number, self.last);
        self.report.entries += 1;
        if let Some(wanted) = &mut self.wanted {
            wanted.is_found |= wanted.hash == entry.hash && wanted.number.is_none_or(|known| known == number);
        }
        self.last = entry.head();
        if number > last.number + 1 {
            self.complain(missing(last.number + 1, number - 1));
        }
        if AuditHash::of(&entry.body) != entry.hash {
            self.complain(format!("entry {number} has been changed: its hash is not that of what it says"));
            return;
        }
        match serde_json::from_str::<Link<'_>>(&entry.body) {
            Ok(link) if link.number != number || link.at != entry.at => {
                self.complain(format!(
                    "entry {number} is not in its place: it says that it is entry {} of {}",
                    link.number, link.at
                ));
            }
            Ok(link) if number == last.number + 1 && AuditHash::parse(&link.previous) != Some(last.hash) => {
                self.complain(format!(
                    "entry {number} does not follow the one before it, which is another than it was"
                ));
            }
            Ok(_) => {}
            Err(_) => self.complain(format!("entry {number} cannot be read")),
        }
    }

    /// What was found in all of it.
    pub fn finish(mut self) -> AuditReport {
        if let Some(Wanted { hash, number, is_found: false }) = self.wanted {
            let head = self.last.number;
            match number {
                // What is signed for as removed cannot be looked at any more.
                Some(number) if number < self.begins.number => {}
                Some(number) if number > head => self.complain(format!(
                    "the end is cut off: there was an entry {number}, and the last one is {head}"
                )),
                Some(number) => self.complain(format!(
                    "entry {number} is not the one that was seen before, whose hash is {hash}"
                )),
                None => self.complain(format!(
                    "no entry has the hash {hash}: the end is cut off, or the log was written anew"
                )),
            }
        }
        self.report.head = Some(self.last).filter(|last| last.number > 0);
        self.report
    }

    fn complain(&mut self, problem: String) {
        if self.report.problems.len() < MOST_PROBLEMS {
            self.report.problems.push(problem);
        }
    }
}

fn missing(first: u64, last: u64) -> String {
    if first == last {
        format!("entry {first} is missing")
    } else {
        format!("entries {first} to {last} are missing")
    }
}
