//! Threads that read, each with a connection of its own, so that no thread of the async runtime ever waits for
//! the disk, and no reader for the writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::failure::{closed, unavailable};
use super::turns::{Line, Turns};
use crate::error::StoreError;

#[derive(Debug)]
pub(super) struct Readers {
    queue: Arc<Turns<Job>>,
}

/// One read. There are as many as there are calls that wait for one.
struct Job(Box<dyn FnOnce(&Connection) + Send>);

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Readers {
    /// Starts a thread for each connection.
    pub(super) fn start(connections: Vec<Connection>) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let queue = Arc::new(Turns::new());
        let threads = connections.into_iter().map(|connection| {
            let queue = queue.clone();
            std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || work(&connection, &queue))
        });
        let threads = threads.collect::<Result<_, _>>()?;
        Ok((Self { queue }, threads))
    }

    /// Reads something that is nobody's, all of it as of one point in time.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_for(None, what, read).await
    }

    /// The same for somebody.
    pub(super) async fn read_for<T: Send + 'static>(
        &self,
        line: Line,
        what: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let run = Box::new(move |connection: &Connection| {
            // Nobody waits any more, so there is nothing to read for.
            if !reply.is_closed() {
                let _ = reply.send(in_transaction(connection, read));
            }
        });
        self.queue.push(line, Job(run)).map_err(|_| closed(what))?;
        answer.await.map_err(|_| closed(what))?.map_err(|error| unavailable(what, &error))
    }

    pub(super) fn close(&self) {
        self.queue.close();
    }
}

fn work(connection: &Connection, queue: &Turns<Job>) {
    while let Some(job) = queue.pop() {
        // What panics here is one read; the thread is there for the others.
        if catch_unwind(AssertUnwindSafe(|| (job.0)(connection))).is_err() {
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
