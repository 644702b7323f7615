//! Writing JSON into memory: what serde_json would write, byte for byte, in fewer steps.
//!
//! Almost everything that leaves us is strings, and almost none of them needs escaping. serde_json looks at
//! them byte by byte, which was a fifth of the work of an answer; this looks at eight bytes at a time.

use serde::Serialize;
use serde::ser::{self, Error as _};

/// The name of a newtype whose content is JSON text already. serde_json copies that as it is, so it is asked to.
pub(crate) const VERBATIM: &str = "chancery:verbatim";

/// Appends the compact JSON of a value.
pub fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(Writer(out))
}

struct Writer<'a>(&'a mut Vec<u8>);

/// The inside of an array or object.
struct Items<'a> {
    out: &'a mut Vec<u8>,
    begun: bool,
    end: &'static [u8],
}

type Done = Result<(), serde_json::Error>;

fn write_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        write_escapes(out, bytes);
    }
    out.push(b'"');
}

/// The name of a field or variant. Those are written in the source, and none needs escaping.
fn write_name(out: &mut Vec<u8>, name: &'static str) {
    debug_assert!(is_plain(name.as_bytes()), "a name that needs escaping: {name}");
    out.reserve(name.len() + 3);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Whether nothing in it must be escaped. Looks at whole words only; the last one overlaps the one before it.
fn is_plain(bytes: &[u8]) -> bool {
    let (Some(last), (words, _)) = (bytes.last_chunk(), bytes.as_chunks()) else {
        return plain_length(bytes) == bytes.len();
    };
    let special = |special, word: &[u8; 8]| special | special_bytes(u64::from_le_bytes(*word));
    words.iter().chain([last]).fold(0, special) == 0
}

#[cold]
fn write_escapes(out: &mut Vec<u8>, mut rest: &[u8]) {
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        write_escaped(out, *byte);
        rest = after;
    }
}

/// How many bytes there are before the first that must be escaped.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    words.len() * 8 + tail.iter().position(is_special).unwrap_or(tail.len())
}

/// Marks the first byte of a word, from the lowest up, that must be escaped. Marks above it may be false.
fn special_bytes(word: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = EACH << 7;
    const QUOTES: u64 = EACH * b'"' as u64;
    const BACKSLASHES: u64 = EACH * b'\\' as u64;
    let is_zero = |word: u64| word.wrapping_sub(EACH) & !word;
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    (is_zero(word ^ QUOTES) | is_zero(word ^ BACKSLASHES) | control) & HIGH
}

