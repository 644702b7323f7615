//! Starting the threads of a store, and seeing them end.

use std::fs::File;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::checkpoint;
use super::failure::unavailable;
use super::lock::private;
use super::options::Options;
use super::queue::Queue;
use super::readers::Readers;
use super::reserved::read_context_secret;
use super::schema;
use super::writer::{Desk, Job, Shared, SharedDesk};
use super::{Clock, SqliteStore, StoreError, StoreLimits};

/// The threads that are still to be joined, in the order they have to end, and the lock that goes last.
#[derive(Debug)]
pub(super) struct Threads {
    running: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<File>>,
}

pub(super) struct Opened {
    pub(super) epoch: u64,
    pub(super) context_secret: [u8; 32],
    pub(super) desk: SharedDesk,
    pub(super) readers: Readers,
    pub(super) threads: Threads,
}

const READERS: usize = 3;

/// Opens the database and starts everything.
pub(super) fn start(
    options: &Options,
    limits: StoreLimits,
    clock: &Clock,
    shared: &Shared,
    queue: &Arc<Queue<Job>>,
    lock: File,
) -> Result<Opened, StoreError> {
    let what = format!("open the store {}", options.path.display());
    let failed = |error: rusqlite::Error| unavailable(&what, &error);
    let no_thread = |error: std::io::Error| StoreError::Unavailable {
        what: what.clone(),
        why: format!("no thread can be started: {error}"),
        hint: "let the process have more threads",
    };
    // SQLite gives its other files the same permissions. What is wrong here, it says more of.
    let _ = private(&options.path);
    let mut connection = schema::connect(&options.path, Some(options.durability)).map_err(failed)?;
    let epoch = schema::prepare(&mut connection, &options.path)?;
    let next_task = schema::next_task(&connection)?;
    let context_secret = read_context_secret(&connection).map_err(failed)?;
    clock.seed(schema::newest_time(&connection)?);
    let desk = Desk::new(connection, limits, clock.clone(), shared.clone(), next_task).map_err(failed)?;
    let connect = || schema::connect(&options.path, None).map_err(failed);
    let connections: Vec<Connection> = (0..READERS).map(|_| connect()).collect::<Result<_, _>>()?;
    let for_checkpoints = schema::connect(&options.path, Some(options.durability)).map_err(failed)?;
    // While it waited for a reader, the writer would wait for it.
    for_checkpoints.busy_timeout(Duration::ZERO).map_err(failed)?;
    let (readers, mut running) = Readers::start(connections).map_err(no_thread)?;
    let desk = Arc::new(Mutex::new(Some(desk)));
    let (at, work) = (desk.clone(), queue.clone());
    let writer = Builder::new().name("store-writer".to_owned()).spawn(move || Desk::run(&at, &work));
    running.push(writer.map_err(no_thread)?);
    let (pace, gate) = (shared.pace.clone(), shared.gate.clone());
    let run = move || checkpoint::run(&for_checkpoints, &pace, &gate);
    running.push(Builder::new().name("store-checkpoint".to_owned()).spawn(run).map_err(no_thread)?);
    let threads = Threads { running: Mutex::new(running), lock: Mutex::new(Some(lock)) };
    Ok(Opened { epoch, context_secret, desk, readers, threads })
}

impl SqliteStore {
    /// Takes no more work. What is queued is still done.
    pub(super) fn shut(&self) {
        self.room.close();
        self.writer.close();
        self.readers.close();
    }

    /// Takes no more work, waits for what is queued, and lets go of the file. Blocks for a moment.
    pub(crate) fn close(&self) {
        self.shut();
        self.threads.join(&self.shared);
    }
}

impl Threads {
    /// Waits for all of them. The checkpoints end last, when nothing is written any more.
    pub(super) fn join(&self, shared: &Shared) {
        let mut running = self.running.lock();
        let checkpoints = running.pop();
        for thread in running.drain(..) {
            let _ = thread.join();
        }
        shared.pace.close();
        if let Some(thread) = checkpoints {
            let _ = thread.join();
        }
        self.lock.lock().take();
    }
}
