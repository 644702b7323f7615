//! Points in time as ProtoJSON writes them: UTC, `Z`, and a fraction of 0, 3, 6 or 9 digits.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// A point in time, to the nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// Why a text is not a timestamp.
#[derive(Debug, thiserror::Error)]
#[error("expected an ISO 8601 timestamp such as 2026-01-02T03:04:05.678Z")]
pub struct InvalidTimestamp;

/// ProtoJSON has no sign before a year, so nothing can be written that is earlier.
const YEAR_ONE_MS: i64 = -62_135_596_800_000;

impl Timestamp {
    /// The current time, in whole milliseconds.
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    /// From milliseconds since the Unix epoch, held within the years that can be written.
    pub fn from_millis(millis: i64) -> Self {
        let in_range = jiff::Timestamp::from_millisecond(millis.max(YEAR_ONE_MS));
        Self(in_range.unwrap_or(jiff::Timestamp::MAX))
    }

    /// From microseconds since the Unix epoch, held within the years that can be written.
    pub fn from_micros(micros: i64) -> Self {
        let in_range = jiff::Timestamp::from_microsecond(micros.max(YEAR_ONE_MS * 1_000));
        Self(in_range.unwrap_or(jiff::Timestamp::MAX))
    }

    /// Milliseconds since the Unix epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Microseconds since the Unix epoch, rounded down.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }

    /// Nanoseconds since the Unix epoch.
    pub fn as_nanos(self) -> i128 {
        self.0.as_nanosecond()
    }

    /// Reads ISO 8601. An offset is normalized to UTC, and a time without a zone is UTC: some peers leave it out.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        let in_utc = || text.contains(['T', 't', ' ']).then(|| format!("{text}Z").parse().ok()).flatten();
        let parsed = text.parse().ok().or_else(in_utc).map(Self).ok_or(InvalidTimestamp)?;
        if parsed < Self::from_millis(YEAR_ONE_MS) { Err(InvalidTimestamp) } else { Ok(parsed) }
    }
}

/// Every event and every task carries a time, so it is put together by hand, without allocating.
struct Text {
    bytes: [u8; 30],
    length: usize,
}

impl Text {
    fn of(time: jiff::Timestamp) -> Self {
        let mut text = Self { bytes: *b"0000-00-00T00:00:00.000000000Z", length: 30 };
        let civil = jiff::tz::Offset::UTC.to_datetime(time);
        text.put(0..4, civil.year().unsigned_abs().into());
        text.put(5..7, civil.month().unsigned_abs().into());
        text.put(8..10, civil.day().unsigned_abs().into());
        text.put(11..13, civil.hour().unsigned_abs().into());
        text.put(14..16, civil.minute().unsigned_abs().into());
        text.put(17..19, civil.second().unsigned_abs().into());
        let nanos = civil.subsec_nanosecond().unsigned_abs();
        let (digits, fraction) = match nanos {
            nanos if nanos % 1_000_000 == 0 => (3, nanos / 1_000_000),
            nanos if nanos % 1_000 == 0 => (6, nanos / 1_000),
            nanos => (9, nanos),
        };
        text.put(20..20 + digits, fraction);
        text.bytes[20 + digits] = b'Z';
        text.length = 21 + digits;
        text
    }

    /// Writes a number into its place, as many digits as that has.
    fn put(&mut self, place: std::ops::Range<usize>, mut number: u32) {
        for digit in self.bytes[place].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Text::of(self.0).as_str())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Text::of(self.0).as_str())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl serde::de::Visitor<'_> for TextVisitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an ISO 8601 timestamp")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_767_323_045_670).to_string(), "2026-01-02T03:04:05.670Z");
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn stays_within_the_years_that_can_be_written() {
        for millis in [i64::MIN, YEAR_ONE_MS - 1, YEAR_ONE_MS] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), "0001-01-01T00:00:00.000Z");
            let micros = millis.saturating_mul(1_000);
            assert_eq!(Timestamp::from_micros(micros).to_string(), "0001-01-01T00:00:00.000Z");
        }
        assert!(Timestamp::from_micros(i64::MAX).to_string().starts_with("9999-12-30T"));
        assert!(Timestamp::from_millis(i64::MAX).to_string().starts_with("9999-12-30T"));
        assert!(Timestamp::parse("0001-01-01T00:00:00Z").is_ok());
        assert!(Timestamp::parse("0000-12-31T23:59:59.999999999Z").is_err());
        assert!(Timestamp::parse("-000001-01-01T00:00:00Z").is_err());
    }

    #[test]
    fn normalizes_offsets_and_keeps_nanoseconds() {
        let parsed = Timestamp::parse("2026-01-02T05:04:05.123456789+02:00").unwrap();
        assert_eq!(parsed.to_string(), "2026-01-02T03:04:05.123456789Z");
        assert!(Timestamp::parse("yesterday").is_err());
    }

    #[test]
    fn a_time_without_a_zone_is_utc() {
        let parsed = |text| Timestamp::parse(text).map(|time| time.to_string());
        for text in ["2026-11-19T04:25:38.850143", "2026-11-19 04:25:38.850143"] {
            assert_eq!(parsed(text).unwrap(), "2026-11-19T04:25:38.850143Z");
        }
        assert!(parsed("2026-11-19").is_err() && parsed("2026-11-19T04:25:38+").is_err());
    }
}
