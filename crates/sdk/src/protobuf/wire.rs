//! The bytes of Protocol Buffers: varints, tags, and the records that a message is made of.

use super::Malformed;

const CUT: Malformed = Malformed("the message ends in the middle of a field");
const BAD_TAG: Malformed = Malformed("a field has a number or a wire type that does not exist");

/// The largest field number.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// A field as it stands in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// All records of a message, in order.
pub(crate) fn records(mut bytes: &[u8]) -> Result<Vec<(u32, Record<'_>)>, Malformed> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        records.push(record(&mut bytes)?);
    }
    Ok(records)
}

fn record<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Record<'a>), Malformed> {
    let tag = varint(bytes)?;
    let number = tag >> 3;
    if number == 0 || number > MAX_NUMBER {
        return Err(BAD_TAG);
    }
    let value = match tag & 7 {
        0 => Record::Varint(varint(bytes)?),
        1 => Record::Fixed64(u64::from_le_bytes(array(bytes)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| CUT)?;
            let (value, rest) = bytes.split_at_checked(length).ok_or(CUT)?;
            *bytes = rest;
            Record::Bytes(value)
        }
        5 => Record::Fixed32(u32::from_le_bytes(array(bytes)?)),
        // Groups are of before proto3.
        _ => return Err(BAD_TAG),
    };
    Ok((u32::try_from(number).map_err(|_| BAD_TAG)?, value))
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (value, rest) = bytes.split_first_chunk().ok_or(CUT)?;
    *bytes = rest;
    Ok(*value)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(CUT)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            // The tenth byte has room for one bit.
            return if shift == 63 && *byte > 1 {
                Err(Malformed("a number is too large"))
            } else {
                Ok(value)
            };
        }
    }
    Err(Malformed("a number is too long"))
}

// === writing ===

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A number as a field.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

pub(crate) fn put_double(out: &mut Vec<u8>, field: u32, value: f64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Text, bytes or a whole message as a field.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A field whose length is known only when it has been written.
pub(crate) fn put_nested<E>(
    out: &mut Vec<u8>,
    field: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_varint(out, u64::from(field) << 3 | 2);
    // Most are short enough for a length of one byte.
    let at = out.len();
    out.push(0);
    write(out)?;
    let length = out.len() - at - 1;
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, length as u64);
    match prefix[..] {
        [short] => out[at] = short,
        _ => drop(out.splice(at..=at, prefix)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, 7, value);
            assert_eq!(records(&out).unwrap(), [(7, Record::Varint(value))]);
        }
    }

    #[test]
    fn what_is_nested_has_its_length() {
        for length in [0, 1, 127, 128, 20_000] {
            let mut out = vec![];
            let inner = vec![b'x'; length];
            put_nested(&mut out, 3, |out| {
                out.extend_from_slice(&inner);
                Ok::<_, Malformed>(())
            })
            .unwrap();
            assert_eq!(records(&out).unwrap(), [(3, Record::Bytes(&inner))]);
            let mut plain = vec![];
            put_bytes(&mut plain, 3, &inner);
            assert_eq!(plain, out);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let wrong: [&[u8]; 9] = [
            b"\x08",
            b"\x80",
            b"\x0a\x05abc",
            b"\x00\x00",
            b"\x0b",
            b"\x09\x00",
            b"\x0d\x00",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ];
        for bytes in wrong {
            assert!(records(bytes).is_err(), "{bytes:?}");
        }
    }
}