fn write_escaped(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

// === impl Writer ===

impl<'a> Writer<'a> {
    fn raw(self, text: &[u8]) -> Done {
        self.0.extend_from_slice(text);
        Ok(())
    }

    fn integer(self, number: impl itoa::Integer) -> Done {
        self.raw(itoa::Buffer::new().format(number).as_bytes())
    }

    fn items(self, start: u8, end: &'static [u8]) -> Result<Items<'a>, serde_json::Error> {
        self.0.push(start);
        Ok(Items { out: self.0, begun: false, end })
    }

    /// An enum's variant: an object with one entry, named after it.
    fn variant(self, name: &'static str) -> Self {
        self.0.push(b'{');
        write_name(self.0, name);
        self
    }
}

/// The integer types differ in nothing but their name.
macro_rules! integers {
    ($($method:ident: $integer:ty),*) => {
        $(fn $method(self, number: $integer) -> Done {
            self.integer(number)
        })*
    };
}

impl<'a> ser::Serializer for Writer<'a> {
    type Ok = ();
    type Error = serde_json::Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeStructVariant = Items<'a>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128);
    integers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128);

    fn serialize_bool(self, value: bool) -> Done {
        self.raw(if value { b"true" } else { b"false" })
    }

    fn serialize_f32(self, value: f32) -> Done {
        serde_json::to_writer(self.0, &value)
    }

    fn serialize_f64(self, value: f64) -> Done {
        serde_json::to_writer(self.0, &value)
    }

    fn serialize_char(self, value: char) -> Done {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Done {
        write_string(self.0, text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Done {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        self.raw(b"null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Done {
        if name == VERBATIM { serde_json::to_writer(self.0, value) } else { value.serialize(self) }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        let writer = self.variant(variant);
        value.serialize(Writer(writer.0))?;
        writer.raw(b"}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, serde_json::Error> {
        self.items(b'[', b"]")
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, serde_json::Error> {
        self.items(b'[', b"]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, serde_json::Error> {
        self.items(b'[', b"]")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, serde_json::Error> {
        self.variant(variant).items(b'[', b"]}")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Items<'a>, serde_json::Error> {
        self.items(b'{', b"}")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, serde_json::Error> {
        self.items(b'{', b"}")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, serde_json::Error> {
        self.variant(variant).items(b'{', b"}}")
    }
}

// === impl Items ===

impl Items<'_> {
    fn separate(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(b',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.separate();
        value.serialize(Writer(self.out))
    }

    fn entry<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Done {
        self.separate();
        write_name(self.out, key);
        value.serialize(Writer(self.out))
    }

    fn finish(self) -> Done {
        self.out.extend_from_slice(self.end);
        Ok(())
    }
}

impl ser::SerializeMap for Items<'_> {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        self.separate();
        let start = self.out.len();
        key.serialize(Writer(self.out))?;
        match self.out.get(start) {
            Some(b'"') => Ok(()),
            // A number or a truth value is written as text.
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.out.insert(start, b'"');
                self.out.push(b'"');
                Ok(())
            }
            _ => Err(serde_json::Error::custom("key must be a string")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.out.push(b':');
        value.serialize(Writer(self.out))
    }

    fn end(self) -> Done {
        self.finish()
    }
}

/// The other six kinds of array and object differ in nothing but the names of trait and method.
macro_rules! items {
    ($($kind:ident: $method:ident($($key:ident)?) $write:ident),*) => {
        $(impl ser::$kind for Items<'_> {
            type Ok = ();
            type Error = serde_json::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $($key: &'static str,)? value: &T) -> Done {
                self.$write($($key,)? value)
            }

            fn end(self) -> Done {
                self.finish()
            }
        })*
    };
}

items!(
    SerializeSeq: serialize_element() item,
    SerializeTuple: serialize_element() item,
    SerializeTupleStruct: serialize_field() item,
    SerializeTupleVariant: serialize_field() item,
    SerializeStruct: serialize_field(key) entry,
    SerializeStructVariant: serialize_field(key) entry
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::json::Json;

    fn written<T: Serialize + ?Sized>(value: &T) -> String {
        let mut out = Vec::new();
        write_json(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_shape_is_written_as_serde_json_writes_it() {
        #[derive(Serialize)]
        enum Shape {
            Unit,
            Newtype(u8),
            Tuple(i64, char),
            Struct { a: Option<bool>, b: f64 },
        }
        #[derive(Serialize)]
        struct Tuple(u8, ());
        #[derive(Serialize)]
        struct Everything<'a> {
            shapes: [Shape; 4],
            tuple: Tuple,
            keys: BTreeMap<i32, &'a str>,
            flags: BTreeMap<bool, u128>,
            floats: [f64; 4],
            nothing: Option<u8>,
            empty: [u8; 0],
            json: Json,
        }
        let everything = Everything {
            shapes: [
                Shape::Unit,
                Shape::Newtype(7),
                Shape::Tuple(-1, '"'),
                Shape::Struct { a: Some(true), b: 0.1 },
            ],
            tuple: Tuple(1, ()),
            keys: BTreeMap::from([(-3, "x"), (4, "")]),
            flags: BTreeMap::from([(true, u128::MAX)]),
            floats: [1.0, f64::NAN, -0.0, 1e300],
            nothing: None,
            empty: [],
            json: Json::parse(r#"{"n":1.50,"u":"\u0041"}"#).unwrap(),
        };
        assert_eq!(written(&everything), serde_json::to_string(&everything).unwrap());
        assert!(write_json(&mut Vec::new(), &BTreeMap::from([(None::<u8>, 1)])).is_err());
    }

    #[test]
    fn each_byte_is_found_wherever_it_stands() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for before in 0..20 {
                for after in 0..20 {
                    let text =
                        format!("{}{}{}", "é~".repeat(before), special as char, "\u{7f}x".repeat(after));
                    assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in any::<String>(), noise in "[\\x00-\\x7f]{0,64}") {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            prop_assert_eq!(written(&noise), serde_json::to_string(&noise).unwrap());
        }

        #[test]
        fn any_value_is_written_as_serde_json_writes_it(keys in prop::collection::vec(any::<String>(), 0..5), number in any::<f64>(), whole in any::<i64>()) {
            let value = serde_json::json!({ "keys": keys, "number": number, "whole": [whole, Value::Null, true] });
            prop_assert_eq!(written(&value), serde_json::to_string(&value).unwrap());
        }
    }
}
