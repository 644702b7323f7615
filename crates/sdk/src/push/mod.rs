//! Push notifications: posts the events of tasks to whoever registered for them.
//!
//! A [`Deliverer`] runs beside the runtime and never in its way: the runtime commits an event and, if
//! [`Appended::push`](crate::store::Appended::push) says so, wakes the deliverer. What is to be delivered, how far
//! each receiver has come and when the next attempt is due is all in the store, so a restart goes on where the last
//! process was: at least once, in order, and at most the one event that was on its way is repeated.
//!
//! Each configuration has one request on its way at a time. Each host has a few, or one if it failed last, and all
//! together have a bounded number, of which those that failed get half; so receivers that are dead or slow keep
//! nobody else waiting.
//!
//! | answer | what happens |
//! |---|---|
//! | 2xx | the next event |
//! | none, 5xx, 408, 425, 429 | again later: after `Retry-After` if it is given, else after a doubled, jittered wait |
//! | other 4xx, 3xx, a URL that may not be dialled | this event is given up, the next one is tried |
//! | too many failures in a row | everything that is pending for this configuration is given up |
//!
//! | file | holds |
//! |---|---|
//! | `dispatch` | the loop that takes from the store what is due |
//! | `queue` | whose turn it is |
//! | `deliver` | one configuration's events, one after the other |
//! | `post` | one request |
//! | `backoff` | how long to wait |

mod backoff;
mod deliver;
mod dispatch;
mod post;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use chancery_store::Store;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::egress::Egress;
use crate::runtime::Notifier;
use deliver::Work;
use dispatch::Dispatch;
use post::Poster;

/// Posts what is pending in a store. Clones are the same one; it stops when the last is dropped.
///
/// ```no_run
/// # async fn example() {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use chancery_sdk::egress::Egress;
/// use chancery_sdk::push::{Deliverer, PushLimits};
/// use chancery_sdk::store::Store;
///
/// let store = Arc::new(Store::memory());
/// let deliverer = Deliverer::spawn(store, Egress::default(), PushLimits::default());
/// // After a commit that left something to deliver:
/// deliverer.wake();
/// // At the end, with ten seconds for what is on its way:
/// deliverer.stop(Duration::from_secs(10)).await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Deliverer(Arc<Running>);

#[derive(Debug)]
struct Running {
    egress: Egress,
    wake: Arc<Notify>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    _stop_when_dropped: DropGuard,
}

/// How much is tried at a time, and for how long. Zero counts as one.
#[derive(Clone, Copy, Debug)]
pub struct PushLimits {
    /// How long a receiver may take to answer, connecting included.
    pub request_timeout: Duration,
    /// The most requests on their way at a time.
    pub requests: usize,
    /// The most requests on their way to one host at a time.
    pub requests_per_host: usize,
    /// The most configurations that wait for their turn in memory. The store keeps the rest.
    pub waiting: usize,
    /// How many failures in a row are enough to give up what is pending for a configuration.
    pub attempts: u32,
    /// The wait after the first failure. It doubles from one to the next.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
    /// The longest wait that a receiver can ask for with `Retry-After`.
    pub longest_retry_after: Duration,
}

// === impl Deliverer ===

impl Deliverer {
    /// Starts to deliver. Must be called within a tokio runtime.
    pub fn spawn(store: Arc<Store>, egress: Egress, limits: PushLimits) -> Self {
        let wake = Arc::new(Notify::new());
        let stop = CancellationToken::new();
        let poster = Poster::new(egress.clone(), &limits);
        let work = Arc::new(Work { store, poster, limits, stop: stop.clone() });
        let task = tokio::spawn(Dispatch::new(work).run(wake.clone()));
        let guard = stop.clone().drop_guard();
        let task = Mutex::new(Some(task));
        Self(Arc::new(Running { egress, wake, stop, task, _stop_when_dropped: guard }))
    }

    /// There is something to deliver. Costs next to nothing, and waits for nothing.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// Begins nothing more, waits so long for what is on its way, and cuts off the rest: that will be repeated.
    pub async fn stop(&self, grace: Duration) {
        self.0.stop.cancel();
        let Some(mut task) = self.0.task.lock().take() else { return };
        if tokio::time::timeout(grace, &mut task).await.is_err() {
            task.abort();
            // Only once it is gone does it touch the store no more.
            task.await.ok();
        }
    }
}

impl Notifier for Deliverer {
    fn check(&self, url: &str) -> Result<(), String> {
        self.0.egress.check(url).map(drop).map_err(|refused| refused.to_string())
    }

    fn wake(&self) {
        Self::wake(self);
    }
}

impl Default for PushLimits {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            requests: 64,
            requests_per_host: 8,
            waiting: 4_096,
            attempts: 12,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(5 * 60),
            longest_retry_after: Duration::from_secs(15 * 60),
        }
    }
}
