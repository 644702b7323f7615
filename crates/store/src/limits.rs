//! How much is kept, and for how long. Nothing here is unlimited.

use std::time::Duration;

/// All limits of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreLimits {
    /// What one task may hold.
    pub task: TaskLimits,
    /// What is kept of tasks that have ended. An active task is never forgotten.
    pub retention: Retention,
}

/// What one task may hold. The status that ends a task always fits.
#[derive(Clone, Copy, Debug)]
pub struct TaskLimits {
    /// Events.
    pub events: usize,
    /// Artifacts.
    pub artifacts: usize,
    /// Bytes of events.
    pub bytes: usize,
    /// Push notification configurations.
    pub push_configs: usize,
}

/// What is kept of tasks that have ended.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long its events can be replayed one by one; then only the task itself is kept.
    pub events: Duration,
    /// How long the task itself is kept.
    pub tasks: Duration,
    /// How many are kept at most. Where there are too many, whoever has most loses its oldest. Where it is thousands, a few more may be there before they go together:
    /// at most 32, and one for 512.
    pub max_tasks: usize,
    /// The same of one owner in a realm, who loses its own oldest.
    pub max_tasks_per_owner: usize,
    /// How long an idempotency key is remembered.
    pub admissions: Duration,
    /// How many idempotency keys are remembered at most. Where there are too many, whoever has most loses its oldest.
    pub max_admissions: usize,
    /// The same of one owner in a realm, who loses its own oldest.
    pub max_admissions_per_owner: usize,
    /// How long the record of an admitted call is kept, from when it was let through. One that is not settled is
    /// never forgotten.
    pub edges: Duration,
    /// How many of those that are settled are kept at most. Where there are too many, whoever has most loses its oldest.
    pub max_edges: usize,
    /// The same of one caller in a realm, who loses its own oldest.
    pub max_edges_per_owner: usize,
    /// How long it is kept what was spent on a day.
    pub spend: Duration,
}

impl StoreLimits {
    /// The defaults for the store that a URL names. A disk keeps more than memory does: a million tasks and as
    /// many idempotency keys and records of calls.
    pub fn for_url(url: &str) -> Self {
        let mut limits = Self::default();
        if url.starts_with("sqlite:") {
            limits.retention.max_tasks = 1_000_000;
            limits.retention.max_tasks_per_owner = 1_000_000;
            limits.retention.max_admissions = 1_000_000;
            limits.retention.max_admissions_per_owner = 1_000_000;
            limits.retention.max_edges = 1_000_000;
            limits.retention.max_edges_per_owner = 1_000_000;
        }
        limits
    }
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { events: 100_000, artifacts: 1_000, bytes: 64 << 20, push_configs: 10 }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            events: Duration::from_secs(10 * 60),
            tasks: Duration::from_secs(24 * 60 * 60),
            max_tasks: 25_000,
            max_tasks_per_owner: 25_000,
            admissions: Duration::from_secs(24 * 60 * 60),
            max_admissions: 100_000,
            max_admissions_per_owner: 100_000,
            edges: Duration::from_secs(90 * 24 * 60 * 60),
            max_edges: 25_000,
            max_edges_per_owner: 25_000,
            spend: Duration::from_secs(400 * 24 * 60 * 60),
        }
    }
}
