//! Reads usage reports of agents in any language: every spelling of a whole number counts, and a field that cannot be read
//! spoils nothing but itself.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::JsonObject;
use crate::usage::{USAGE_EXTENSION, Usage};

/// A usage report as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// What the report says; none if no field of it could be read.
    pub usage: Option<Usage>,
    /// Fields that are there and could not be read.
    pub ignored: IgnoredFields,
}

/// Fields of a usage report that could not be read. Written as a list of their names.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct IgnoredFields(u8);

/// The fields of a report, each at the place of its bit.
const FIELDS: [&str; 3] = ["inputTokens", "outputTokens", "costMicroUsd"];

// === impl UsageReport ===

impl UsageReport {
    /// Reads the report in the metadata of a task, a status or a message, if there is one.
    pub fn in_metadata(metadata: &JsonObject) -> Option<Self> {
        metadata.entry(USAGE_EXTENSION).ok().flatten()
    }
}

impl<'de> Deserialize<'de> for UsageReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReportVisitor)
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        UsageReport::deserialize(deserializer).map(|report| report.usage.unwrap_or_default())
    }
}

struct ReportVisitor;

impl<'de> Visitor<'de> for ReportVisitor {
    type Value = UsageReport;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a usage report")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<UsageReport, M::Error> {
        // Of a key that is written twice, the last one counts.
        let mut fields = [Reading::Absent; FIELDS.len()];
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match FIELDS.iter().position(|field| *field == key) {
                Some(place) => fields[place] = Reading::of(map.next_value::<Box<RawValue>>()?.get()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let value = |place: usize| match fields[place] {
            Reading::Whole(value) => value,
            Reading::Absent | Reading::Unreadable => 0,
        };
        let is_readable = fields.iter().any(|field| matches!(field, Reading::Whole(_)));
        let usage = Usage { input_tokens: value(0), output_tokens: value(1), cost_micro_usd: value(2) };
        let unreadable = |(place, _): (usize, &Reading)| 1 << place;
        let bad = fields.iter().enumerate().filter(|(_, field)| matches!(field, Reading::Unreadable));
        let ignored = IgnoredFields(bad.map(unreadable).fold(0, |all, bit: u8| all | bit));
        Ok(UsageReport { usage: is_readable.then_some(usage), ignored })
    }
}

/// What one field holds.
#[derive(Clone, Copy)]
enum Reading {
    Absent,
    Whole(u64),
    Unreadable,
}

impl Reading {
    /// Reads the text of a JSON value.
    fn of(json: &str) -> Self {
        if json == "null" {
            return Self::Absent;
        }
        let text = match json.starts_with('"') {
            true => serde_json::from_str::<String>(json).map(Cow::Owned),
            false => Ok(Cow::Borrowed(json)),
        };
        text.ok().and_then(|text| parse_whole(&text)).map_or(Self::Unreadable, Self::Whole)
    }
}

/// Reads a decimal number in any spelling, such as `30000`, `30000.0` or `3e4`, exactly. None if it is negative, has a
/// fraction, or is more than can be counted.
fn parse_whole(text: &str) -> Option<u64> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    // The value is `digits` times ten to the power of `exponent`.
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let trailing = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let length = |count: usize| i64::try_from(count).ok();
    let exponent = exponent.checked_add(length(trailing)?)?.checked_sub(length(fraction.len())?)?;
    if is_negative || significant.len() > MOST_DIGITS {
        return None;
    }
    let zeros = u32::try_from(exponent).ok()?;
    significant.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(zeros)?)
}

/// The digits of the largest number that can be counted.
const MOST_DIGITS: usize = 20;

/// An exponent; one of many digits is as good as any other that is out of range.
fn parse_exponent(text: &str) -> Option<i64> {
    const FAR: i64 = i64::MAX / 4;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse().unwrap_or(FAR).min(FAR))
}

// === impl IgnoredFields ===

