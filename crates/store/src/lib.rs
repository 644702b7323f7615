//! The journal: every task is an append-only sequence of events numbered from 1, and the task is their fold.
//!
//! The rule that gives everything else: **an event is committed before it is visible.** Nobody is ever shown
//! what a crash could unsay. A [`Batch`] commits as a whole or not at all.
//!
//! Everything is keyed by its [`Scope`]: realm, owner and agent. A task of another scope does not exist.
//!
//! | file | holds |
//! |---|---|
//! | `record` | what is written and read: scopes, batches, snapshots, pages |
//! | `error` | what can go wrong |
//! | `limits` | how much is kept, and for how long |
//! | `clock` | the time, which never goes back |
//! | `outbox` | push notification configurations, and what is still to be delivered to them |
//! | `recovery` | tasks that were cut short |
//! | `fold` | which batch a task takes, and what it makes of the task |
//! | `memory/` | the store that lives in this process |

mod clock;
mod error;
mod fold;
mod limits;
mod memory;
mod outbox;
mod record;
mod recovery;

pub use clock::Clock;
pub use error::StoreError;
pub use limits::{Retention, StoreLimits, TaskLimits};
pub use memory::MemoryStore;
pub use outbox::{Delivery, OutboxPlace};
pub use record::{Admission, Appended, Batch, ListQuery, Page, PageToken, Read, Scope, Snapshot};
pub use recovery::Unfinished;

use chancery_protocol::{TaskId, Timestamp};

/// Where tasks are kept.
#[derive(Debug)]
#[non_exhaustive]
pub enum Store {
    /// In this process: gone when it ends.
    Memory(MemoryStore),
}

impl Store {
    /// Opens the store that a URL names: `memory:`.
    pub fn open(url: &str, limits: StoreLimits) -> Result<Self, StoreError> {
        Self::open_with(url, limits, Clock::system())
    }

    /// The same, going by a clock of yours.
    pub fn open_with(url: &str, limits: StoreLimits, clock: Clock) -> Result<Self, StoreError> {
        match url {
            "memory:" | "memory" => Ok(Self::Memory(MemoryStore::with_clock(limits, clock))),
            _ => Err(StoreError::UnknownUrl { url: url.to_owned() }),
        }
    }

    /// A store in memory with the default limits.
    pub fn memory() -> Self {
        Self::Memory(MemoryStore::new(StoreLimits::default()))
    }

    /// The time by the clock of this store. Each call gives a later one.
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Whether a commit can fail because the store cannot be written to at the time.
    pub fn can_be_unavailable(&self) -> bool {
        match self {
            Self::Memory(_) => false,
        }
    }

    /// The clock of this store.
    pub fn clock(&self) -> &Clock {
        match self {
            Self::Memory(store) => store.clock(),
        }
    }

    /// Commits a batch to a task, which its first event may create.
    pub async fn append(&self, scope: &Scope, task: &TaskId, batch: Batch) -> Result<Appended, StoreError> {
        match self {
            Self::Memory(store) => store.append(scope, task, batch),
        }
    }

    /// The events of a task that come after a number, oldest first, as many as fit.
    pub async fn read(
        &self,
        scope: &Scope,
        task: &TaskId,
        after: u64,
        max: usize,
    ) -> Result<Read, StoreError> {
        match self {
            Self::Memory(store) => store.read(scope, task, after, max),
        }
    }

    /// The task as it stands.
    pub async fn snapshot(&self, scope: &Scope, task: &TaskId) -> Result<Snapshot, StoreError> {
        match self {
            Self::Memory(store) => store.snapshot(scope, task),
        }
    }

    /// A page of the tasks of a scope.
    pub async fn list(&self, scope: &Scope, query: &ListQuery) -> Result<Page, StoreError> {
        match self {
            Self::Memory(store) => store.list(scope, query),
        }
    }

    /// Which task an idempotency key belongs to, if it has been used. Another request body under the same key
    /// is an error.
    pub async fn admitted(&self, scope: &Scope, admission: &Admission) -> Result<Option<TaskId>, StoreError> {
        match self {
            Self::Memory(store) => store.admitted(scope, admission),
        }
    }

    /// Compacts and forgets what has outlived its time. Cheap to call often.
    pub async fn sweep(&self, now: Timestamp) {
        match self {
            Self::Memory(store) => store.sweep(now),
        }
    }
}
