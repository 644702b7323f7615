//! The bytes of a message to its JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_protocol::Timestamp;

use super::wire::{Record, records};
use super::{DURATION_SECONDS, Field, Kind, Malformed, Message, Presence, user};

pub(super) const WRONG_TYPE: Malformed = Malformed("a field has the wire type of another");

/// The years that can be written.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Writes an answer as JSON: what is required is there, as empty as it may be.
pub(crate) fn to_json(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    read(message, bytes, Absent::IsDefault)
}

/// Writes a request as JSON: what is required and not there stays so, and whoever reads it says that it is missing.
pub(crate) fn request_to_json(message: &'static Message, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    read(message, bytes, Absent::IsMissing)
}

/// What it means that a required field is not there, where bytes cannot tell that from its default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    IsDefault,
    IsMissing,
}

fn read(message: &'static Message, bytes: &[u8], absent: Absent) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 2 + 64);
    read_message(&mut out, message, bytes, absent, &[])?;
    Ok(out)
}

/// Writes a message, with these entries before its own.
fn read_message(
    out: &mut Vec<u8>,
    message: &'static Message,
    bytes: &[u8],
    absent: Absent,
    before: &[(&str, &str)],
) -> Result<(), Malformed> {
    let records = records(bytes)?;
    // Of the members of a oneof, the last one counts.
    let is_member = |number: u32| {
        message.fields.iter().any(|field| field.number == number && field.presence == Presence::OneOf)
    };
    let member = records.iter().map(|(number, _)| *number).rfind(|number| is_member(*number));
    let mut object = Object { out, absent, any: false };
    for (name, value) in before {
        object.key(name);
        put_text(object.out, value.as_bytes())?;
    }
    for field in message.fields {
        if field.presence == Presence::OneOf && member != Some(field.number) {
            continue;
        }
        let found = records.iter().filter(|(number, _)| *number == field.number).map(|(_, record)| *record);
        object.field(field, found)?;
    }
    object.end();
    Ok(())
}

/// An object that is being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    absent: Absent,
    any: bool,
}

