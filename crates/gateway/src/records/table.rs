//! Calls and sums as rows, for a spreadsheet.

use std::borrow::Cow;

use chancery_protocol::{Edge, Timestamp};
use chancery_store::Spend;

/// The heads of the columns of [`call_row`].
pub(crate) const CALLS: [&str; 23] = [
    "hop",
    "root",
    "parent",
    "depth",
    "trace",
    "realm",
    "caller",
    "payer",
    "groups",
    "agent",
    "skill",
    "peer",
    "task",
    "opened",
    "settled",
    "state",
    "reserved_usd",
    "charged_usd",
    "tokens",
    "cost_source",
    "duration_ms",
    "overrun_usd",
    "overrun_tokens",
];

/// The heads of the columns of [`sum_row`].
pub(crate) const SUMS: [&str; 11] = [
    "from",
    "seconds",
    "realm",
    "caller",
    "groups",
    "agent",
    "charged_usd",
    "tokens",
    "calls",
    "overrun_usd",
    "overrun_tokens",
];

/// One call. What is not known yet is empty.
pub(crate) fn call_row(edge: &Edge) -> [String; 23] {
    let settled = edge.settled.as_ref();
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    [
        edge.hop.to_string(),
        edge.root.to_string(),
        or_empty(edge.parent.map(|parent| parent.to_string())),
        edge.depth.to_string(),
        text(&edge.trace),
        edge.realm.to_string(),
        edge.caller.to_string(),
        edge.paid_by().to_string(),
        edge.groups.join(" "),
        edge.agent.to_string(),
        text(&edge.skill),
        text(&edge.peer),
        or_empty(edge.task.as_ref().map(|task| task.as_str().to_owned())),
        edge.opened.to_string(),
        or_empty(settled.map(|settled| settled.at.to_string())),
        or_empty(settled.and_then(|settled| settled.state).map(|state| state.as_str().to_owned())),
        usd(edge.reserved.micro_usd),
        or_empty(settled.map(|settled| usd(settled.charged.micro_usd))),
        or_empty(settled.map(|settled| settled.charged.tokens.to_string())),
        or_empty(settled.map(|settled| settled.source.as_str().to_owned())),
        or_empty(settled.map(|settled| millis_between(edge.opened, settled.at).to_string())),
        or_empty(settled.map(|settled| usd(settled.overrun.micro_usd))),
        or_empty(settled.map(|settled| settled.overrun.tokens.to_string())),
    ]
}

/// What one caller was charged for one agent in one span of time.
pub(crate) fn sum_row(sum: &Spend) -> [String; 11] {
    [
        sum.from.to_string(),
        sum.span.as_secs().to_string(),
        sum.realm.to_string(),
        sum.caller.as_deref().unwrap_or_default().to_owned(),
        sum.groups.join(" "),
        sum.agent.to_string(),
        usd(sum.charged.micro_usd),
        sum.charged.tokens.to_string(),
        sum.calls.to_string(),
        usd(sum.overrun.micro_usd),
        sum.overrun.tokens.to_string(),
    ]
}

/// A cell that no spreadsheet takes for a formula: names are what callers and agents made of them.
pub(crate) fn safe(cell: &str) -> Cow<'_, str> {
    match cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => Cow::Owned(format!("'{cell}")),
        false => Cow::Borrowed(cell),
    }
}

/// An amount of millionths in US dollars, exactly.
pub(crate) fn usd(micro_usd: u64) -> String {
    format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000)
}

/// How long something took; nothing if the clock went back.
pub(super) fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or_default()
}
