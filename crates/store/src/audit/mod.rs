//! The audit log: what was refused and what operators did, as a chain in which every entry names the hash of the one
//! before it, so that nobody can change or remove one without the next one showing it.
//!
//! An entry is its body: canonical JSON (RFC 8785) that anybody can hash again. What its fields mean is the business
//! of whoever writes them; here they are only bounded.

mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use chancery_protocol::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Store;
use crate::error::StoreError;
use crate::sqlite::AuditFile;

pub use verify::{AuditReport, AuditVerifier};

/// What is to be written down: the parts of an entry that do not depend on its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// When it happened.
    pub at: Timestamp,
    /// What sort of thing it is, such as `denial` or `act`.
    pub kind: String,
    /// What was done or asked for.
    pub action: String,
    /// To what: an agent, a key, a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The realm of whoever did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The id of the key that they showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The address that they came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What the caller calls the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What the caller calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whatever else is to be known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, AuditValue>,
}

/// A detail of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AuditValue {
    /// How many, or how much.
    Count(u64),
    /// Text.
    Text(String),
}

/// The hash of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuditHash(pub [u8; 32]);

/// An entry of the log by its place and its hash: whoever has kept it can tell whether the log still leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Its number, from 1; 0 is before the first.
    pub number: u64,
    /// Its hash; that of number 0 is all zeroes.
    pub hash: AuditHash,
}

/// An entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its place, from 1.
    pub number: u64,
    /// When it happened, as it is kept beside the body.
    pub at: Timestamp,
    /// All that it says, in canonical JSON.
    pub body: String,
    /// The hash of that.
    pub hash: AuditHash,
}

/// Where the log begins, once its oldest entries have been removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditCheckpoint {
    /// The last entry that was removed.
    pub head: AuditHead,
    /// What the gateway has signed about it.
    pub token: String,
}

/// The body of an entry: a record and its place in the chain.
#[derive(Serialize)]
struct Body<'a> {
    number: u64,
    previous: AuditHash,
    #[serde(flatten)]
    record: &'a AuditRecord,
}

/// How long a text of a record is at most, in bytes; what is longer is cut.
const LONGEST_TEXT: usize = 256;
/// How many details a record has at most.
const MOST_DETAILS: usize = 16;

// === impl AuditRecord ===

impl AuditRecord {
    /// Something that happened now, by nobody in particular.
    pub fn new(kind: impl Into<String>, action: impl Into<String>) -> Self {
        Self {
            at: Timestamp::now(),
            kind: kind.into(),
            action: action.into(),
            target: None,
            realm: None,
            principal: None,
            key: None,
            source: None,
            trace: None,
            request_id: None,
            agent_id: None,
            details: BTreeMap::new(),
        }
    }

    /// The same about something.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// The same with a detail.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<AuditValue>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Cuts what is too long. Control characters have no business in a log that people read.
    fn bounded(mut self) -> Self {
        // It is kept beside the body as well, in microseconds.
        self.at = Timestamp::from_micros(self.at.as_micros());
        let optional = [
            &mut self.target,
            &mut self.realm,
            &mut self.principal,
            &mut self.key,
            &mut self.source,
            &mut self.trace,
            &mut self.request_id,
            &mut self.agent_id,
        ];
        optional.into_iter().flatten().chain([&mut self.kind, &mut self.action]).for_each(bound);
        while self.details.len() > MOST_DETAILS {
            self.details.pop_last();
        }
        for value in self.details.values_mut() {
            if let AuditValue::Text(text) = value {
                bound(text);
            }
        }
        self
    }
}

fn bound(text: &mut String) {
    if text.chars().any(char::is_control) {
        *text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
}

impl From<u64> for AuditValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<&str> for AuditValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AuditValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

// === impl AuditHash ===

impl AuditHash {
    /// What the first entry names as the one before it.
    pub const NONE: Self = Self([0; 32]);

    /// The hash of a body.
    pub fn of(body: &str) -> Self {
        Self::of_bytes(body.as_bytes())
    }

    /// The hash of anything.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for AuditHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AuditHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a hash has 64 hexadecimal digits"))
    }
}

// === impl AuditHead ===