impl IgnoredFields {
    /// Whether every field could be read.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FIELDS
            .into_iter()
            .enumerate()
            .filter(move |(place, _)| self.0 & (1 << place) != 0)
            .map(|(_, name)| name)
    }

    /// The fields that could not be read in either report.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for IgnoredFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Serialize for IgnoredFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for IgnoredFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<Cow<'_, str>>::deserialize(deserializer)?;
        let bits = names.iter().filter_map(|name| FIELDS.iter().position(|field| field == name));
        Ok(Self(bits.fold(0, |all, place| all | 1 << place)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> UsageReport {
        let metadata = JsonObject::parse(&format!("{{\"{USAGE_EXTENSION}\":{json}}}")).unwrap();
        UsageReport::in_metadata(&metadata).expect("it is an object")
    }

    fn input(value: &str) -> Option<u64> {
        read(&format!("{{\"inputTokens\":{value}}}")).usage.map(|usage| usage.input_tokens)
    }

    #[test]
    fn a_whole_number_is_read_in_any_spelling() {
        for text in ["30000", "30000.0", "3e4", "3E+4", "\"30000\"", "\"3.0e4\"", "300000e-1", "0.3e5"] {
            assert_eq!(input(text), Some(30_000), "{text}");
        }
        for text in ["0", "-0", "0.000", "0e99999999999999999999", "\"-0.0\"", "\"\\u0030\""] {
            assert_eq!(input(text), Some(0), "{text}");
        }
        for text in ["18446744073709551615", "1844674407370955161.5e1", "\"18446744073709551615.00\""] {
            assert_eq!(input(text), Some(u64::MAX), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_not_rounded() {
        for text in [
            "-1",
            "1.5",
            "1e-1",
            "18446744073709551616",
            "1e20",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "true",
            "[1]",
            "{\"a\":1}",
            "\"\"",
            "\"lots\"",
            "\"1e\"",
            "\"1.\"",
            "\".5\"",
            "\"0x10\"",
            "\"1 \"",
            "\"NaN\"",
        ] {
            assert_eq!(input(text), None, "{text}");
        }
    }

    #[test]
    fn a_field_that_cannot_be_read_spoils_nothing_but_itself() {
        let report = read(r#"{"inputTokens":-3,"outputTokens":"7","costMicroUsd":1.0,"model":{"a":[1]}}"#);
        assert_eq!(report.usage, Some(Usage { input_tokens: 0, output_tokens: 7, cost_micro_usd: 1 }));
        assert_eq!(report.ignored.names().collect::<Vec<_>>(), ["inputTokens"]);
        assert_eq!(serde_json::to_string(&report.ignored).unwrap(), r#"["inputTokens"]"#);
    }

    #[test]
    fn a_report_of_nothing_that_can_be_read_says_nothing() {
        assert_eq!(read("{}"), UsageReport::default());
        assert_eq!(read(r#"{"inputTokens":null}"#), UsageReport::default());
        let spoiled = read(r#"{"inputTokens":-1,"costMicroUsd":"free"}"#);
        assert_eq!(spoiled.usage, None);
        assert_eq!(spoiled.ignored.names().collect::<Vec<_>>(), ["inputTokens", "costMicroUsd"]);
    }

    #[test]
    fn the_last_of_a_repeated_field_counts() {
        assert_eq!(read(r#"{"inputTokens":"x","inputTokens":4}"#).usage.unwrap().input_tokens, 4);
        assert!(read(r#"{"inputTokens":4,"inputTokens":"x"}"#).usage.is_none());
    }

    /// The same whole number, with its decimal point moved and zeros put around it.
    fn spellings(value: u64, moved: i64, zeros: usize, is_text: bool) -> String {
        let digits = value.to_string();
        let (number, exponent) = if moved >= 0 {
            (format!("{digits}{}", "0".repeat(moved.unsigned_abs() as usize)), -moved)
        } else {
            let padded = format!("{digits:0>width$}", width = moved.unsigned_abs() as usize + 1);
            let (whole, fraction) = padded.split_at(padded.len() - moved.unsigned_abs() as usize);
            (format!("{whole}.{fraction}{}", "0".repeat(zeros)), -moved)
        };
        let text = if exponent == 0 { number } else { format!("{number}e{exponent}") };
        if is_text { format!("\"{text}\"") } else { text }
    }

    proptest! {
        #[test]
        fn every_spelling_of_a_whole_number_reads_equal(
            value: u64, moved in -40_i64..40, zeros in 0_usize..30, is_text: bool,
        ) {
            let text = spellings(value, moved, zeros, is_text);
            prop_assert_eq!(input(&text), Some(value), "{}", text);
        }

        #[test]
        fn no_text_breaks_a_report(text: String) {
            let quoted = serde_json::to_string(&text).unwrap();
            let report = read(&format!("{{\"inputTokens\":{quoted},\"outputTokens\":2}}"));
            prop_assert_eq!(report.usage.map(|usage| usage.output_tokens), Some(2));
        }
    }
}
