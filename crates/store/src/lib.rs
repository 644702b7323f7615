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
//! | `limits`, `fair` | how much is kept, and for how long; who loses what where there is too much |
//! | `census` | how many tasks there are |
//! | `audit/` | what was refused and what operators did, chained by hashes |
//! | `clock` | the time, which never goes back |
//! | `edge`, `root`, `spend` | the record of admitted calls, and what they cost added up |
//! | `outbox` | push notification configurations, and what is still to be delivered to them |
//! | `recovery` | tasks that were cut short |
//! | `reserved` | admitted calls whose agent has shown nothing yet |
//! | `fold` | which batch a task takes, and what it makes of the task |
//! | `memory/` | the store that lives in this process |
//! | `sqlite/` | the store that outlives it |

mod audit;
mod census;
mod clock;
mod edge;
mod encode;
mod error;
mod fair;
mod fold;
mod limits;
mod memory;
mod outbox;
mod packed;
mod record;
mod recovery;
mod reserved;
mod root;
mod spend;
mod sqlite;

pub use audit::{
    AuditCheckpoint, AuditEntry, AuditHash, AuditHead, AuditRecord, AuditReport, AuditValue, AuditVerifier,
};
pub use clock::Clock;
pub use edge::{EdgePage, EdgeQuery, MOST_EDGES, Realms};
pub use error::StoreError;
pub use limits::{Retention, StoreLimits, TaskLimits};
pub use memory::MemoryStore;
pub use outbox::{Delivery, OutboxPlace, Registration};
pub use record::{Admission, Appended, Batch, ListQuery, Page, PageToken, Read, Scope, Snapshot, StoreCheck};
pub use recovery::Unfinished;
pub use reserved::{KeyUse, ReservationChange, ReservationWrite, ReservedCall};
pub use root::{RootSpend, RootSpends};
pub use spend::{Spend, SpendPage, SpendPlace};
pub use sqlite::{AuditFile, SqliteStore};

use std::path::Path;

use chancery_protocol::{TaskId, Timestamp};

/// Where tasks are kept.
#[derive(Debug)]
#[non_exhaustive]
pub enum Store {
    /// In this process: gone when it ends.
    Memory(MemoryStore),
    /// In an SQLite database.
    Sqlite(SqliteStore),
}

// A call to SQLite is put on the heap: whoever awaits a store would otherwise carry the room for it around, also a
// stream that is held for hours, and also if the store is in memory.
impl Store {
    /// Opens the store that a URL names: `memory:`, `sqlite:PATH` or `sqlite:PATH?durability=power`.
    ///
    /// A commit to SQLite outlives the process, with `durability=power` also the power. This blocks for as long
    /// as it takes to open the file, however many tasks there are.
    pub fn open(url: &str, limits: StoreLimits) -> Result<Self, StoreError> {
        Self::open_with(url, limits, Clock::system())
    }

