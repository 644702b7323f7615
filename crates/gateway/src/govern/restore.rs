//! What an earlier process had let through: charged, or still open.

use std::sync::Arc;

use chancery_control::ledger::{Accounts, Scope};
use chancery_control::{Millis, Plane, RestoredCall};
use chancery_protocol::{Edge, Timestamp};
use chancery_sdk::Restored;
use chancery_store::{Realms, Spend, Store, StoreError};

/// How much is read at a time.
const STEP: usize = 1000;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What the records say.
pub(super) struct Past {
    open: Vec<Edge>,
    spends: Vec<Spend>,
    calls: Vec<RestoredCall>,
}

impl Past {
    /// Reads what is still open, and what this month has cost.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
        let realms = Realms::All;
        let mut open = Vec::new();
        let mut after = None;
        loop {
            let page = store.open_edges(&realms, after, STEP).await?;
            open.extend(page.edges);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // The longest window is a calendar month.
        let a_month_ago = Timestamp::from_millis(store.now().as_millis() - 31 * DAY_MS);
        let (mut spends, mut after) = (Vec::new(), None);
        loop {
            let page = store.spend(&realms, a_month_ago, after, STEP).await?;
            spends.extend(page.sums);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        spends.sort_by_key(|spend| spend.from);
        Ok(Self { open, spends, calls: Vec::new() })
    }

    pub(super) fn edges(&self) -> &[Edge] {
        &self.open
    }

    /// Has the plane count on from there.
    pub(super) fn restore(mut self, plane: &Arc<Plane>) -> Self {
        for spend in std::mem::take(&mut self.spends) {
            // What was charged within a span counts as if at its end: for longer rather than for less long.
            let at = millis(spend.from) + spend.span;
            let at = at.min(plane.hands.now());
            plane.charged_before(&accounts(plane, &spend, at), spend.charged, at);
        }
        self.calls = plane.restore(&self.open);
        if !self.calls.is_empty() {
            tracing::info!(calls = self.calls.len(), "calls of the last process are held on to");
        }
        self
    }

    /// What open calls hold at an agent.
    pub(super) fn take(&mut self, agent: &str) -> Vec<Restored> {
        let of_agent = self.calls.extract_if(.., |call| *call.agent == *agent);
        of_agent
            .map(|RestoredCall { principal, task, hold, .. }| Restored { principal, task, hold })
            .collect()
    }
}

fn accounts(plane: &Plane, spend: &Spend, now: Millis) -> Accounts {
    let caller = spend.caller.clone().map(|id| Scope::Caller { realm: spend.realm.clone(), id });
    let shared = [Scope::Global, Scope::Realm(spend.realm.clone()), Scope::Agent(spend.agent.clone())];
    shared.into_iter().chain(caller).filter_map(|scope| plane.ledger.account(&scope, now)).collect()
}

fn millis(at: Timestamp) -> Millis {
    Millis(u64::try_from(at.as_millis()).unwrap_or_default())
}
