//! Made-up calls and their records.

use chancery_protocol::{Amount, CostSource, Edge, HopId, Settled, TaskId, TaskState, Timestamp};
use chancery_store::{EdgeQuery, Realms, Spend, Store};

use crate::support::*;

/// The id of a call that was let through so many milliseconds into our time.
pub(crate) fn hop(millis: i64) -> HopId {
    hop_at(at(millis), 0)
}

/// One of several that were let through at the same time.
pub(crate) fn hop_at(time: Timestamp, serial: u8) -> HopId {
    let mut bytes = [0x70; 16];
    bytes[..6].copy_from_slice(&time.as_millis().to_be_bytes()[2..]);
    bytes[15] = serial;
    HopId::from_bytes(bytes)
}

pub(crate) fn usd(micro_usd: u64) -> Amount {
    Amount { micro_usd, tokens: micro_usd * 2, tasks: 1 }
}

/// A call of its own, by caller `owner` to agent `agent`, that is not settled.
pub(crate) fn call(millis: i64) -> Edge {
    Edge {
        hop: hop(millis),
        root: hop(millis),
        parent: None,
        depth: 0,
        trace: None,
        realm: "realm".into(),
        caller: "owner".into(),
        payer: None,
        groups: Vec::new(),
        used: chancery_protocol::Usage::default(),
        agent: "agent".into(),
        skill: None,
        peer: None,
        task: None,
        opened: at(millis),
        reserved: usd(1_000),
        limits: chancery_protocol::CallLimits::default(),
        origin: None,
        settled: None,
    }
}

pub(crate) trait Call: Sized {
    fn by(self, realm: &str, caller: &str, agent: &str) -> Self;
    /// For another one, which is so deep.
    fn under(self, root: i64, depth: u16) -> Self;
    fn task(self, task: &str) -> Self;
    fn trace(self, trace: &str) -> Self;
    /// Settled so many milliseconds into our time, for so much.
    fn settled(self, millis: i64, micro_usd: u64) -> Self;
    async fn put(self, store: &Store) -> Edge;
}

impl Call for Edge {
    fn by(self, realm: &str, caller: &str, agent: &str) -> Self {
        Self { realm: realm.into(), caller: caller.into(), agent: agent.into(), ..self }
    }

    fn under(self, root: i64, depth: u16) -> Self {
        Self { root: hop(root), parent: Some(hop(root)), depth, ..self }
    }

    fn task(self, task: &str) -> Self {
        Self { task: Some(TaskId::from(task)), ..self }
    }

    fn trace(self, trace: &str) -> Self {
        Self { trace: Some(trace.into()), ..self }
    }

    fn settled(self, millis: i64, micro_usd: u64) -> Self {
        let settled = Settled {
            at: at(millis),
            charged: usd(micro_usd),
            overrun: Amount::default(),
            source: CostSource::Metered,
            state: Some(TaskState::Completed),
        };
        Self { settled: Some(settled), ..self }
    }

    async fn put(self, store: &Store) -> Edge {
        store.put_edge(self.clone()).await.unwrap();
        self
    }
}

pub(crate) fn realm() -> Realms {
    Realms::One("realm".into())
}

/// All edges of the usual realm.
pub(crate) fn all() -> EdgeQuery {
    EdgeQuery::of(realm())
}

/// All pages of a query.
pub(crate) async fn edges(store: &Store, query: &EdgeQuery) -> Vec<Edge> {
    let (mut query, mut found) = (query.clone(), Vec::new());
    loop {
        let page = store.edges(&query).await.unwrap();
        assert!(page.edges.len() <= query.limit);
        found.extend(page.edges);
        query.after = page.next;
        if query.after.is_none() {
            return found;
        }
    }
}

/// All edges that are not settled.
pub(crate) async fn open_edges(store: &Store, realms: &Realms) -> Vec<Edge> {
    let page = store.open_edges(realms, None, 1_000).await.unwrap();
    assert_eq!(page.next, None);
    page.edges
}

/// All sums of spans that end after so many milliseconds into our time.
pub(crate) async fn sums(store: &Store, realms: &Realms, millis: i64) -> Vec<Spend> {
    let page = store.spend(realms, at(millis), None, 1_000).await.unwrap();
    assert_eq!(page.next, None);
    page.sums
}

/// What all of it comes to: millionths of a dollar, and calls.
pub(crate) fn total<'a>(sums: impl IntoIterator<Item = &'a Spend>) -> (u64, u64) {
    let add = |(usd, calls), sum: &Spend| (usd + sum.charged.micro_usd, calls + sum.calls);
    sums.into_iter().fold((0, 0), add)
}