    /// The same, going by a clock of yours.
    pub fn open_with(url: &str, limits: StoreLimits, clock: Clock) -> Result<Self, StoreError> {
        if let Some(rest) = url.strip_prefix("sqlite:") {
            return SqliteStore::open(rest, limits, clock).map(Self::Sqlite);
        }
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

    /// The clock of this store.
    pub fn clock(&self) -> &Clock {
        match self {
            Self::Memory(store) => store.clock(),
            Self::Sqlite(store) => store.clock(),
        }
    }

    /// Commits a batch to a task, which its first event may create.
    pub async fn append(
        &self,
        scope: &Scope,
        task: &TaskId,
        batch: impl Into<Box<Batch>>,
    ) -> Result<Appended, StoreError> {
        let batch = batch.into();
        match self {
            Self::Memory(store) => store.append(scope, task, batch),
            Self::Sqlite(store) => Box::pin(store.append(scope, task, batch)).await,
        }
    }

    /// The events of a task that come after a number, oldest first: at most so many, and fewer where they are large, but one at
    /// least if there is one.
    pub async fn read(
        &self,
        scope: &Scope,
        task: &TaskId,
        after: u64,
        max: usize,
    ) -> Result<Read, StoreError> {
        match self {
            Self::Memory(store) => store.read(scope, task, after, max),
            Self::Sqlite(store) => Box::pin(store.read(scope, task, after, max)).await,
        }
    }

    /// The task as it stands.
    pub async fn snapshot(&self, scope: &Scope, task: &TaskId) -> Result<Snapshot, StoreError> {
        match self {
            Self::Memory(store) => store.snapshot(scope, task),
            Self::Sqlite(store) => Box::pin(store.snapshot(scope, task)).await,
        }
    }

    /// A page of the tasks of a scope.
    pub async fn list(&self, scope: &Scope, query: &ListQuery) -> Result<Page, StoreError> {
        match self {
            Self::Memory(store) => store.list(scope, query),
            Self::Sqlite(store) => Box::pin(store.list(scope, query)).await,
        }
    }

    /// What an idempotency key was used for, if it was. Another request body under the same key is an error.
    pub async fn admitted(&self, scope: &Scope, admission: &Admission) -> Result<Option<KeyUse>, StoreError> {
        match self {
            Self::Memory(store) => store.admitted(scope, admission),
            Self::Sqlite(store) => Box::pin(store.admitted(scope, admission)).await,
        }
    }

    /// Which task was begun or continued with an idempotency key, whatever the request was.
    pub async fn task_of_key(&self, scope: &Scope, key: &str) -> Result<Option<TaskId>, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.task_of_key(scope, key)),
            Self::Sqlite(store) => Box::pin(store.task_of_key(scope, key)).await,
        }
    }

    /// Compacts and forgets what has outlived its time. Cheap to call often.
    pub async fn sweep(&self, now: Timestamp) {
        match self {
            Self::Memory(store) => store.sweep(now),
            Self::Sqlite(store) => Box::pin(store.sweep(now)).await,
        }
    }

    /// Writes a copy of the store as of now to a path where there is nothing yet. Calls go on meanwhile.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Err(StoreError::Unavailable {
                what: format!("back up the store to {}", to.display()),
                why: "it is in memory".to_owned(),
                hint: "keep the tasks in `sqlite:PATH` to have backups",
            }),
            Self::Sqlite(store) => Box::pin(store.backup(to)).await,
        }
    }

    /// Reads all that is kept and says what is wrong with it. Calls go on meanwhile.
    pub async fn check(&self) -> Result<StoreCheck, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.check()),
            Self::Sqlite(store) => Box::pin(store.check()).await,
        }
    }

    /// [`backup`](Self::backup) of the store that a URL names, also while another process has it open. Blocks.
    pub fn backup_of(url: &str, to: &Path) -> Result<(), StoreError> {
        match url.strip_prefix("sqlite:") {
            Some(rest) => SqliteStore::backup_of(rest, to),
            None => Err(StoreError::UnknownUrl { url: url.to_owned() }),
        }
    }

    /// [`check`](Self::check) of the store that a URL names, also while another process has it open. Blocks.
    pub fn check_of(url: &str) -> Result<StoreCheck, StoreError> {
        match url.strip_prefix("sqlite:") {
            Some(rest) => SqliteStore::check_of(rest),
            None => Err(StoreError::UnknownUrl { url: url.to_owned() }),
        }
    }

    /// Deletes all tasks and idempotency keys of an owner in a realm, whatever state the tasks are in, and the
    /// records of all calls that they made. Gives how many tasks there were. What they spent stays in the sums, as
    /// nobody's: see [`Spend`]. A call that still runs is recorded when it ends.
    pub async fn delete_owner(&self, realm: &str, owner: &str) -> Result<usize, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.delete_owner(realm, owner)),
            Self::Sqlite(store) => Box::pin(store.delete_owner(realm, owner)).await,
        }
    }

    /// Commits what is queued, takes no more work, and lets go of what is open. Blocks for a moment; dropping
    /// the store does the same.
    pub fn close(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Sqlite(store) => store.close(),
        }
    }
}
