//! Committing without the writer's thread. Where a commit does not wait for the disk, waking a thread and being
//! woken by it costs more than the commit does. So the first who queues a batch leads: it commits what has been queued by
//! the time it gets to that, and then the first of those who have come meanwhile leads. So while one group is committed the
//! next one gathers, and nobody commits alone where many call.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{GROUP, Job, Leaving, SharedDesk};
use crate::error::StoreError;
use crate::sqlite::queue::Queue;
use crate::sqlite::write::Committed;

/// The lead. Dropped before it has been laid down, it is the thread's.
#[derive(Debug)]
pub(in crate::sqlite) struct Lead {
    desk: SharedDesk,
    queue: Arc<Queue<Job>>,
    is_over: bool,
}

/// What somebody hears who has queued a batch.
#[derive(Debug)]
pub(in crate::sqlite) enum Word {
    /// What has become of it.
    Outcome(Result<Committed, StoreError>),
    /// They lead from now on; the rest is heard elsewhere.
    Lead(Lead, oneshot::Receiver<Word>),
}

/// How often others get to queue before a group is committed.
const MOST_PASSES: usize = 8;

impl Lead {
    /// For the first who joins a queue.
    pub(in crate::sqlite) fn new(desk: SharedDesk, queue: Arc<Queue<Job>>) -> Self {
        Self { desk, queue, is_over: false }
    }

    /// Commits what is queued, and has the next in line lead.
    pub(in crate::sqlite) async fn commit(self) {
        self.gather().await;
        {
            // Waiting is for the thread: for another who writes, or for a checkpoint that holds the gate.
            let Some(mut desk) = self.desk.try_lock() else { return };
            let Some(desk) = desk.as_mut().filter(|desk| !desk.gate.is_locked()) else { return };
            let jobs = self.queue.take(GROUP, |job| matches!(job, Job::Write(_)));
            if !jobs.is_empty() {
                let leaving = Leaving(&self.queue);
                desk.work(jobs);
                std::mem::forget(leaving);
            }
        }
        self.hand_over();
    }

    /// Whoever is ready now gets to queue as well, then whoever the sockets have brought since; and so on while that brings
    /// somebody. Each time the runtime has done all that it had to do.
    async fn gather(&self) {
        let mut queued = 0;
        for _ in 0..MOST_PASSES {
            tokio::task::yield_now().await;
            let now = self.queue.len();
            if now <= queued {
                return;
            }
            queued = now;
        }
    }

    fn hand_over(mut self) {
        let queue = self.queue.clone();
        let next = Self::new(self.desk.clone(), queue.clone());
        self.is_over = true;
        let mut unwanted = Some(next);
        queue.hand_over(|job| match job {
            Job::Write(write) => {
                unwanted = unwanted.take().and_then(|lead| write.appoint(lead));
                unwanted.is_none()
            }
            Job::Push(..) | Job::Upkeep(..) => false,
        });
        // The queue knows already that nobody leads.
        if let Some(mut lead) = unwanted {
            lead.is_over = true;
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.leave();
        }
    }
}
