//! Threads that read, each with a connection of its own, so that no thread of the async runtime ever waits for
//! the disk, and no reader for the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::failure::{closed, unavailable};
use super::queue::Queue;
use crate::error::StoreError;

#[derive(Debug)]
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
    room: Arc<Semaphore>,
}

struct Job {
    run: Box<dyn FnOnce(&Connection) + Send>,
    _permit: OwnedSemaphorePermit,
}

/// How many reads may wait; the others wait for room.
const ROOM: usize = 1_024;

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Readers {
    /// Starts a thread for each connection.
    pub(super) fn start(connections: Vec<Connection>) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let queue = Arc::new(Queue::new());
        let threads = connections.into_iter().map(|connection| {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || work(&connection, &queue))
        });
        let threads = threads.collect::<Result<_, _>>()?;
        Ok((Self { queue, room: Arc::new(Semaphore::new(ROOM)) }, threads))
    }

    /// Reads something, all of it as of one point in time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| closed(what))?;
        let (reply, answer) = oneshot::channel();
        let run = Box::new(move |connection: &Connection| {
            // Nobody waits any more, so there is nothing to read for.
            if !reply.is_closed() {
                let _ = reply.send(in_transaction(connection, read));
            }
        });
        self.queue.push(Job { run, _permit: permit }).map_err(|_| closed(what))?;
        answer.await.map_err(|_| closed(what))?.map_err(|error| unavailable(what, &error))
    }

    pub(super) fn close(&self) {
        self.queue.close();
        self.room.close();
    }
}

fn work(connection: &Connection, queue: &Queue<Job>) {
    while let Some(job) = queue.pop() {
        // What panics here is one read; the thread is there for the others.
        if catch_unwind(AssertUnwindSafe(|| (job.run)(connection))).is_err() {
            tracing::error!("a read of the store panicked");
        }
    }
}

fn in_transaction<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let outcome = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    outcome
}
