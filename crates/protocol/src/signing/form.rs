//! What of a card is signed.
//!
//! The specification has one answer, the SDKs that are around have others. A signature does not say which one it
//! follows, so a reader has to try.

use std::fmt::Write as _;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use super::canonical::{NotCanonical, canonical, parse};
use crate::card::AgentCard;

/// The bytes that stand for a card in a signature. In every form its signatures are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As the specification says: the fields that it knows, required ones always, optional ones if they are there,
    /// others unless they are at their default; canonical.
    Spec,
    /// The same fields without anything that is empty, required or not, down into the data of extensions; canonical.
    /// The SDKs for Python, from 1.2, and JavaScript sign this.
    ///
    /// It does not cover what is empty: with this form a requirement without scopes, `{"schemes":{"key":{}}}`, can be
    /// taken out of a card, or put into it, and the signature still fits.
    NoEmpties,
    /// Without anything that is empty, and in ASCII, as `json.dumps` of Python writes it. The SDK for Python signed this
    /// until 1.1.
    NoEmptiesAscii,
    /// The JSON as it came, fields that nobody knows included; canonical.
    AsReceived,
}

/// A card as it came, ready to be put into any form.
pub(super) struct Received {
    /// All of it, but its signatures.
    whole: Value,
    /// What the model knows of it; none if it is a card of an older version.
    known: Option<Value>,
}

// === impl Form ===

impl Form {
    /// Every form, the most exact one first.
    pub const ALL: [Self; 4] = [Self::Spec, Self::NoEmpties, Self::NoEmptiesAscii, Self::AsReceived];

    /// The form as our own signatures name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::NoEmpties => "no-empties",
            Self::NoEmptiesAscii => "no-empties-ascii",
            Self::AsReceived => "as-received",
        }
    }

    /// Puts a card of ours into this form.
    pub(super) fn of_card(self, card: &AgentCard) -> Result<String, NotCanonical> {
        let known = known_fields(card)?;
        match self {
            Self::Spec | Self::AsReceived => canonical(&known),
            Self::NoEmpties => canonical(&without_empties(known)),
            Self::NoEmptiesAscii => ascii(without_empties(known), true),
        }
    }
}

/// The fields of a card by the rules of presence. The model already writes itself by them: required fields always,
/// `Option`s if they are set, others unless they are at their default, user JSON as it is.
fn known_fields(card: &AgentCard) -> Result<Value, NotCanonical> {
    let unsigned = AgentCard { signatures: Vec::new(), ..card.clone() };
    parse(&serde_json::to_string(&unsigned)?)
}

// === impl Received ===

impl Received {
    /// From the text of a card, and its JSON without signatures.
    pub(super) fn new(text: &str, whole: Value) -> Self {
        let known = serde_json::from_str::<AgentCard>(text).ok().and_then(|card| known_fields(&card).ok());
        Self { whole, known }
    }

    /// The card in this form; none if it has no such form.
    pub(super) fn form(&self, form: Form) -> Option<String> {
        let filled = || without_empties(self.known.as_ref().unwrap_or(&self.whole).clone());
        match form {
            Form::Spec => canonical(self.known.as_ref()?),
            Form::NoEmpties => canonical(&filled()),
            Form::NoEmptiesAscii => ascii(filled(), self.known.is_some()),
            Form::AsReceived => canonical(&self.whole),
        }
        .ok()
    }
}

// === pruning ===

