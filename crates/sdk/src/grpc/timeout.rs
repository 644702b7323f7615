//! `grpc-timeout`: how long a caller waits, as a number of at most eight digits and a unit.

use std::time::Duration;

/// The metadata's name.
pub(crate) const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Reads it.
pub(crate) fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Writes it, in the finest unit that has room.
pub(crate) fn write(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match (millis, seconds, seconds / 60) {
        (..100_000_000, _, _) => format!("{millis}m"),
        (_, ..100_000_000, _) => format!("{seconds}S"),
        (_, _, minutes @ ..100_000_000) => format!("{minutes}M"),
        _ => format!("{}H", (seconds / 3600).min(99_999_999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_grpc_has_them() {
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        for text in ["", "1", "m", "1s", "123456789m", "-1m", "1.5S", "é", "1é"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for millis in [0, 1, 99_999_999, 100_000_000] {
            let time = Duration::from_millis(millis);
            assert_eq!(read(&write(time)), Some(time));
        }
        for seconds in [99_999_999, 100_000_000, 5_999_999_999, 6_000_000_000, u64::MAX] {
            let time = Duration::from_secs(seconds);
            let again = read(&write(time)).unwrap();
            // Nobody is made to wait longer than they said.
            assert!(again <= time && (time - again < Duration::from_secs(3600) || seconds == u64::MAX));
        }
    }
}
