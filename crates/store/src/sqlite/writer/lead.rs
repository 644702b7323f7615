//! Committing without the writer's thread. Where a commit does not wait for the disk, waking a thread and being
//! woken by it costs more than the commit does. So the first who queues a batch commits it, with all that others
//! have queued by the time it gets to that: as soon as the async runtime has nothing else to do.

use parking_lot::Mutex;

use super::{Desk, GROUP, Job, Leaving};
use crate::sqlite::queue::Queue;

/// The promise to commit what is queued. Broken, it is the thread's to keep.
pub(in crate::sqlite) struct Lead<'a> {
    pub(in crate::sqlite) desk: &'a Mutex<Option<Desk>>,
    pub(in crate::sqlite) queue: &'a Queue<Job>,
}

/// How often others get to queue before a group is committed. Each time is a look at what the sockets have brought.
const MOST_PASSES: usize = 4;

impl Lead<'_> {
    pub(in crate::sqlite) async fn commit(self) {
        // Whoever is ready now gets to queue as well; and if somebody was, whoever has become ready meanwhile.
        let mut queued = self.queue.len();
        for _ in 0..MOST_PASSES {
            tokio::task::yield_now().await;
            if self.queue.len() <= std::mem::replace(&mut queued, self.queue.len()) {
                break;
            }
        }
        // Waiting is for the thread: for another who writes, or for a checkpoint that holds the gate.
        let Some(mut desk) = self.desk.try_lock() else { return };
        let Some(desk) = desk.as_mut().filter(|desk| !desk.gate.is_locked()) else { return };
        let jobs = self.queue.take(GROUP, |job| matches!(job, Job::Write(_)));
        if !jobs.is_empty() {
            let leaving = Leaving(self.queue);
            desk.work(jobs);
            std::mem::forget(leaving);
        }
        std::mem::forget(self);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.queue.leave();
    }
}
