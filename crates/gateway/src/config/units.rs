//! Amounts as people write them. Money is read as decimals once, and is whole millionths from then on.

use std::borrow::Cow;

use chancery_protocol::parse_usd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// US dollars, in millionths: `0.05`, or as a text where a decimal must not be touched by a float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Usd(pub(crate) u64);

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dollars;
        impl Visitor<'_> for Dollars {
            type Value = Usd;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an amount of US dollars such as 0.05")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
                parse_usd(text)
                    .map(Usd)
                    .ok_or_else(|| E::custom(format!("`{text}` is no amount of US dollars")))
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
        json_schema!({"type": ["number", "string"], "minimum": 0, "description": "US dollars, to a millionth"})
    }
}

#[cfg(test)]
mod tests {
    use super::Usd;

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
        assert_eq!(Usd(50_000).to_string(), "0.05");
        assert_eq!(Usd(10_000_000).to_string(), "10");
    }
}
