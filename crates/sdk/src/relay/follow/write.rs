//! What a stream has said, written.

use std::mem;
use std::time::Duration;

use chancery_protocol::{Error, StreamResponse};
use chancery_store::Batch;
use tokio::time::Instant;

use super::Follower;
use crate::alarm::Alarm;
use crate::client::Told;
use crate::relay::Core;
use crate::relay::keep::Along;
use crate::relay::told::Ending;

/// How often what follows closely is committed, where a commit costs much: all tasks at the same time, so that it is one. What
/// comes first is committed at once.
const COMMIT_EVERY: Duration = Duration::from_millis(5);

/// How many events a follower keeps room for.
const FEW: usize = 4;

impl Follower {
    /// Writes the events of a stream, in as few steps as possible.
    pub(super) async fn write(&mut self, mut events: Vec<Told>) -> Result<(), Error> {
        let mut batch = Box::new(Batch::with_room(events.len()));
        for Told { event, payload, .. } in events.drain(..) {
            let payload = match payload {
                Ok(StreamResponse::Task(task)) => {
                    self.commit(mem::take(&mut batch)).await?;
                    let along = Along::saying(self.said.take());
                    let merged = Box::pin(self.core.merge(&self.live, &self.pen, task, along)).await?;
                    self.note(&merged);
                    continue;
                }
                payload => payload,
            };
            let id = self.live.task_id();
            match payload {
                Ok(StreamResponse::StatusUpdate(update)) if update.task_id == *id => {
                    self.core.write_status(&mut batch, update, self.said.take(), event.json);
                }
                Ok(StreamResponse::ArtifactUpdate(update)) if update.task_id == *id => {
                    batch.artifact(update);
                    batch.as_written(event.json);
                }
                other => {
                    self.commit(batch).await?;
                    let why = other
                        .err()
                        .map_or_else(|| "an event of something else".to_owned(), |e| e.to_string());
                    return Err(Box::pin(self.core.end(&self.live, Ending::BrokeProtocol, &why)).await);
                }
            }
        }
        // Those that come next find room there, unless a burst has made it large.
        if events.capacity() <= FEW {
            self.gathered = events;
        }
        self.commit(batch).await
    }

    async fn commit(&mut self, batch: Box<Batch>) -> Result<(), Error> {
        if !batch.is_empty() {
            if self.core.tasks.store.prefers_large_batches() {
                self.due = Some(Alarm::at(self.core.next_commit()));
            }
            self.state = self.core.commit(&self.live, batch).await?.state();
            self.in_vain = 0;
        }
        Ok(())
    }
}

impl Core {
    /// When what comes from now on is committed.
    fn next_commit(&self) -> Instant {
        let now = Instant::now();
        let since = now.duration_since(self.began).as_nanos() % COMMIT_EVERY.as_nanos();
        now + COMMIT_EVERY - Duration::from_nanos(u64::try_from(since).unwrap_or_default())
    }
}
