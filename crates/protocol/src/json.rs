//! User JSON, kept token for token.
//!
//! `metadata`, `Part.data` and extension `params` belong to the people who send them. Key order, number text
//! and escapes survive a hop through us: `7` stays `7`, `12345678901234567890` stays itself. Only
//! insignificant white space goes (a raw newline would break an SSE frame), and the nesting depth is bounded,
//! both in one scan when the value comes in.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::write::VERBATIM;

/// The deepest nesting of arrays and objects that user JSON may have.
pub const MAX_DEPTH: usize = 64;

/// Any JSON value (`google.protobuf.Value`), as compact text.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

/// A JSON object (`google.protobuf.Struct`), as compact text.
#[derive(Clone, PartialEq)]
pub struct JsonObject(Json);

/// Why a text was not accepted as user JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is not JSON, or not JSON of the expected type.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// It is nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// An object was expected.
    #[error("expected a JSON object")]
    NotAnObject,
}

// === impl Json ===

impl Json {
    /// Checks and compacts a JSON text.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::from_raw(serde_json::from_str(text)?)
    }

    /// Serializes any value into user JSON.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Self::from_raw(serde_json::value::to_raw_value(value)?)
    }

    /// Reads the value into a type of the caller's.
    pub fn to_value<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    /// The compact JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    fn from_raw(raw: Box<RawValue>) -> Result<Self, JsonError> {
        match scan(raw.get())? {
            Scan::Compact => Ok(Self(raw)),
            Scan::HasWhitespace => Ok(Self(RawValue::from_string(compact(raw.get()))?)),
        }
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(VERBATIM, &self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

// === impl JsonObject ===

impl JsonObject {
    /// Checks and compacts the text of a JSON object.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::try_from(Json::parse(text)?)
    }

    /// Serializes a map or struct into a JSON object.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Self::try_from(Json::from_value(value)?)
    }

    /// An object with one entry, as extension data keyed by its URI is.
    pub fn single<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<Self, JsonError> {
        Self::from_value(&std::collections::BTreeMap::from([(key, value)]))
    }

    /// Reads one entry of the object, if it is there. Of a key that is written twice, the last one counts.
    pub fn entry<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, JsonError> {
        let entries = self.entries();
        let entry = entries.iter().rfind(|(known, _)| unquoted(known).as_deref() == Ok(key));
        entry.map(|(_, raw)| Ok(serde_json::from_str(raw.get())?)).transpose()
    }

    /// This object with the entries of another put over its own. Order is kept, new keys come last, and each
    /// key is there once.
    #[must_use]
    pub fn merged(&self, over: &Self) -> Self {
        let mut places: HashMap<_, usize> = HashMap::new();
        let mut entries: Vec<(&RawValue, &RawValue)> = Vec::new();
        for (key, value) in self.entries().into_iter().chain(over.entries()) {
            match places.entry(unquoted(key)) {
                Entry::Occupied(place) => entries[*place.get()].1 = value,
                Entry::Vacant(place) => {
                    place.insert(entries.len());
                    entries.push((key, value));
                }
            }
        }
        Self::parse(&joined(&entries)).unwrap_or_else(|_| over.clone())
    }

    /// The names of its entries.
    pub fn names(&self) -> Vec<String> {
        self.entries().into_iter().filter_map(|(name, _)| Some(unquoted(name).ok()?.into_owned())).collect()
    }

    /// This object without an entry, if that leaves any.
    #[must_use]
    pub fn without(&self, key: &str) -> Option<Self> {
        let mut entries = self.entries();
        entries.retain(|(known, _)| unquoted(known).as_deref() != Ok(key));
        if entries.is_empty() { None } else { Self::parse(&joined(&entries)).ok() }
    }

    fn entries(&self) -> Vec<(&RawValue, &RawValue)> {
        let Entries(entries) = serde_json::from_str(self.as_str()).unwrap_or_default();
        entries
    }

    /// Reads the object into a type of the caller's. Of a key that is written twice, the last one counts.
    pub fn to_value<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        // A map takes the last one by itself, a struct refuses the second.
        self.0.to_value().or_else(|_| self.merged(self).0.to_value())
    }

    /// The compact JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<Json> for JsonObject {
    type Error = JsonError;

    fn try_from(json: Json) -> Result<Self, JsonError> {
        if json.as_str().starts_with('{') { Ok(Self(json)) } else { Err(JsonError::NotAnObject) }
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Json::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

// === impl Entries ===

/// The entries of an object in their order; a map type would sort or shuffle them. Keys are tokens too: JSON
/// allows some, such as half a surrogate pair, that are no text and still have to be passed on.
#[derive(Default)]
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

/// The text of a key, or its token if it is no text.
fn unquoted(key: &RawValue) -> Result<Cow<'_, str>, &str> {
    let token = key.get();
    if !token.contains('\\') {
        return Ok(Cow::Borrowed(token.trim_matches('"')));
    }
    serde_json::from_str(token).map(Cow::Owned).map_err(|_| token)
}

