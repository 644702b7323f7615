//! Why a gate refused a call, as a value: which gate, which limit, what is left, when to try again.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::{ErrorCode, Fact};

/// A refusal, precise enough to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The gate that refused.
    pub gate: Cow<'static, str>,
    /// What sort of refusal it is; decides the status on every binding.
    pub kind: DeniedKind,
    /// A stable name for the reason, such as `BUDGET_EXCEEDED`.
    pub reason: Cow<'static, str>,
    /// The limit that was reached.
    pub limit: Option<String>,
    /// What the call would have made of it.
    pub observed: Option<String>,
    /// What is left.
    pub remaining: Option<String>,
    /// The same limit in numbers, where it can be counted.
    pub quota: Option<Box<Quota>>,
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// How much of something there is, what is left of it, and when all of it is there again: in requests, calls, tokens or
/// micro-USD, whichever it is that is limited. Told in the `RateLimit-*` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// So much there is.
    pub limit: u64,
    /// So much is left.
    pub remaining: u64,
    /// When there is more; none if that is never.
    pub reset: Option<Duration>,
}

/// What sort of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedKind {
    /// Spend or rate: later may be fine.
    Exhausted,
    /// Policy or authorisation: not for this caller.
    Forbidden,
    /// The chain of calls: not from here.
    Lineage,
    /// Nobody who could do it can be reached: later may be fine.
    Unavailable,
}

impl DeniedKind {
    /// Every kind, for those who walk them.
    pub const ALL: [Self; 4] = [Self::Exhausted, Self::Forbidden, Self::Lineage, Self::Unavailable];

    /// The error that callers see.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Exhausted => ErrorCode::ResourceExhausted,
            Self::Forbidden => ErrorCode::PermissionDenied,
            Self::Lineage => ErrorCode::LineageRefused,
            Self::Unavailable => ErrorCode::Unavailable,
        }
    }
}

impl Denied {
    /// A refusal by this gate, for this reason.
    pub fn new(
        gate: impl Into<Cow<'static, str>>,
        kind: DeniedKind,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            gate: gate.into(),
            kind,
            reason: reason.into(),
            limit: None,
            observed: None,
            remaining: None,
            quota: None,
            retry_after: None,
            hint: None,
        }
    }

    /// Whether it is about who asks or how often, for which HTTP has statuses of its own. What the other gates refuse is a
    /// decision about a call that was understood.
    pub fn is_of_http(&self) -> bool {
        matches!(&*self.gate, "identity" | "rate")
    }

    /// The facts for `ErrorInfo.metadata`.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let optional = [
            ("limit", &self.limit),
            ("observed", &self.observed),
            ("remaining", &self.remaining),
            ("hint", &self.hint),
        ];
        let known =
            optional.into_iter().filter_map(|(key, value)| Some((Cow::Borrowed(key), value.clone()?)));
        std::iter::once((Cow::Borrowed("gate"), self.gate.clone().into_owned())).chain(known).collect()
    }
}

impl Quota {
    /// The headers that tell of it, by their names.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let seconds = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let always = [("ratelimit-limit", self.limit), ("ratelimit-remaining", self.remaining)];
        always.into_iter().chain(self.reset.map(|wait| ("ratelimit-reset", seconds(wait))))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "denied by gate `{}`: {}", self.gate, self.reason)?;
        match (&self.limit, &self.observed) {
            (Some(limit), _) => write!(f, ", limit {limit}")?,
            // Without a figure to compare it with, what was seen is the reason.
            (None, Some(observed)) => write!(f, ", {observed}")?,
            (None, None) => {}
        }
        if let Some(remaining) = &self.remaining {
            write!(f, ", {remaining} left")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn each_kind_has_the_status_that_its_callers_can_act_on() {
        let status = |kind: DeniedKind| {
            let row = Error::from(Denied::new("a gate", kind, "A_REASON")).code().row();
            (row.http.as_u16(), row.grpc.1)
        };
        assert_eq!(status(DeniedKind::Exhausted), (429, "RESOURCE_EXHAUSTED"));
        assert_eq!(status(DeniedKind::Forbidden), (403, "PERMISSION_DENIED"));
        assert_eq!(status(DeniedKind::Lineage), (400, "FAILED_PRECONDITION"));
        assert_eq!(status(DeniedKind::Unavailable), (503, "UNAVAILABLE"));
    }
}
