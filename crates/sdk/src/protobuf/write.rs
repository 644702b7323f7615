//! The JSON of a message to its bytes.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chancery_protocol::Timestamp;

use super::json::Walk;
use super::wire::{put_bytes, put_nested, put_number};
use super::{DURATION_SECONDS, Field, Kind, Malformed, Message, Presence, user};

const WRONG_VALUE: Malformed = Malformed("a field has the value of another");

/// In nanoseconds.
const SECOND: i128 = 1_000_000_000;

/// Writers differ about padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Appends the message that a JSON text tells. Keys that the table does not have are passed over.
pub(crate) fn from_json(out: &mut Vec<u8>, message: &'static Message, json: &[u8]) -> Result<(), Malformed> {
    let text = std::str::from_utf8(json).map_err(|_| Malformed("it is not UTF-8"))?;
    let mut walk = Walk::new(text);
    write_message(out, message, &mut walk)?;
    walk.end()
}

fn write_message(out: &mut Vec<u8>, message: &'static Message, walk: &mut Walk<'_>) -> Result<(), Malformed> {
    walk.object(|walk, key| match message.by_key(key) {
        Some(field) => write_field(out, field, walk),
        None => walk.skip(),
    })
}

fn write_field(out: &mut Vec<u8>, field: &'static Field, walk: &mut Walk<'_>) -> Result<(), Malformed> {
    let next = walk.peek()?;
    // Only in user JSON is null anything.
    if next == b'n' && !matches!(field.kind, Kind::Value) {
        return walk.skip();
    }
    match (field.kind, field.presence) {
        (Kind::Map(kind), _) => walk.object(|walk, key| {
            put_nested(out, field.number, |out| {
                put_bytes(out, 1, key.as_bytes());
                write_one(out, 2, *kind, true, walk)
            })
        }),
        (_, Presence::Repeated | Presence::RequiredList) => {
            walk.array(|walk| write_one(out, field.number, field.kind, true, walk))
        }
        (_, presence) => {
            let is_set = matches!(presence, Presence::Explicit | Presence::OneOf);
            write_one(out, field.number, field.kind, is_set, walk)
        }
    }
}

/// Writes one value; a default only if it has to be.
fn write_one(
    out: &mut Vec<u8>,
    number: u32,
    kind: Kind,
    also_default: bool,
    walk: &mut Walk<'_>,
) -> Result<(), Malformed> {
    match kind {
        Kind::Text => {
            let text = walk.string()?;
            if also_default || !text.is_empty() {
                put_bytes(out, number, text.as_bytes());
            }
        }
        Kind::Bytes => {
            let bytes = LENIENT.decode(&*walk.string()?).map_err(|_| Malformed("bytes are not base64"))?;
            if also_default || !bytes.is_empty() {
                put_bytes(out, number, &bytes);
            }
        }
        Kind::Bool | Kind::Int32 | Kind::Enum(_) => {
            let value = scalar(kind, walk)?;
            if also_default || value != 0 {
                put_number(out, number, value);
            }
        }
        Kind::Message(message) => put_nested(out, number, |out| write_message(out, message, walk))?,
        Kind::Object => put_nested(out, number, |out| user::write_object(out, walk))?,
        Kind::Value => put_nested(out, number, |out| user::write_value(out, walk))?,
        Kind::Timestamp => {
            let time = Timestamp::parse(&walk.string()?).map_err(|_| Malformed("a timestamp is none"))?;
            let nanos = time.as_nanos();
            put_time(out, number, nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND))?;
        }
        Kind::Duration => {
            let nanos = duration(&walk.string()?)?;
            put_time(out, number, nanos / SECOND, nanos % SECOND)?;
        }
        Kind::Any(known) => write_any(out, number, known, walk)?,
        Kind::Map(_) => return Err(WRONG_VALUE),
    }
    Ok(())
}

fn scalar(kind: Kind, walk: &mut Walk<'_>) -> Result<u64, Malformed> {
    if walk.peek()? == b'"' {
        let name = walk.string()?;
        return match kind {
            // A name of tomorrow's is no name.
            Kind::Enum(names) => Ok(names.iter().position(|known| *known == name).unwrap_or(0) as u64),
            Kind::Int32 => name.parse().map(|number: i32| signed(number.into())).map_err(|_| WRONG_VALUE),
            _ => Err(WRONG_VALUE),
        };
    }
    match (kind, walk.word()?) {
        (Kind::Bool, "true") => Ok(1),
        (Kind::Bool, "false") => Ok(0),
        (Kind::Bool, _) => Err(WRONG_VALUE),
        (_, word) => word.parse().map(|number: i32| signed(number.into())).map_err(|_| WRONG_VALUE),
    }
}

/// Negative numbers take all 64 bits.
fn signed(number: i64) -> u64 {
    number.cast_unsigned()
}

/// Seconds and nanoseconds. Those of a timestamp are never negative, those of a duration have the sign of its seconds.
fn put_time(out: &mut Vec<u8>, number: u32, seconds: i128, nanos: i128) -> Result<(), Malformed> {
    let seconds = i64::try_from(seconds).map_err(|_| WRONG_VALUE)?;
    let nanos = i64::try_from(nanos).map_err(|_| WRONG_VALUE)?;
    put_nested(out, number, |out| {
        if seconds != 0 {
            put_number(out, 1, signed(seconds));
        }
        if nanos != 0 {
            put_number(out, 2, signed(nanos));
        }
        Ok(())
    })
}

/// `3s`, `0.250s` or `-1.5s`, in nanoseconds.
fn duration(text: &str) -> Result<i128, Malformed> {
    let number = text.strip_suffix('s').ok_or(WRONG_VALUE)?;
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |number| (-1, number));
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A sign in front of either would be read too.
    if !seconds.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG_VALUE);
    }
    let seconds: u64 = seconds.parse().map_err(|_| WRONG_VALUE)?;
    let nanos: u32 =
        format!("{fraction:0<9}").get(..9).unwrap_or_default().parse().map_err(|_| WRONG_VALUE)?;
    if seconds > DURATION_SECONDS {
        return Err(WRONG_VALUE);
    }
    Ok(sign * (i128::from(seconds) * SECOND + i128::from(nanos)))
}

/// An object whose `@type` comes first. One of a type that is not known is passed over.
fn write_any(
    out: &mut Vec<u8>,
    number: u32,
    known: &'static [&'static Message],
    walk: &mut Walk<'_>,
) -> Result<(), Malformed> {
    let mut any: Option<(String, &'static Message)> = None;
    let mut value = Vec::new();
    walk.object(|walk, key| {
        if key == "@type" {
            let url = walk.string()?;
            let name = url.rsplit('/').next().unwrap_or_default();
            any =
                known.iter().find(|message| message.name == name).map(|message| (url.into_owned(), *message));
            return Ok(());
        }
        match any.as_ref().and_then(|(_, message)| message.by_key(key)) {
            Some(field) => write_field(&mut value, field, walk),
            None => walk.skip(),
        }
    })?;
    let Some((url, _)) = any else { return Ok(()) };
    put_nested(out, number, |out| {
        put_bytes(out, 1, url.as_bytes());
        put_bytes(out, 2, &value);
        Ok(())
    })
}
