//! A task that is followed by the very stream that shows it.
//!
//! Whoever began a task with a stream waits for its events anyway, so the follower is polled there: what the agent says is
//! read, written and shown in one go, without a task of its own that has to be woken in between. But a stream is polled
//! only for as long as its client reads, and the journal must not wait for a client. So a follower that its stream has not
//! polled for a moment, or whose stream goes away, gets a task of its own after all.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_protocol::{BoxFuture, Error, Event, EventStream};
use futures_core::Stream;
use parking_lot::Mutex;

use super::line::Line;
use crate::muffler::Muffler;
use crate::tasks::Subscription;

/// How long a follower may go without being polled, at most twice.
const TICK: Duration = Duration::from_millis(100);

/// The followers that are polled by streams.
#[derive(Clone, Default)]
pub(super) struct Carriers(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    carriers: Vec<Weak<Carrier>>,
    is_watched: bool,
}

/// A follower on its way through other people's streams.
struct Carrier {
    /// None when it has come to its end, or has a task of its own.
    follower: Mutex<Option<(BoxFuture<'static, ()>, Muffler)>>,
    was_polled: AtomicBool,
}

/// The events of a task, and who follows it.
struct Carrying {
    shown: Subscription<Line>,
    carrier: Arc<Carrier>,
    muffler: Muffler,
}

// === impl Carriers ===

impl Carriers {
    /// Has a stream carry the follower of its task.
    pub(super) fn carry(&self, shown: Subscription<Line>, follower: BoxFuture<'static, ()>) -> EventStream {
        let follower = Mutex::new(Some((follower, Muffler::default())));
        let carrier = Arc::new(Carrier { follower, was_polled: AtomicBool::new(true) });
        let mut list = self.0.lock();
        list.carriers.push(Arc::downgrade(&carrier));
        if !std::mem::replace(&mut list.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(&self.0)));
        }
        Box::pin(Carrying { shown, carrier, muffler: Muffler::default() })
    }
}

/// Looks after the followers, for as long as there are any.
async fn watch(list: Weak<Mutex<List>>) {
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

impl Carrier {
    /// Whether it is still polled. If not, it gets a task of its own.
    fn goes_on(&self) -> bool {
        // Whoever polls it at this moment holds it.
        let is_polled = self.was_polled.swap(false, Ordering::Relaxed) || self.follower.is_locked();
        if !is_polled {
            self.set_down();
        }
        is_polled
    }

    fn poll(&self, context: &mut Context<'_>) {
        self.was_polled.store(true, Ordering::Relaxed);
        let mut held = self.follower.lock();
        if let Some((follower, muffler)) = &mut *held
            && muffler.poll(context, |context| follower.as_mut().poll(context)).is_ready()
        {
            *held = None;
        }
    }

    /// Gives the follower a task of its own.
    fn set_down(&self) {
        if let Some((follower, _)) = self.follower.lock().take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(follower);
        }
    }
}

// === impl Carrying ===

impl Stream for Carrying {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { shown, carrier, muffler } = &mut *self;
        muffler.poll(context, |context| {
            if let Poll::Ready(next) = Pin::new(&mut *shown).poll_next(context) {
                return Poll::Ready(next);
            }
            carrier.poll(context);
            Pin::new(&mut *shown).poll_next(context)
        })
    }
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.carrier.set_down();
    }
}
