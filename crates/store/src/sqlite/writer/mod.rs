//! The one who writes. All that is queued is committed as one transaction: a batch alone when there is little to
//! do, many together when there is much, so that load makes each of them cheaper.
//!
//! A thread does it, or one of the callers for all of them: see `lead`.

mod counts;
mod edges;
mod facts;
mod group;
mod lead;
mod push;
mod rows;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoint::Pace;
use super::entry::Entries;
use super::queue::Queue;
use super::scopes::Scopes;
use super::write::Write;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::limits::StoreLimits;
use crate::record::Scope;
use counts::Counts;
use edges::Tally;
use facts::Ledger;

pub(super) use edges::{EdgeStep, STEP as EDGE_STEP, SUM_COLUMNS, kept, read_sum};
pub(super) use lead::{Lead, Word};
pub(super) use push::{PushChange, PushWhat};
pub(super) use rows::{find_admission, highest_task};
pub(super) use upkeep::{Compaction, Upkeep};

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    Write(Box<Write>),
    /// A change of push notification configurations; says whether it changed anything.
    Push(Box<PushChange>, oneshot::Sender<Result<bool, StoreError>>),
    /// A small step of housekeeping; says how much there was to do.
    Upkeep(Upkeep, oneshot::Sender<Result<usize, StoreError>>),
}

/// How many batches share a transaction at most. It bounds how long the first of them waits.
const GROUP: usize = 512;

/// How much of the time may be forgotten by a process that is killed.
const DATE_EVERY: Duration = Duration::from_secs(1);

/// The desk, for one at a time; gone once the store is closed.
pub(super) type SharedDesk = Arc<Mutex<Option<Desk>>>;

/// Where the writer works.
#[derive(Debug)]
pub(super) struct Desk {
    connection: Connection,
    limits: StoreLimits,
    clock: Clock,
    /// When the time was last written down.
    dated: Option<Instant>,
    entries: Arc<Entries>,
    scopes: Arc<Scopes>,
    /// Held while a transaction is open, so that a checkpoint can have the file to itself for a moment.
    gate: Arc<Mutex<()>>,
    pace: Arc<Pace>,
    /// How many tasks have ended since it was last seen to that there are not too many.
    ended: usize,
    ledger: Ledger,
    counts: Counts,
    tally: Tally,
    /// Scopes that this transaction has made or found, to be shown when it is committed.
    fresh_scopes: Vec<(Scope, i64)>,
    next_task: i64,
    /// No task up to this one began and ended in one batch and is still kept.
    none_at_once_up_to: i64,
    /// Whether the last transaction failed for want of a working disk.
    is_failing: bool,
}

/// What the writer shares with the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    pub(super) entries: Arc<Entries>,
    pub(super) scopes: Arc<Scopes>,
    pub(super) gate: Arc<Mutex<()>>,
    pub(super) pace: Arc<Pace>,
}

/// However the writer ends, nobody waits for it in vain.
struct Leaving<'a>(&'a Queue<Job>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Desk {
    pub(super) fn new(
        connection: Connection,
        limits: StoreLimits,
        clock: Clock,
        shared: Shared,
        next_task: i64,
    ) -> rusqlite::Result<Self> {
        let counts = Counts::load(&connection)?;
        let tally = Tally::load(&connection)?;
        let Shared { entries, scopes, gate, pace } = shared;
        Ok(Self {
            connection,
            limits,
            clock,
            dated: None,
            entries,
            scopes,
            gate,
            pace,
            ended: 0,
            ledger: Ledger::default(),
            counts,
            tally,
            fresh_scopes: Vec::new(),
            next_task,
            none_at_once_up_to: 0,
            is_failing: false,
        })
    }

    /// Works until the queue is closed and empty, then lets go of the file.
    pub(super) fn run(desk: &Mutex<Option<Self>>, queue: &Queue<Job>) {
        let _leaving = Leaving(queue);
        while let Some(jobs) = queue.pop_many(GROUP) {
            match &mut *desk.lock() {
                Some(desk) => desk.work(jobs),
                None => return,
            }
        }
        let Some(mut desk) = desk.lock().take() else { return };
        desk.dated = None;
        if let Err(error) = desk.begin().and_then(|()| desk.finish()) {
            tracing::warn!(cause = %error, "cannot write down the time at the end");
        }
    }

    fn work(&mut self, jobs: Vec<Job>) {
        let mut writes = Vec::with_capacity(jobs.len());
        let (mut upkeep, mut pushes) = (Vec::new(), Vec::new());
        for job in jobs {
            match job {
                Job::Write(write) => writes.push(*write),
                Job::Push(change, reply) => pushes.push((change, reply)),
                Job::Upkeep(step, reply) => upkeep.push((step, reply)),
            }
        }
        if !writes.is_empty() {
            self.commit(writes);
        }
        for (change, reply) in pushes {
            let _ = reply.send(self.change_push(&change));
        }
        for (step, reply) in upkeep {
            let _ = reply.send(self.keep_up(&step));
        }
        self.hold_the_cap();
        self.ledger.evict(&self.entries);
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        self.counts.write(&self.connection, self.next_task - 1)?;
        self.tally.write(&self.connection)?;
        self.date()?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.counts.settle();
        self.tally.settle();
        self.ledger.settle();
        for (scope, number) in self.fresh_scopes.drain(..) {
            self.scopes.insert(scope, number);
        }
        self.pace.wrote();
        Ok(())
    }

    /// Writes down the time now and then, so that it does not go back when the store is opened again.
    fn date(&mut self) -> rusqlite::Result<()> {
        if self.dated.is_none_or(|dated| dated.elapsed() >= DATE_EVERY) {
            let sql = "UPDATE facts SET value = ? WHERE name = 'clock'";
            self.connection.prepare_cached(sql)?.execute([self.clock.now().as_micros()])?;
            self.dated = Some(Instant::now());
        }
        Ok(())
    }

    /// Puts everything back to how it was before the transaction.
    fn roll_back(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(cause = %error, "cannot roll back a transaction of the store");
        }
        self.dated = None;
        self.counts.roll_back();
        self.tally.roll_back();
        self.ledger.roll_back();
        self.fresh_scopes.clear();
    }

    fn failed(&mut self, error: &rusqlite::Error) {
        if !self.is_failing {
            tracing::error!(cause = %error, "the store refuses new work, reads go on");
        }
        self.is_failing = true;
    }

    fn recovered(&mut self) {
        if self.is_failing {
            tracing::info!("the store takes new work again");
        }
        self.is_failing = false;
    }
}
