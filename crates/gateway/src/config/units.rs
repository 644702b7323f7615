//! Amounts as people write them. Money is read as decimals once, and is whole millionths from then on.

use std::borrow::Cow;

use chancery_protocol::parse_usd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// US dollars, in millionths: `0.05`, or as a text where a decimal must not be touched by a float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Usd(pub(crate) u64);

/// What is done about a call of an agent without a price: `deny`, or `hold:AMOUNT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownCost {
    /// It is refused.
    Deny,
    /// So much is held for it.
    Hold(Usd),
}

/// Marks what is an amount of US dollars in a schema.
pub(crate) const USD_FORMAT: &str = "usd";

/// Reads an amount of US dollars; if it is none, says why.
pub(crate) fn amount(text: &str) -> Result<Usd, String> {
    let Some(micro) = parse_usd(text) else {
        return Err(format!("`{text}` is no amount of US dollars, such as 0.05"));
    };
    // Cut off, it would be nothing at all.
    if micro == 0 && text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        return Err(format!(
            "`{text}` is less than a millionth of a US dollar, below which nothing is counted"
        ));
    }
    Ok(Usd(micro))
}

// === impl UnknownCost ===

impl<'de> Deserialize<'de> for UnknownCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = serde_json::Value::deserialize(deserializer)?;
        let hold = |text: &str| text.strip_prefix("hold:").and_then(|text| amount(text).ok()).map(Self::Hold);
        let known = match found.as_str() {
            Some("deny") => Some(Self::Deny),
            Some(text) => hold(text),
            None => None,
        };
        known.ok_or_else(|| {
            let words = "expected \"deny\" or \"hold:AMOUNT\", such as \"hold:0.05\"";
            D::Error::custom(match &found {
                serde_json::Value::String(text) if text == "allow-and-flag" => {
                    format!("{words}; `allow-and-flag` is gone: give each agent a `price`, where 0 is one")
                }
                serde_json::Value::Object(table) if table.contains_key("usd") => {
                    format!("{words}; `{{ usd = AMOUNT }}` is `\"hold:AMOUNT\"` now")
                }
                found => format!("{words}, found `{found}`"),
            })
        })
    }
}

impl Serialize for UnknownCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Deny => serializer.serialize_str("deny"),
            Self::Hold(usd) => serializer.collect_str(&format_args!("hold:{usd}")),
        }
    }
}

impl JsonSchema for UnknownCost {
    fn schema_name() -> Cow<'static, str> {
        "UnknownCost".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // What has another shape is refused when it is read, which says what to write instead.
        json_schema!({
            "pattern": "^(deny|hold:[0-9]*[.]?[0-9]*)$",
            "not": {"type": ["array", "boolean", "number", "object"]},
            "description": "`deny`, or `hold:AMOUNT` in US dollars",
        })
    }
}

// === impl Usd ===

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dollars;
        impl Visitor<'_> for Dollars {
            type Value = Usd;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an amount of US dollars such as 0.05")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
                amount(text).map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Usd, E> {
                // The shortest decimal that means this float is the one that was written.
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Usd, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Usd, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Dollars)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        let shortest = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(shortest)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string"], "minimum": 0, "format": USD_FORMAT, "description": "US dollars, to a millionth"})
    }
}

#[cfg(test)]
mod tests {
    use super::{UnknownCost, Usd};

    #[test]
    fn an_unknown_cost_is_refused_or_held_and_words_of_before_name_those_of_now() {
        let read = |text: &str| serde_json::from_str::<UnknownCost>(text).map_err(|error| error.to_string());
        assert_eq!(read("\"deny\"").unwrap(), UnknownCost::Deny);
        assert_eq!(read("\"hold:0.05\"").unwrap(), UnknownCost::Hold(Usd(50_000)));
        for (before, says) in [
            ("\"allow-and-flag\"", "`price`"),
            ("{\"usd\": 0.05}", "\"hold:AMOUNT\"` now"),
            ("\"hold:\"", "found `\"hold:\"`"),
            ("\"hold:-1\"", "expected \"deny\" or"),
            ("0.05", "found `0.05`"),
        ] {
            let error = read(before).unwrap_err();
            assert!(error.contains("\"hold:AMOUNT\"") && error.contains(says), "{before}: {error}");
        }
        let written = serde_json::to_string(&UnknownCost::Hold(Usd(50_000))).unwrap();
        assert_eq!(read(&written).unwrap(), UnknownCost::Hold(Usd(50_000)));
    }

    #[test]
    fn decimals_are_exact() {
        let read = |text: &str| serde_json::from_str::<Usd>(text).map(|usd| usd.0);
        assert_eq!(read("0.05").unwrap(), 50_000);
        assert_eq!(read("0.1").unwrap(), 100_000);
        assert_eq!(read("10.0").unwrap(), 10_000_000);
        assert_eq!(read("1234567.891234").unwrap(), 1_234_567_891_234);
        assert_eq!(read("7").unwrap(), 7_000_000);
        assert_eq!(read("\"0.000001\"").unwrap(), 1);
        assert!(read("-1").is_err() && read("-0.5").is_err() && read("\"lots\"").is_err());
        for least in ["0.0000001", "\"0.0000009\"", "1e300", "\"inf\"", "\"NaN\""] {
            assert!(read(least).is_err(), "{least}");
        }
        assert_eq!(read("0.0000000").unwrap(), 0);
        assert_eq!(Usd(50_000).to_string(), "0.05");
        assert_eq!(Usd(10_000_000).to_string(), "10");
    }
}