/// A value without empty texts, lists, objects and nulls, and without what is empty once those are gone.
fn without_empties(value: Value) -> Value {
    match value {
        Value::Array(values) => {
            values.into_iter().map(without_empties).filter(|value| !is_empty(value)).collect()
        }
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| (key, without_empties(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect(),
        ),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

// === Python's JSON ===

/// Writes what `json.dumps(value, sort_keys=True, separators=(",", ":"))` does: keys by code point, ASCII only.
fn ascii(mut value: Value, doubles: bool) -> Result<String, NotCanonical> {
    value.sort_all_objects();
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Python { doubles }))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How Python writes texts and numbers.
struct Python {
    /// Whether all numbers are doubles, as those of a protobuf `Struct` are, and so has `1` to be written `1.0`.
    doubles: bool,
}

impl Formatter for Python {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut text = String::with_capacity(fragment.len());
        for character in fragment.chars() {
            if character <= '~' {
                text.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").map_err(io::Error::other)?;
            }
        }
        writer.write_all(text.as_bytes())
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if self.doubles { self.write_f64(writer, value as f64) } else { write!(writer, "{value}") }
    }

    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        if self.doubles { self.write_f64(writer, value as f64) } else { write!(writer, "{value}") }
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        match exponent.parse::<i32>().unwrap_or_default() {
            -4..16 => write!(writer, "{value:?}"),
            exponent => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(writer, "{digits}e{sign}{:02}", exponent.unsigned_abs())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_contract() {
        let text = r#"{"name":"Zoë","description":"","capabilities":{"extensions":[],"streaming":false},
            "securitySchemes":{},"skills":[],"version":"1","supportedInterfaces":[{"url":"u","protocolBinding":"b",
            "protocolVersion":"1.0","tenant":""}],"defaultInputModes":[],"defaultOutputModes":[],"url":"old"}"#;
        let received = Received::new(text, parse(text).unwrap());
        assert_eq!(
            received.form(Form::Spec).unwrap(),
            r#"{"capabilities":{"streaming":false},"defaultInputModes":[],"defaultOutputModes":[],"description":"","name":"Zoë","skills":[],"supportedInterfaces":[{"protocolBinding":"b","protocolVersion":"1.0","url":"u"}],"version":"1"}"#
        );
        assert_eq!(
            received.form(Form::NoEmptiesAscii).unwrap(),
            r#"{"capabilities":{"streaming":false},"name":"Zo\u00eb","supportedInterfaces":[{"protocolBinding":"b","protocolVersion":"1.0","url":"u"}],"version":"1"}"#
        );
        assert!(received.form(Form::AsReceived).unwrap().contains(r#""url":"old","version""#));
    }

    #[test]
    fn the_data_of_extensions_is_pruned_only_where_everything_is() {
        let text = r#"{"name":"n","description":"d","capabilities":{"extensions":[{"uri":"urn:x","required":false,
            "params":{"z":[{},"",null,0],"a":{}}}]},"skills":[],"version":"1","supportedInterfaces":[{"url":"u",
            "protocolBinding":"b","protocolVersion":"1.0"}],"defaultInputModes":[],"defaultOutputModes":[]}"#;
        let received = Received::new(text, parse(text).unwrap());
        let spec = received.form(Form::Spec).unwrap();
        assert!(spec.contains(r#"[{"params":{"a":{},"z":[{},"",null,0]},"uri":"urn:x"}]"#), "{spec}");
        let filled = received.form(Form::NoEmpties).unwrap();
        assert!(filled.contains(r#"[{"params":{"z":[0]},"uri":"urn:x"}]"#), "{filled}");
    }

    #[test]
    fn numbers_and_texts_are_written_as_python_does() {
        // As `json.dumps` of Python 3.11 writes what `json.loads` reads from these.
        for (text, expected) in [
            ("[1.0,-0.0,1e3,0.1,1e-4,0.00001,1.5e-7]", "[1.0,-0.0,1000.0,0.1,0.0001,1e-05,1.5e-07]"),
            (
                "[1e15,123456789012345680.0,1e22,1e-300,1]",
                "[1000000000000000.0,1.2345678901234568e+17,1e+22,1e-300,1]",
            ),
            (r#""\u007f é 😀 \n\u0001/""#, r#""\u007f \u00e9 \ud83d\ude00 \n\u0001/""#),
            (r#"{"\ufb33":1,"😀":2}"#, r#"{"\ufb33":1,"\ud83d\ude00":2}"#),
        ] {
            assert_eq!(ascii(parse(text).unwrap(), false).unwrap(), expected);
        }
        assert_eq!(ascii(parse("[1,-2]").unwrap(), true).unwrap(), "[1.0,-2.0]");
    }
}
