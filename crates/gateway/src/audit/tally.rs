//! Refusals of one second, added up: however many there are, they become a bounded number of entries.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use chancery_protocol::{Denied, Principal, Timestamp};
use chancery_store::AuditRecord;

use super::Origin;

/// How many entries of each kind a second leaves at most, besides one for all others.
const TOP: usize = 16;
/// How many are told apart within a second. What comes then is counted as one.
const TRACKED: usize = 4096;

/// What was refused since it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Tally {
    denials: Counts,
    credentials: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    seen: HashMap<Why, Seen>,
    /// Those that came when there was no room for more.
    beside: u64,
}

/// Who was refused, and why.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Why {
    who: Option<Principal>,
    /// Of somebody who is nobody in particular.
    source: Option<IpAddr>,
    key: Option<Arc<str>>,
    gate: Cow<'static, str>,
    reason: Cow<'static, str>,
}

/// How often, and the first time.
#[derive(Debug)]
struct Seen {
    count: u64,
    at: Timestamp,
    origin: Origin,
    agent: Option<Arc<str>>,
    limit: Option<String>,
}

impl Tally {
    pub(super) fn denied(
        &mut self,
        who: Option<&Principal>,
        agent: Option<&Arc<str>>,
        origin: &Origin,
        denied: &Denied,
    ) {
        let source = origin.source.filter(|_| who.is_none());
        let (gate, reason) = (denied.gate.clone(), denied.reason.clone());
        let why = Why { who: who.cloned(), source, key: None, gate, reason };
        self.denials.add(why, || (origin.clone(), agent.cloned(), denied.limit.clone()));
    }

    pub(super) fn refused(&mut self, origin: &Origin, reason: &'static str) {
        let (source, key) = (origin.source, origin.key.clone());
        let why =
            Why { who: None, source, key, gate: Cow::Borrowed("credential"), reason: Cow::Borrowed(reason) };
        self.credentials.add(why, || (origin.clone(), None, None));
    }

    /// The entries that say it, the most frequent first. Nothing is counted afterwards.
    pub(super) fn take(&mut self) -> Vec<AuditRecord> {
        let mut records = std::mem::take(&mut self.denials).into_records("denial", "call.denied");
        records
            .extend(std::mem::take(&mut self.credentials).into_records("credential", "credential.refused"));
        let until = Timestamp::now().to_string();
        records.into_iter().map(|record| record.detail("until", &*until)).collect()
    }
}

impl Counts {
    fn add(&mut self, why: Why, first: impl FnOnce() -> (Origin, Option<Arc<str>>, Option<String>)) {
        if let Some(seen) = self.seen.get_mut(&why) {
            seen.count += 1;
        } else if self.seen.len() < TRACKED {
            let (origin, agent, limit) = first();
            self.seen.insert(why, Seen { count: 1, at: Timestamp::now(), origin, agent, limit });
        } else {
            self.beside += 1;
        }
    }

    fn into_records(self, kind: &str, action: &str) -> Vec<AuditRecord> {
        let mut seen: Vec<_> = self.seen.into_iter().collect();
        seen.sort_by_key(|(_, seen)| (Reverse(seen.count), seen.at));
        let others = seen.split_off(seen.len().min(TOP));
        let mut records: Vec<_> =
            seen.into_iter().map(|(why, seen)| record(kind, action, &why, seen)).collect();
        let rest = others.iter().map(|(_, seen)| seen.count).sum::<u64>() + self.beside;
        if rest > 0 {
            let more = others.len() as u64 + u64::from(self.beside > 0);
            let rest = AuditRecord::new(kind, action).detail("count", rest).detail("others", more);
            records.push(rest);
        }
        records
    }
}

fn record(kind: &str, action: &str, why: &Why, seen: Seen) -> AuditRecord {
    let mut record = AuditRecord { at: seen.at, ..AuditRecord::new(kind, action) };
    seen.origin.put_to(&mut record);
    record.target = seen.agent.map(|agent| agent.to_string());
    record.realm = why.who.as_ref().map(|who| who.realm.to_string());
    record.principal = why.who.as_ref().map(|who| who.id.to_string());
    record = record.detail("reason", &*why.reason).detail("count", seen.count);
    if kind == "denial" {
        record = record.detail("gate", &*why.gate);
    }
    match seen.limit {
        Some(limit) => record.detail("limit", limit),
        None => record,
    }
}

#[cfg(test)]
mod tests {
    use chancery_protocol::DeniedKind;
    use chancery_store::AuditValue;

    use super::*;

    fn count(record: &AuditRecord) -> u64 {
        match record.details["count"] {
            AuditValue::Count(count) => count,
            AuditValue::Text(_) => panic!("a count is a number"),
        }
    }

    #[test]
    fn denials_are_added_up_by_caller_gate_and_reason() {
        let mut tally = Tally::default();
        let (alice, bob) = (Principal::new("r", "alice"), Principal::new("r", "bob"));
        let over = Denied::new("budget", DeniedKind::Exhausted, "BUDGET_EXCEEDED");
        let rate = Denied::new("rate", DeniedKind::Exhausted, "RATE_EXCEEDED");
        for _ in 0..3 {
            tally.denied(Some(&alice), Some(&"echo".into()), &Origin::default(), &over);
        }
        tally.denied(Some(&alice), None, &Origin::default(), &rate);
        tally.denied(Some(&bob), Some(&"echo".into()), &Origin::default(), &over);
        let records = tally.take();
        assert_eq!(records.iter().map(count).collect::<Vec<_>>(), [3, 1, 1]);
        let first = &records[0];
        assert_eq!((first.principal.as_deref(), first.target.as_deref()), (Some("alice"), Some("echo")));
        assert_eq!(first.details["gate"], "budget".into());
        assert!(tally.take().is_empty());
    }

    #[test]
    fn any_number_of_refusals_becomes_a_bounded_number_of_entries() {
        let mut tally = Tally::default();
        let denied = Denied::new("budget", DeniedKind::Exhausted, "BUDGET_EXCEEDED");
        let all = 3 * TRACKED as u64;
        for number in 0..all {
            let who = Principal::new("r", number.to_string());
            tally.denied(Some(&who), None, &Origin::default(), &denied);
            let origin = Origin { key: Some(number.to_string().into()), ..Origin::default() };
            tally.refused(&origin, "key_unknown");
        }
        let records = tally.take();
        assert_eq!(records.len(), 2 * (TOP + 1));
        for kind in ["denial", "credential"] {
            let counted: u64 = records.iter().filter(|record| record.kind == kind).map(count).sum();
            assert_eq!(counted, all, "{kind}");
        }
    }
}
