//! JSON in the one form that RFC 8785 leaves: what is signed has to be the same bytes for whoever reads it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text has no canonical form.
#[derive(Debug, thiserror::Error)]
#[error("there is no canonical form of this JSON: {0}")]
pub struct NotCanonical(#[from] serde_json::Error);

/// A JSON text in its canonical form (RFC 8785). Numbers are doubles, as I-JSON has them; a key that is written twice
/// is refused, since readers differ in which one they take.
pub fn canonical_json(text: &str) -> Result<String, NotCanonical> {
    canonical(&parse(text)?)
}

/// A JSON value in its canonical form.
pub(super) fn canonical(value: &Value) -> Result<String, NotCanonical> {
    Ok(serde_json_canonicalizer::to_string(value)?)
}

/// Reads a JSON text in which no object has a key twice.
pub(super) fn parse(text: &str) -> Result<Value, NotCanonical> {
    let Unique(value) = serde_json::from_str(text)?;
    Ok(value)
}

/// A value in which no object has a key twice.
struct Unique(Value);

struct UniqueVisitor;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some((key, Unique(value))) = map.next_entry::<String, _>()? {
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} is written twice")));
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_8785() {
        // Section 3.2.2, and what section 3.2.4 makes of it, as bytes.
        let text = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let bytes = "7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 75 65 2c 66 61 6c 73 65 5d 2c 22 6e \
                     75 6d 62 65 72 73 22 3a 5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 65 2b 33 30 \
                     2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37 5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 \
                     5c 75 30 30 30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d";
        let expected: Vec<_> =
            bytes.split_whitespace().map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
        assert_eq!(canonical_json(text).unwrap().as_bytes(), expected);
    }

    #[test]
    fn keys_are_sorted_by_utf_16_units() {
        // Section 3.2.3: of the emoji the first unit is D83D, which comes before FB33 though the character comes after.
        let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
            "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
        let text = canonical_json(text).unwrap();
        let places: Vec<_> = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"]
            .iter()
            .map(|name| text.find(name).unwrap())
            .collect();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn numbers_are_written_as_rfc_8785_samples_them() {
        // Appendix B, by the bits of the double.
        for (bits, expected) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let text = serde_json::to_string(&f64::from_bits(bits)).unwrap();
            assert_eq!(canonical_json(&text).unwrap(), expected, "{bits:x}");
        }
        assert_eq!(canonical_json("-0").unwrap(), "0");
        assert_eq!(canonical_json("12345678901234567890").unwrap(), "12345678901234567000");
    }

    #[test]
    fn what_readers_would_not_agree_on_is_refused() {
        for text in
            [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#, "1e400", r#""\ud800""#, "{", "1 2", ""]
        {
            assert!(canonical_json(text).is_err(), "{text}");
        }
    }
}
