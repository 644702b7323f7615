//! The time, as decisions see it: passed in, so that a test can say what time it is.

use std::ops::{Add, Sub};
use std::time::Duration;

use chancery_protocol::Timestamp;

/// Milliseconds since 1970, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// How long it is from an earlier time to this one; nothing if that is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<Timestamp> for Millis {
    fn from(at: Timestamp) -> Self {
        Self(u64::try_from(at.as_millis()).unwrap_or_default())
    }
}

impl From<Millis> for Timestamp {
    fn from(at: Millis) -> Self {
        Self::from_millis(i64::try_from(at.0).unwrap_or(i64::MAX))
    }
}

impl Add<Duration> for Millis {
    type Output = Self;

    fn add(self, more: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(more.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Millis {
    type Output = Self;

    fn sub(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(less.as_millis()).unwrap_or(u64::MAX)))
    }
}
