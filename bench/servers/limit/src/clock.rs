//! The time of a status as `YYYY-MM-DDTHH:mm:ss.fffZ`, made without a date library.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// Milliseconds since 1970, written as a timestamp when serialised.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(u64);

// === impl Stamp ===

impl Stamp {
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_millis() as u64)
    }

    fn text(self) -> [u8; 24] {
        let (days, in_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Days to a civil date, counting years from the first of March.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);

        let mut text = *b"0000-00-00T00:00:00.000Z";
        put(&mut text[0..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], in_day / 3_600_000);
        put(&mut text[14..16], in_day / 60_000 % 60);
        put(&mut text[17..19], in_day / 1_000 % 60);
        put(&mut text[20..23], in_day % 1_000);
        text
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// Writes `number` right-aligned over the zeros of `field`.
fn put(field: &mut [u8], mut number: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_known_instants() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_793_491_199_999, "2026-10-31T23:59:59.999Z"),
        ] {
            assert_eq!(std::str::from_utf8(&Stamp(millis).text()), Ok(text));
        }
    }
}
