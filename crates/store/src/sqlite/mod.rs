//! The store that outlives the process: SQLite, one who writes at a time, threads that read, one for checkpoints.
//!
//! | file | holds |
//! |---|---|
//! | `options`, `lock`, `schema`, `old_daybook` | opening: the URL, one process at a time, tables and their versions |
//! | `write` | a batch made ready on the caller's thread |
//! | `writer/` | committing groups of them, on a thread or for it, and forgetting in small steps |
//! //! | `entry`, `scopes` | what it shows of the tasks that are being written to |
//! | `load`, `list`, `counted`, `readers` | reading, on threads of its own |
//! | `place`, `sum` | the integers that things are kept under; checksums |
//! | `outbox`, `recovery`, `reserved` | push notifications; tasks that were cut short; calls without a task yet |
//! | `calls`, `edge`, `spend` | the record of admitted calls, and what they cost added up |
//! | `surplus` | what is too much, and whose |
//! | `audit` | the audit log |
//! | `checkpoint`, `log`, `sweep`, `care` | the log, and whether it was damaged, retention, backup and checks |
//! | `queue`, `turns`, `failure` | between callers and threads; what callers are told |

mod audit;
mod calls;
mod care;
mod checkpoint;
mod counted;
mod edge;
mod entry;
mod failure;
mod list;
mod load;
mod lock;
mod log;
mod old_daybook;
mod options;
mod outbox;
mod place;
mod queue;
mod readers;
mod recovery;
mod reserved;
mod schema;
mod scopes;
mod spend;
mod sum;
mod surplus;
mod sweep;
mod threads;
mod turns;
mod write;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use chancery_protocol::TaskId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::limits::StoreLimits;
use crate::record::{Admission, Appended, Batch, ListQuery, Page, Read, Scope, Snapshot};
use crate::reserved::KeyUse;
pub use audit::AuditFile;
use edge::EdgeRow;
use entry::Entry;
use failure::closed;
use options::{Durability, Options};
use queue::Queue;
use readers::Readers;
use threads::Threads;
use turns::line_of;
use write::{Committed, Kept, Push, Write, ready};
use writer::{Job, Lead, Shared, SharedDesk, Word, find_admission};

/// Tasks in an SQLite database.
///
/// Opened by [`crate::Store::open`] with `sqlite:PATH`. Dropping it commits what is queued, ends its threads
/// and lets go of the file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    limits: StoreLimits,
    epoch: u64,
    context_secret: [u8; 32],
    clock: Clock,
    shared: Shared,
    writer: Arc<Queue<Job>>,
    /// For callers who commit themselves, if they may: where a commit waits for the disk, only the thread does.
    desk: Option<SharedDesk>,
    /// Room in the writer's queue, in KiB.
    room: Arc<Semaphore>,
    readers: Readers,
    threads: Threads,
}

/// How much may wait for the writer: 64 MiB. Whoever comes then waits for room.
const ROOM_KIB: usize = 64 << 10;
const WHAT: &str = "write to the store";

impl SqliteStore {
    /// Opens what follows `sqlite:` in a URL.
    pub(crate) fn open(text: &str, limits: StoreLimits, clock: Clock) -> Result<Self, StoreError> {
        let options = Options::parse(text)?;
        let lock = lock::take(&options.path)?;
        log::warn_of_damage(&options.path);
        let shared = Shared::default();
        let writer = Arc::new(Queue::new());
        let opened = threads::start(&options, limits, &clock, &shared, &writer, lock)?;
        Ok(Self {
            path: options.path,
            limits,
            epoch: opened.epoch,
            context_secret: opened.context_secret,
            clock,
            shared,
            writer,
            desk: (options.durability == Durability::Process).then_some(opened.desk),
            room: Arc::new(Semaphore::new(ROOM_KIB)),
            readers: opened.readers,
            threads: opened.threads,
        })
    }

