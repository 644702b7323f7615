//! Work on a task that is carried by the very stream that shows it.
//!
//! Whoever began a task with a stream waits for its events anyway, so who works on it, a turn or the follower of an agent
//! elsewhere, is polled there: what is said is written and shown in one go, without a task of its own that has to be woken
//! in between. But a stream is polled only for as long as its client reads, and the journal must not wait for a client. So
//! work that could go on and that its stream has not polled for a moment, or whose stream goes away, gets a task of its own
//! after all.

use std::convert::Infallible;
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_protocol::{Error, Event, EventStream};
use futures_core::Stream;
use parking_lot::Mutex;

use super::subscription::Subscription;
use super::unstoppable::Unstoppable;
use crate::muffler::{Muffler, Waits};

/// How long work that could go on may wait to be polled, at most twice.
const TICK: Duration = Duration::from_millis(100);

/// The work that is polled by streams. What comes of it is of no use to them.
pub(crate) struct Carriers<T: Send + 'static>(Arc<Mutex<List<T>>>);

struct List<T: Send + 'static> {
    carriers: Vec<Weak<Carrier<T>>>,
    is_watched: bool,
}

/// Work on its way through other people's streams.
struct Carrier<T: Send + 'static> {
    /// None when it has come to its end, or has a task of its own.
    work: Mutex<Option<Unstoppable<T>>>,
    waits: Waits,
    was_polled: AtomicBool,
}

/// The events of a task, and who works on it.
struct Carrying<W, T: Send + 'static> {
    shown: Subscription<W>,
    carrier: Arc<Carrier<T>>,
    /// For the work alone.
    work_muffler: Muffler,
    /// For both.
    muffler: Muffler,
}

// === impl Carriers ===

impl<T: Send + 'static> Default for Carriers<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(List { carriers: Vec::new(), is_watched: false })))
    }
}

impl<T: Send + 'static> fmt::Debug for Carriers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carriers")
    }
}

impl<T: Send + 'static> Carriers<T> {
    /// Has a stream carry the work on its task.
    pub(crate) fn carry<W: Send + 'static>(
        &self,
        shown: Subscription<W>,
        work: Unstoppable<T>,
    ) -> EventStream {
        let mut work_muffler = Muffler::default();
        let carrier = Arc::new(Carrier {
            work: Mutex::new(Some(work)),
            waits: work_muffler.waits(),
            was_polled: AtomicBool::new(true),
        });
        let mut list = self.0.lock();
        list.carriers.push(Arc::downgrade(&carrier));
        if !std::mem::replace(&mut list.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.0)));
        }
        drop(list);
        Box::pin(Carrying { shown, carrier, work_muffler, muffler: Muffler::default() })
    }
}

/// Looks after what is carried, for as long as anything is.
async fn watch<T: Send + 'static>(list: Weak<Mutex<List<T>>>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(list) = list.upgrade() else { return };
        let mut list = list.lock();
        list.carriers.retain(|carrier| carrier.upgrade().is_some_and(|carrier| carrier.goes_on()));
        if list.carriers.is_empty() {
            list.is_watched = false;
            return;
        }
    }
}

// === impl Carrier ===

impl<T: Send + 'static> Carrier<T> {
    /// Whether it is still carried. What could go on and is not polled gets a task of its own.
    fn goes_on(&self) -> bool {
        // Whoever polls it at this moment holds it.
        let Some(held) = self.work.try_lock() else { return true };
        if held.is_none() {
            return false;
        }
        let was_polled = self.was_polled.swap(false, Ordering::Relaxed);
        if was_polled || self.waits.is_waiting() {
            return true;
        }
        drop(held);
        self.set_down();
        false
    }

    /// Never ready: nobody waits for the end of the work.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Infallible> {
        self.was_polled.store(true, Ordering::Relaxed);
        let mut held = self.work.lock();
        if held.as_mut().is_some_and(|work| Pin::new(work).poll(context).is_ready()) {
            *held = None;
        }
        Poll::Pending
    }

    /// Gives the work a task of its own: it cannot be stopped.
    fn set_down(&self) {
        let work = self.work.lock().take();
        drop(work);
    }
}

// === impl Carrying ===

impl<W: Send + 'static, T: Send + 'static> Stream for Carrying<W, T> {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { shown, carrier, work_muffler, muffler } = &mut *self;
        if let Some(event) = shown.next_fetched() {
            return Poll::Ready(Some(Ok(event)));
        }
        muffler.poll(context, |context| {
            let _ = work_muffler.poll(context, |context| carrier.poll(context));
            Pin::new(&mut *shown).poll_next(context)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.shown.size_hint()
    }
}

impl<W, T: Send + 'static> Drop for Carrying<W, T> {
    fn drop(&mut self) {
        self.carrier.set_down();
    }
}