impl Object<'_> {
    fn key(&mut self, name: &str) {
        self.out.push(if std::mem::replace(&mut self.any, true) { b',' } else { b'{' });
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn end(self) {
        if !self.any {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }

    /// Whether it is written although it is not there.
    fn is_required(&self, field: &Field) -> bool {
        self.absent == Absent::IsDefault
            && matches!(field.presence, Presence::Required | Presence::RequiredList)
    }

    fn field<'a>(
        &mut self,
        field: &'static Field,
        found: impl Iterator<Item = Record<'a>> + Clone,
    ) -> Result<(), Malformed> {
        if let Kind::Map(kind) = field.kind {
            return self.map(field, kind, found);
        }
        match field.presence {
            Presence::Repeated | Presence::RequiredList => self.list(field, found),
            _ => self.single(field, found),
        }
    }

    fn list<'a>(
        &mut self,
        field: &'static Field,
        found: impl Iterator<Item = Record<'a>>,
    ) -> Result<(), Malformed> {
        let mut found = found.peekable();
        if found.peek().is_none() && !self.is_required(field) {
            return Ok(());
        }
        let (begin, was_any) = (self.out.len(), self.any);
        self.key(field.name);
        self.out.push(b'[');
        let mut any = false;
        for record in found {
            let Record::Bytes(bytes) = record else { return Err(WRONG_TYPE) };
            let before = self.out.len();
            if any {
                self.out.push(b',');
            }
            match put_bytes(self.out, field.kind, bytes, self.absent)? {
                true => any = true,
                false => self.out.truncate(before),
            }
        }
        if !any && !self.is_required(field) {
            // Nothing but messages that nobody knows.
            self.out.truncate(begin);
            self.any = was_any;
            return Ok(());
        }
        self.out.push(b']');
        Ok(())
    }

    fn single<'a>(
        &mut self,
        field: &'static Field,
        found: impl Iterator<Item = Record<'a>> + Clone,
    ) -> Result<(), Malformed> {
        let is_required = self.is_required(field);
        let is_set = matches!(field.presence, Presence::Explicit | Presence::OneOf);
        let last = found.clone().last();
        match (field.kind, last) {
            (Kind::Bool | Kind::Int32 | Kind::Enum(_), Some(Record::Varint(value))) => {
                if value != 0 || is_required || is_set {
                    self.key(field.name);
                    put_scalar(self.out, field.kind, value)?;
                }
            }
            (Kind::Bool | Kind::Int32 | Kind::Enum(_), None) if is_required => {
                self.key(field.name);
                put_scalar(self.out, field.kind, 0)?;
            }
            (Kind::Text | Kind::Bytes, None) if is_required => {
                self.key(field.name);
                self.out.extend_from_slice(b"\"\"");
            }
            (_, None) => {}
            (Kind::Text | Kind::Bytes, Some(Record::Bytes(value))) => {
                if !value.is_empty() || is_required || is_set {
                    self.key(field.name);
                    put_bytes(self.out, field.kind, value, self.absent)?;
                }
            }
            (_, Some(Record::Bytes(value))) => {
                self.key(field.name);
                put_bytes(self.out, field.kind, &merged(found, value), self.absent)?;
            }
            _ => return Err(WRONG_TYPE),
        }
        Ok(())
    }

    fn map<'a>(
        &mut self,
        field: &'static Field,
        kind: &'static Kind,
        found: impl Iterator<Item = Record<'a>>,
    ) -> Result<(), Malformed> {
        let mut entries = BTreeMap::new();
        for record in found {
            let Record::Bytes(bytes) = record else { return Err(WRONG_TYPE) };
            let (key, value) = user::entry_of(bytes)?;
            entries.insert(key, value);
        }
        if entries.is_empty() && !self.is_required(field) {
            return Ok(());
        }
        self.key(field.name);
        self.out.push(b'{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            put_text(self.out, key)?;
            self.out.push(b':');
            put_bytes(self.out, *kind, value, self.absent)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// A message that comes in several pieces is all of them, one after the other.
fn merged<'a>(found: impl Iterator<Item = Record<'a>> + Clone, last: &'a [u8]) -> Cow<'a, [u8]> {
    if found.clone().count() < 2 {
        return Cow::Borrowed(last);
    }
    let pieces = found.filter_map(|record| match record {
        Record::Bytes(bytes) => Some(bytes),
        _ => None,
    });
    Cow::Owned(pieces.flatten().copied().collect())
}

fn put_scalar(out: &mut Vec<u8>, kind: Kind, value: u64) -> Result<(), Malformed> {
    // A number of 32 bits is written with 64, of which the lower ones count.
    let [a, b, c, d, ..] = value.to_le_bytes();
    let number = i32::from_le_bytes([a, b, c, d]);
    match kind {
        Kind::Bool => out.extend_from_slice(if value == 0 { b"false" } else { b"true" }),
        Kind::Enum(names) => match usize::try_from(number).ok().and_then(|number| names.get(number)) {
            Some(name) => put_text(out, name.as_bytes())?,
            None => out.extend_from_slice(number.to_string().as_bytes()),
        },
        _ => out.extend_from_slice(number.to_string().as_bytes()),
    }
    Ok(())
}

/// Writes what stands as bytes in a message; says whether there is anything to write.
fn put_bytes(out: &mut Vec<u8>, kind: Kind, bytes: &[u8], absent: Absent) -> Result<bool, Malformed> {
    match kind {
        Kind::Text => put_text(out, bytes)?,
        Kind::Bytes => {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
        Kind::Message(message) => read_message(out, message, bytes, absent, &[])?,
        Kind::Object => user::read_object(out, bytes, 1)?,
        Kind::Value => user::read_value(out, bytes, 0)?,
        Kind::Timestamp => put_timestamp(out, bytes)?,
        Kind::Duration => put_duration(out, bytes)?,
        Kind::Any(known) => return put_any(out, known, bytes),
        Kind::Bool | Kind::Int32 | Kind::Enum(_) | Kind::Map(_) => return Err(WRONG_TYPE),
    }
    Ok(true)
}

pub(super) fn put_text(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))?;
    serde_json::to_writer(out, text).map_err(|_| Malformed("a text cannot be written"))
}

/// Seconds and nanoseconds.
fn time_of(bytes: &[u8]) -> Result<(i64, i64), Malformed> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, record) in records(bytes)? {
        match (number, record) {
            (1, Record::Varint(value)) => seconds = value.cast_signed(),
            (2, Record::Varint(value)) => nanos = value.cast_signed(),
            (1 | 2, _) => return Err(WRONG_TYPE),
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

fn put_timestamp(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Malformed> {
    let (seconds, nanos) = time_of(bytes)?;
    if !SECONDS.contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(Malformed("a timestamp is not within the years 1 to 9999"));
    }
    let whole = Timestamp::from_millis(seconds * 1000).to_string();
    let date = whole.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let fraction = format!("{nanos:09}");
    // ProtoJSON has 3, 6 or 9 digits.
    let digits = match nanos {
        nanos if nanos % 1_000_000 == 0 => 3,
        nanos if nanos % 1_000 == 0 => 6,
        _ => 9,
    };
    put_text(out, format!("{date}.{}Z", &fraction[..digits]).as_bytes())
}

fn put_duration(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Malformed> {
    let (seconds, nanos) = time_of(bytes)?;
    let is_within = seconds.unsigned_abs() <= DURATION_SECONDS && nanos.unsigned_abs() < 1_000_000_000;
    if !is_within || seconds.signum() * nanos.signum() < 0 {
        return Err(Malformed("a duration is not within ten thousand years"));
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    put_text(out, format!("{sign}{}.{:09}s", seconds.unsigned_abs(), nanos.unsigned_abs()).as_bytes())
}

fn put_any(out: &mut Vec<u8>, known: &'static [&'static Message], bytes: &[u8]) -> Result<bool, Malformed> {
    // `type_url` and `value` stand as key and value in a map do.
    let (url, value) = user::entry_of(bytes)?;
    let url = std::str::from_utf8(url).map_err(|_| Malformed("a text is not UTF-8"))?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let Some(message) = known.iter().find(|message| message.name == name) else { return Ok(false) };
    read_message(out, message, value, Absent::IsMissing, &[("@type", url)])?;
    Ok(true)
}