    /// How often the database has been opened. Whoever wrote under an earlier epoch is no more.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) async fn append(
        &self,
        scope: &Scope,
        id: &TaskId,
        mut batch: Box<Batch>,
    ) -> Result<Appended, StoreError> {
        let (admission, state) = (batch.admission.take(), batch.state.take());
        let (edge, opens_reserved) = (batch.edge.take().map(EdgeRow::new), batch.opens_reserved);
        // Left in the batch as well: it decides what is kept of a whole life.
        let push = batch.push.clone();
        let (body, kept) = ready(id, batch, &self.limits.task, &self.clock)?;
        let push = push.map(|config| Push::new(*config)).transpose()?.map(|(_, push)| push);
        let permit = self.room(body.bytes() >> 10).await?;
        let (reply, answer) = oneshot::channel();
        let write = Write {
            scope: scope.clone(),
            id: id.clone(),
            admission,
            state,
            push,
            edge,
            opens_reserved,
            body,
            reply,
            _permit: permit,
        };
        let committed = self.commit(write, answer).await?;
        self.appended(scope, id, kept, committed).await
    }

    /// Has a batch committed, with others if there are any.
    async fn commit(
        &self,
        write: Write,
        mut answer: oneshot::Receiver<Word>,
    ) -> Result<Committed, StoreError> {
        let job = Job::Write(Box::new(write));
        match &self.desk {
            None => self.writer.push(job).map_err(|_| closed(WHAT))?,
            Some(desk) => {
                if self.writer.join(job).map_err(|_| closed(WHAT))? {
                    Lead::new(desk.clone(), self.writer.clone()).commit().await;
                }
            }
        }
        loop {
            match answer.await.map_err(|_| closed(WHAT))? {
                Word::Outcome(outcome) => return outcome,
                Word::Lead(lead, then) => {
                    lead.commit().await;
                    answer = then;
                }
            }
        }
    }

    /// Waits for room in the writer's queue.
    async fn room(&self, kib: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        let kib = u32::try_from(kib.clamp(1, ROOM_KIB)).unwrap_or(u32::MAX);
        self.room.clone().acquire_many_owned(kib).await.map_err(|_| closed(WHAT))
    }

    /// The events get their numbers, and the task what was committed of it.
    async fn appended(
        &self,
        scope: &Scope,
        id: &TaskId,
        mut kept: Kept,
        committed: Committed,
    ) -> Result<Appended, StoreError> {
        for event in &mut kept.events {
            event.number += committed.before;
        }
        let number = committed.before + kept.length;
        let (number, task) = match (kept.task, committed.entry) {
            (Some(task), _) => (number, task),
            (None, Some(entry)) => (number, entry.snapshot().task),
            (None, None) => {
                let snapshot = self.snapshot(scope, id).await?;
                (snapshot.number, snapshot.task)
            }
        };
        Ok(Appended { events: kept.events, number, task, push: committed.push })
    }

    pub(crate) async fn read(
        &self,
        scope: &Scope,
        id: &TaskId,
        after: u64,
        max: usize,
    ) -> Result<Read, StoreError> {
        let at_hand = self.at_hand(scope, id);
        // The database may be a moment ahead of the task that is shown; the events are not.
        let up_to = at_hand.as_ref().map_or(u64::MAX, |entry| entry.number());
        let at_hand = at_hand.map(|entry| entry.task);
        let (line, scope, wanted) = (line_of(scope), scope.clone(), id.clone());
        let read = self.readers.read_for(line, "read events", move |connection| {
            let found = match at_hand {
                Some(task) => load::find_by_number(connection, task)?.map(|(found, _)| found),
                None => match load::scope(connection, &scope)? {
                    Some(scope) => load::find(connection, scope, &wanted)?,
                    None => None,
                },
            };
            found.map(|found| load::read(connection, &found, after, up_to, max)).transpose()
        });
        read.await?.ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    pub(crate) async fn snapshot(&self, scope: &Scope, id: &TaskId) -> Result<Snapshot, StoreError> {
        if let Some(entry) = self.at_hand(scope, id) {
            return Ok(entry.snapshot());
        }
        let (line, scope, wanted) = (line_of(scope), scope.clone(), id.clone());
        let read = self.readers.read_for(line, "read a task", move |connection| {
            let Some(scope) = load::scope(connection, &scope)? else { return Ok(None) };
            let Some(found) = load::find(connection, scope, &wanted)? else { return Ok(None) };
            Ok(Some(load::load(connection, &found, &wanted)?.snapshot))
        });
        read.await?.ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    pub(crate) async fn list(&self, scope: &Scope, query: &ListQuery) -> Result<Page, StoreError> {
        let (line, scope, query, entries) =
            (line_of(scope), scope.clone(), query.clone(), self.shared.entries.clone());
        let read = move |connection: &_| list::list(connection, &entries, &scope, &query);
        self.readers.read_for(line, "list tasks", read).await
    }

    pub(crate) async fn admitted(
        &self,
        scope: &Scope,
        admission: &Admission,
    ) -> Result<Option<KeyUse>, StoreError> {
        match self.use_of_key(scope, &admission.key).await? {
            None => Ok(None),
            Some((digest, used)) if digest == admission.digest => {
                self.shown().await?;
                Ok(Some(used))
            }
            Some(_) => Err(StoreError::KeyReused),
        }
    }

    pub(crate) async fn task_of_key(&self, scope: &Scope, key: &str) -> Result<Option<TaskId>, StoreError> {
        let Some((_, used)) = self.use_of_key(scope, key).await? else { return Ok(None) };
        self.shown().await?;
        Ok(Some(used.task))
    }

    async fn use_of_key(&self, scope: &Scope, key: &str) -> Result<Option<(Vec<u8>, KeyUse)>, StoreError> {
        let (line, scope, key) = (line_of(scope), scope.clone(), key.to_owned());
        let read = self.readers.read_for(line, "look up an idempotency key", move |connection| {
            match load::scope(connection, &scope)? {
                Some(scope) => find_admission(connection, scope, &key),
                None => Ok(None),
            }
        });
        read.await
    }

    /// Waits until the tasks at hand are as new as what has been read: the database may be a moment ahead.
    async fn shown(&self) -> Result<(), StoreError> {
        let gate = self.shared.gate.clone();
        // In a transaction of its own that reads nothing, so that no checkpoint waits for it.
        let pass = move |_: &_| {
            drop(gate.lock());
            Ok(())
        };
        self.readers.read("wait for a commit", pass).await
    }

    /// The task if it is being written to.
    fn at_hand(&self, scope: &Scope, id: &TaskId) -> Option<Arc<Entry>> {
        let scope = self.shared.scopes.find(scope)?;
        self.shared.entries.find(&(scope, id.clone()))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}
