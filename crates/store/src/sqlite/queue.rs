//! A queue from async code to a thread: pushing never blocks, and wakes a thread only if one sleeps.
//!
//! What bounds it is the permit that everything in it holds.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// What a thread finds when it looks.
#[derive(Debug)]
pub(super) enum Taken<T> {
    Items(T),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let inner = Inner { items: VecDeque::new(), closed: false };
        Self { inner: Mutex::new(inner), wake: Condvar::new() }
    }

    /// Gives the item back if nobody will take it.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(item);
        }
        inner.items.push_back(item);
        drop(inner);
        // Costs next to nothing if nobody sleeps.
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for the next item. What was pushed before the queue was closed is still handed out.
    pub(super) fn pop(&self, patience: Option<Duration>) -> Taken<T> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(item) = inner.items.pop_front() {
                return Taken::Items(item);
            }
            if inner.closed {
                return Taken::Closed;
            }
            match patience {
                None => self.wake.wait(&mut inner),
                Some(patience) => {
                    if self.wake.wait_for(&mut inner, patience).timed_out() && inner.items.is_empty() {
                        return if inner.closed { Taken::Closed } else { Taken::Nothing };
                    }
                }
            }
        }
    }

    /// Waits until there is something, and takes as much of it as is wanted.
    pub(super) fn pop_many(&self, most: usize) -> Taken<Vec<T>> {
        let first = match self.pop(None) {
            Taken::Items(item) => item,
            Taken::Nothing => return Taken::Nothing,
            Taken::Closed => return Taken::Closed,
        };
        let mut inner = self.inner.lock();
        let more = inner.items.len().min(most.saturating_sub(1));
        let mut items = Vec::with_capacity(more + 1);
        items.push(first);
        items.extend(inner.items.drain(..more));
        Taken::Items(items)
    }

    /// Nobody takes from it any more: drops what is in it, so that whoever waits for an answer hears of it.
    pub(super) fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.inner.lock().items);
        drop(left);
    }

    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        drop(inner);
        self.wake.notify_all();
    }
}
