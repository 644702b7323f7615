//! JSON of users: `google.protobuf.Value`, `Struct` and `ListValue`. All numbers there are floats; that is the
//! protocol's own loss.

use super::json::{MAX_DEPTH, Walk};
use super::read::put_text;
use super::wire::{Record, put_bytes, put_double, put_nested, put_number, records};
use super::{Malformed, read};

// The members of Value.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const TEXT: u32 = 3;
const BOOL: u32 = 4;
const OBJECT: u32 = 5;
const LIST: u32 = 6;
/// The one field of Struct, and of ListValue.
const ENTRIES: u32 = 1;
// The fields of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// Up to here floats are whole numbers without a gap.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

// === to JSON ===

pub(super) fn read_value(out: &mut Vec<u8>, bytes: &[u8], depth: usize) -> Result<(), Malformed> {
    // The last member counts; one that is not known is none.
    let last = records(bytes)?.into_iter().rfind(|(number, _)| (NULL..=LIST).contains(number));
    match last {
        // A value without any is null to all but the strictest.
        None | Some((NULL, Record::Varint(_))) => out.extend_from_slice(b"null"),
        Some((NUMBER, Record::Fixed64(bits))) => put_float(out, f64::from_bits(bits))?,
        Some((TEXT, Record::Bytes(text))) => put_text(out, text)?,
        Some((BOOL, Record::Varint(flag))) => {
            out.extend_from_slice(if flag == 0 { b"false" } else { b"true" });
        }
        Some((OBJECT, Record::Bytes(fields))) => read_object(out, fields, depth + 1)?,
        Some((LIST, Record::Bytes(values))) => read_list(out, values, depth + 1)?,
        Some(_) => return Err(read::WRONG_TYPE),
    }
    Ok(())
}

pub(super) fn read_object(out: &mut Vec<u8>, bytes: &[u8], depth: usize) -> Result<(), Malformed> {
    check_depth(depth)?;
    out.push(b'{');
    let mut first = true;
    for (number, record) in records(bytes)? {
        let (ENTRIES, Record::Bytes(entry)) = (number, record) else { continue };
        let (key, value) = entry_of(entry)?;
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        put_text(out, key)?;
        out.push(b':');
        read_value(out, value, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn read_list(out: &mut Vec<u8>, bytes: &[u8], depth: usize) -> Result<(), Malformed> {
    check_depth(depth)?;
    out.push(b'[');
    let mut first = true;
    for (number, record) in records(bytes)? {
        let (ENTRIES, Record::Bytes(value)) = (number, record) else { continue };
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        read_value(out, value, depth)?;
    }
    out.push(b']');
    Ok(())
}

fn check_depth(depth: usize) -> Result<(), Malformed> {
    if depth > MAX_DEPTH { Err(Malformed("it is nested too deep")) } else { Ok(()) }
}

/// Key and value of an entry of a map. What is missing is empty.
pub(super) fn entry_of(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value) = (&b""[..], &b""[..]);
    for (number, record) in records(bytes)? {
        match (number, record) {
            (KEY, Record::Bytes(found)) => key = found,
            (VALUE, Record::Bytes(found)) => value = found,
            (KEY | VALUE, _) => return Err(read::WRONG_TYPE),
            _ => {}
        }
    }
    Ok((key, value))
}

/// A whole number is written as one, as whoever sent it most likely did.
fn put_float(out: &mut Vec<u8>, value: f64) -> Result<(), Malformed> {
    if !value.is_finite() {
        return Err(Malformed("a number of a user's is none that JSON has"));
    }
    if value.trunc() == value && value.abs() < MAX_WHOLE && !(value == 0.0 && value.is_sign_negative()) {
        out.extend_from_slice(format!("{value:.0}").as_bytes());
        return Ok(());
    }
    serde_json::to_writer(out, &value).map_err(|_| Malformed("a number cannot be written"))
}

// === from JSON ===

pub(super) fn write_value(out: &mut Vec<u8>, walk: &mut Walk<'_>) -> Result<(), Malformed> {
    match walk.peek()? {
        b'{' => put_nested(out, OBJECT, |out| write_object(out, walk)),
        b'[' => put_nested(out, LIST, |out| {
            walk.array(|walk| put_nested(out, ENTRIES, |out| write_value(out, walk)))
        }),
        b'"' => {
            put_bytes(out, TEXT, walk.string()?.as_bytes());
            Ok(())
        }
        b't' | b'f' | b'n' => {
            match walk.word()? {
                "true" => put_number(out, BOOL, 1),
                "false" => put_number(out, BOOL, 0),
                _ => put_number(out, NULL, 0),
            }
            Ok(())
        }
        _ => {
            put_double(out, NUMBER, walk.number()?);
            Ok(())
        }
    }
}

pub(super) fn write_object(out: &mut Vec<u8>, walk: &mut Walk<'_>) -> Result<(), Malformed> {
    walk.object(|walk, key| {
        put_nested(out, ENTRIES, |out| {
            put_bytes(out, KEY, key.as_bytes());
            put_nested(out, VALUE, |out| write_value(out, walk))
        })
    })
}
