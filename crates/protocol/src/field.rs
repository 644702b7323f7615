//! How fields are read and left out, where ProtoJSON and serde disagree.
//!
//! ProtoJSON reads `null` as unset, drops defaults of implicit presence, and takes `5.0` and `"5"` for an
//! int32. A message is always an object: serde's derive would also take a list of its fields in order, which
//! no other reader of the same bytes does.
//!
//! Public for those who read older versions of the protocol by the same rules.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

pub use crate::id::empty_as_none;

/// A message that must be written as an object.
#[derive(Debug)]
pub struct Object<T>(pub T);

/// Bytes, base64 on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Bytes);

/// A whole number in any of the spellings that ProtoJSON allows.
#[derive(Default)]
struct Int32(i32);

struct ObjectVisitor<T>(PhantomData<T>);

struct Int32Visitor;

// === presence ===

/// For fields of implicit presence: `null` on input means unset.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// For fields of implicit presence: a default value is not written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// === messages ===

/// For a required message.
pub fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(deserializer).map(|Object(message)| message)
}

/// For a message that may be absent.
pub fn optional_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.map(|Object(message)| message))
}

/// For a member of a one-of, read by hand.
pub fn next_object<'de, M, T>(map: &mut M) -> Result<Option<T>, M::Error>
where
    M: MapAccess<'de>,
    T: Deserialize<'de>,
{
    Ok(map.next_value::<Option<_>>()?.map(|Object(message)| message))
}

/// For a list of messages, `null` being none.
pub fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let messages: Vec<Object<T>> = null_as_default(deserializer)?;
    Ok(messages.into_iter().map(|Object(message)| message).collect())
}

/// For a map of messages, `null` being none.
pub fn objects_by_name<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let messages: BTreeMap<String, Object<T>> = null_as_default(deserializer)?;
    Ok(messages.into_iter().map(|(name, Object(message))| (name, message)).collect())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

// === numbers ===

/// For an int32 of implicit presence.
pub fn int32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    null_as_default(deserializer).map(|Int32(number)| number)
}

/// For an int32 that may be absent.
pub fn optional_int32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(|Int32(number)| number))
}

impl<'de> Deserialize<'de> for Int32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Int32Visitor).map(Self)
    }
}

impl Visitor<'_> for Int32Visitor {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 32-bit integer")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
        i32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
        i32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i32, E> {
        // The cast saturates and cuts off, so only an int32 comes back as it went in.
        let whole = number as i32;
        if f64::from(whole) == number {
            return Ok(whole);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i32, E> {
        // Unlike the standard library's parser, this one knows no `+5`, `inf` or `.5`.
        let Ok(number) = text.parse::<serde_json::Number>() else {
            return Err(E::invalid_value(Unexpected::Str(text), &self));
        };
        match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => self.visit_i64(whole),
            (None, Some(float)) => self.visit_f64(float),
            (None, None) => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

// === bytes ===

/// Writers differ: both alphabets and missing padding are read.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const LENIENT_STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const LENIENT_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        let url_safe = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
        let engine = if url_safe { &LENIENT_URL_SAFE } else { &LENIENT_STANDARD };
        let bytes = engine.decode(text.as_bytes()).map_err(|_| D::Error::custom("expected base64"))?;
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(json: &str) -> Option<i32> {
        serde_json::from_str(json).ok().map(|Int32(number)| number)
    }

    #[test]
    fn numbers_are_read_in_every_spelling() {
        for (json, expected) in [
            ("5", 5),
            ("-5", -5),
            ("-0", 0),
            ("5.0", 5),
            ("1e2", 100),
            ("-2147483648", i32::MIN),
            ("2147483647.0", i32::MAX),
            (r#""5""#, 5),
            (r#""-5""#, -5),
            (r#""5.0""#, 5),
            (r#""1e2""#, 100),
        ] {
            assert_eq!(number(json), Some(expected), "{json}");
        }
    }

    #[test]
    fn what_is_no_int32_is_refused() {
        for json in [
            "5.5",
            "1e10",
            "1e400",
            "2147483648",
            "-2147483649",
            "18446744073709551615",
            "true",
            "[5]",
            "{}",
            r#""""#,
            r#""x""#,
            r#"" 5""#,
            r#""5 ""#,
            r#""+5""#,
            r#""5.5""#,
            r#""0x5""#,
            r#""NaN""#,
            r#""inf""#,
            r#""2147483648""#,
            r#""1e400""#,
            r#""\"5\"""#,
        ] {
            assert_eq!(number(json), None, "{json}");
        }
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Pair {
        a: u8,
        b: u8,
    }

    #[test]
    fn messages_are_objects() {
        let pair = |json: &str| serde_json::from_str(json).map(|Object::<Pair>(pair)| pair);
        assert_eq!(pair(r#"{"b":2,"a":1}"#).unwrap(), Pair { a: 1, b: 2 });
        for json in ["[1,2]", "null", "7", r#""x""#] {
            let refusal = pair(json).unwrap_err().to_string();
            assert!(refusal.contains(", expected an object"), "{refusal}");
        }
    }
}
