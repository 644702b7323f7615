//! What an earlier process had let through: charged, or still open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_control::{Millis, Plane, RestoredCall};
use chancery_protocol::{Edge, HopId, Timestamp};
use chancery_sdk::Restored;
use chancery_store::{EdgeQuery, Realms, Spend, Store, StoreError};

use super::adjust::Adjustments;

/// How much is read at a time.
const STEP: usize = 1000;

const A_MONTH: Duration = Duration::from_secs(31 * 24 * 60 * 60);
const MINUTE_MS: u64 = 60 * 1000;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What the records say.
pub(super) struct Past {
    /// All calls of the roots that have open ones.
    living: Vec<Edge>,
    spends: Vec<Spend>,
    calls: Vec<RestoredCall>,
}

impl Past {
    /// Reads what is still open, and what this month has cost.
    pub(super) async fn read(store: &Store, now: Millis) -> Result<Self, StoreError> {
        let realms = Realms::All;
        let mut living = Vec::new();
        for root in living_roots(store, &realms).await? {
            let mut query = EdgeQuery { root: Some(root), limit: STEP, ..EdgeQuery::of(realms.clone()) };
            loop {
                let page = store.edges(&query).await?;
                living.extend(page.edges);
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
        }
        // The longest window is a calendar month.
        let a_month_ago = Timestamp::from(now - A_MONTH);
        let (mut spends, mut after) = (Vec::new(), None);
        loop {
            let page = store.spend(&realms, a_month_ago, after, STEP).await?;
            spends.extend(page.sums);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(Self { living, spends, calls: Vec::new() })
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.living
    }

    /// Has the plane count on from there, with budgets as they were adjusted. Says whether anything was adjusted only now.
    pub(super) fn restore(mut self, plane: &Arc<Plane>, adjustments: &mut Adjustments) -> (Self, bool) {
        let now = plane.hands.now();
        let charged = std::mem::take(&mut self.spends).into_iter().map(|spend| {
            let at = booked_at(&spend, now);
            let plane = plane.clone();
            let charge = move || {
                let accounts = plane.accounts_charged(spend.billed(), &spend.agent, at);
                plane.charged_before(&accounts, spend.charged, at);
                plane.overran_before(&spend.agent, spend.overrun, at);
            };
            (at, Box::new(charge) as Box<dyn FnOnce()>)
        });
        let mut all = adjustments.replay(plane, now);
        all.extend(charged);
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().for_each(|(_, again)| again());
        let changed = adjustments.finish(plane);
        self.calls = plane.restore(&self.living);
        if !self.calls.is_empty() {
            tracing::info!(calls = self.calls.len(), "calls of the last process are held on to");
        }
        (self, changed)
    }

    /// What open calls hold at an agent.
    pub(super) fn take(&mut self, agent: &str) -> Vec<Restored> {
        let of_agent = self.calls.extract_if(.., |call| *call.agent == *agent);
        of_agent
            .map(|RestoredCall { principal, task, hold, .. }| Restored { principal, task, hold })
            .collect()
    }
}

/// When what was charged within a span counts as charged: at its end, so for longer rather than for less long. What
/// has been added up to days is older than an hour.
fn booked_at(spend: &Spend, now: Millis) -> Millis {
    let last = (millis(spend.from) + spend.span).0.saturating_sub(1);
    let latest = match spend.span > HOUR {
        true => (now.0 - now.0 % MINUTE_MS).saturating_sub(60 * MINUTE_MS + 1),
        false => now.0,
    };
    Millis(last.min(latest))
}

/// The roots that have open calls.
async fn living_roots(store: &Store, realms: &Realms) -> Result<BTreeSet<HopId>, StoreError> {
    let (mut roots, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.open_edges(realms, after, STEP).await?;
        roots.extend(page.edges.iter().map(|edge| edge.root));
        after = page.next;
        if after.is_none() {
            return Ok(roots);
        }
    }
}

fn millis(at: Timestamp) -> Millis {
    Millis(u64::try_from(at.as_millis()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use chancery_protocol::Amount;

    use super::*;

    fn spend(from: u64, span: u64) -> Spend {
        Spend {
            from: Timestamp::from_millis(i64::try_from(from).unwrap()),
            span: Duration::from_secs(span),
            realm: "r".into(),
            caller: None,
            groups: Vec::new(),
            agent: "a".into(),
            charged: Amount::default(),
            overrun: Amount::default(),
            calls: 1,
        }
    }

    #[test]
    fn what_was_charged_counts_in_its_own_period() {
        const DAY: u64 = 24 * 60 * MINUTE_MS;
        let now = Millis(10 * DAY + 8 * 60 * MINUTE_MS + 30_000);
        // Yesterday's is not today's.
        assert_eq!(booked_at(&spend(9 * DAY, 86_400), now).0, 10 * DAY - 1);
        // Of today, what is kept as a day is over for an hour, and no longer counts in that.
        assert_eq!(booked_at(&spend(10 * DAY, 86_400), now).0, 10 * DAY + 7 * 60 * MINUTE_MS - 1);
        // A minute counts to its end, this second until now.
        let minute = 10 * DAY + 8 * 60 * MINUTE_MS - 5 * MINUTE_MS;
        assert_eq!(booked_at(&spend(minute, 60), now).0, minute + MINUTE_MS - 1);
        assert_eq!(booked_at(&spend(now.0, 1), now), now);
    }
}