impl AuditHead {
    /// Before the first entry.
    pub const NONE: Self = Self { number: 0, hash: AuditHash::NONE };

    /// The entry of a record that comes after this one.
    pub(crate) fn followed_by(&self, record: AuditRecord) -> Result<AuditEntry, serde_json::Error> {
        let record = record.bounded();
        let number = self.number + 1;
        let body =
            serde_json_canonicalizer::to_string(&Body { number, previous: self.hash, record: &record })?;
        let hash = AuditHash::of(&body);
        Ok(AuditEntry { number, at: record.at, body, hash })
    }
}

impl AuditEntry {
    /// Its place and its hash.
    pub fn head(&self) -> AuditHead {
        AuditHead { number: self.number, hash: self.hash }
    }
}

impl Store {
    /// Writes entries down, all of them or none, after the last one that there is.
    pub async fn append_audit(&self, records: Vec<AuditRecord>) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.append_audit(records),
            Self::Sqlite(store) => Box::pin(store.append_audit(records)).await,
        }
    }

    /// The entries after a number, oldest first, and at most so many.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.audit(after, limit)),
            Self::Sqlite(store) => Box::pin(store.audit(after, limit)).await,
        }
    }

    /// What was signed when the oldest entries were removed, if any were.
    pub async fn audit_checkpoint(&self) -> Result<Option<AuditCheckpoint>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.audit_checkpoint()),
            Self::Sqlite(store) => Box::pin(store.audit_checkpoint()).await,
        }
    }

    /// The last of the entries that happened before a time, or of those that are too many; none if there are none such.
    pub async fn audit_due(&self, before: Timestamp, most: u64) -> Result<Option<AuditHead>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.audit_due(before, most)),
            Self::Sqlite(store) => Box::pin(store.audit_due(before, most)).await,
        }
    }

    /// Has the log begin after an entry, which is signed for, and removes all entries up to it.
    pub async fn begin_audit_after(&self, checkpoint: AuditCheckpoint) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => {
                store.begin_audit_after(checkpoint);
                Ok(())
            }
            Self::Sqlite(store) => Box::pin(store.begin_audit_after(checkpoint)).await,
        }
    }

    /// The audit log of the store that a URL names, to be read also while another process has it open. None if there is
    /// no store yet. Blocks, as reading does.
    pub fn audit_of(url: &str) -> Result<Option<AuditFile>, StoreError> {
        let Some(rest) = url.strip_prefix("sqlite:") else {
            return Err(match url.starts_with("memory") {
                true => StoreError::Unavailable {
                    what: "read the audit log".to_owned(),
                    why: "the store is in memory".to_owned(),
                    hint: "keep the store in `sqlite:PATH` to have a log that can be read",
                },
                false => StoreError::UnknownUrl { url: url.to_owned() },
            });
        };
        let path = rest.split('?').next().unwrap_or(rest);
        Path::new(path).is_file().then(|| AuditFile::open(rest)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_details_are_bounded() {
        let mut record = AuditRecord::new("k", "line\nbreak").target("ä".repeat(500));
        for number in 0..100_u64 {
            record = record.detail(&format!("{number:03}"), number);
        }
        let record = record.bounded();
        assert_eq!(record.action, "line break");
        assert_eq!(record.target.unwrap().chars().count(), LONGEST_TEXT / 2 + 1);
        assert_eq!(record.details.len(), MOST_DETAILS);
    }

    #[test]
    fn a_body_is_canonical_and_names_the_entry_before_it() {
        let at = Timestamp::parse("2026-11-19T22:00:00Z").unwrap();
        let record = AuditRecord { at, ..AuditRecord::new("act", "z") }.detail("count", 2_u64);
        let entry = AuditHead::NONE.followed_by(record).unwrap();
        let zeroes = "0".repeat(64);
        let expected = format!(
            r#"{{"action":"z","at":"2026-11-19T22:00:00.000Z","details":{{"count":2}},"kind":"act","number":1,"previous":"{zeroes}"}}"#
        );
        assert_eq!(entry.body, expected);
        assert_eq!(AuditHash::parse(&entry.hash.to_string()), Some(entry.hash));
        assert_eq!(AuditHash::parse(&"g".repeat(64)), None);
    }
}