fn joined(entries: &[(&RawValue, &RawValue)]) -> String {
    let entries: Vec<_> =
        entries.iter().map(|(key, value)| format!("{}:{}", key.get(), value.get())).collect();
    format!("{{{}}}", entries.join(","))
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<'de>, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

// === one scan ===

enum Scan {
    Compact,
    HasWhitespace,
}

fn scan(text: &str) -> Result<Scan, JsonError> {
    let mut depth = 0usize;
    let mut has_whitespace = false;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b' ' | b'\n' | b'\r' | b'\t' => has_whitespace = true,
            _ => {}
        }
    }
    Ok(if has_whitespace { Scan::HasWhitespace } else { Scan::Compact })
}

fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

/// The same JSON without insignificant white space.
pub(crate) fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for character in text.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            out.push(character);
        } else if !matches!(character, ' ' | '\n' | '\r' | '\t') {
            in_string = character == '"';
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_tokens_and_drops_whitespace() {
        let json =
            Json::parse("{ \"b\" : 7,\n \"a\":[1.0, 12345678901234567890 ],\"s\":\" \\u00e9 \\\" x\" }")
                .unwrap();
        assert_eq!(json.as_str(), "{\"b\":7,\"a\":[1.0,12345678901234567890],\"s\":\" \\u00e9 \\\" x\"}");
    }

    #[test]
    fn refuses_what_is_too_deep() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Json::parse(&deep(MAX_DEPTH)).is_ok());
        assert!(matches!(Json::parse(&deep(MAX_DEPTH + 1)), Err(JsonError::TooDeep)));
        assert!(matches!(Json::parse(&deep(100_000)), Err(JsonError::TooDeep)));
    }

    fn object(text: &str) -> JsonObject {
        JsonObject::parse(text).unwrap()
    }

    #[test]
    fn the_last_of_a_repeated_key_counts_everywhere() {
        #[derive(serde::Deserialize)]
        struct Two {
            a: u8,
            b: u8,
        }
        let twice = object(r#"{"a":1,"b":2,"\u0061":3}"#);
        assert_eq!(twice.as_str(), r#"{"a":1,"b":2,"\u0061":3}"#);
        assert_eq!(twice.entry::<u8>("a").unwrap(), Some(3));
        let Two { a, b } = twice.to_value().unwrap();
        assert_eq!((a, b), (3, 2));
        let map: std::collections::BTreeMap<String, u8> = twice.to_value().unwrap();
        assert_eq!(map["a"], 3);
        assert_eq!(twice.merged(&object("{}")).as_str(), r#"{"a":3,"b":2}"#);
        assert_eq!(object("{}").merged(&twice).as_str(), r#"{"a":3,"b":2}"#);
        assert_eq!(twice.merged(&object(r#"{"a":4,"c":5,"a":6}"#)).as_str(), r#"{"a":6,"b":2,"c":5}"#);
    }

    #[test]
    fn merging_keeps_tokens() {
        let odd = object(r#"{"\u00e9":1.0,"\ud800":1,"":"\ud800","\"":2}"#);
        assert_eq!(odd.merged(&object("{}")), odd);
        assert_eq!(odd.entry::<u8>("\"").unwrap(), Some(2));
        assert_eq!(odd.entry::<f32>("é").unwrap(), Some(1.0));
        let over = object(r#"{"é":2.0,"\ud800":3}"#);
        assert_eq!(odd.merged(&over).as_str(), r#"{"\u00e9":2.0,"\ud800":3,"":"\ud800","\"":2}"#);
    }

    #[test]
    fn objects_must_be_objects() {
        assert!(matches!(JsonObject::parse("[]"), Err(JsonError::NotAnObject)));
        let object = JsonObject::single("urn:x", &7).unwrap();
        assert_eq!(object.as_str(), r#"{"urn:x":7}"#);
        assert_eq!(object.entry::<u8>("urn:x").unwrap(), Some(7));
        assert_eq!(object.entry::<u8>("other").unwrap(), None);
    }
}
