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
    /// Somebody has said that they will take what is in it.
    promised: bool,
    /// The thread sees to it that they do.
    watched: bool,
    /// How often something was taken.
    taken: u64,
}

/// How long a promise to take what is in a queue is trusted. It is kept in microseconds, unless something that
/// never yields has the thread that is to keep it.
const TRUST: Duration = Duration::from_millis(10);

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let items = VecDeque::new();
        let inner = Inner { items, closed: false, promised: false, watched: false, taken: 0 };
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

    /// Pushes for somebody who is about to take it, other than the thread. Says whether that is the caller, since
    /// nobody else is. The thread only sees to it that it is done.
    pub(super) fn promise(&self, item: T) -> Result<bool, T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(item);
        }
        inner.items.push_back(item);
        let is_first = !std::mem::replace(&mut inner.promised, true);
        let unwatched = !inner.watched;
        drop(inner);
        if unwatched {
            self.wake.notify_one();
        }
        Ok(is_first)
    }

    /// How much waits to be taken.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().items.len()
    }

    /// Keeps the promise: takes what there is, up to the first that is not wanted. That is left to the thread.
    pub(super) fn take(&self, most: usize, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut inner = self.inner.lock();
        let wanted = inner.items.iter().take(most).take_while(|item| is_wanted(item)).count();
        let items = inner.items.drain(..wanted).collect();
        inner.taken += 1;
        inner.promised = false;
        let is_empty = inner.items.is_empty();
        drop(inner);
        if !is_empty {
            self.wake.notify_one();
        }
        items
    }

    /// Breaks the promise: the thread takes what there is.
    pub(super) fn leave(&self) {
        self.inner.lock().promised = false;
        self.wake.notify_one();
    }

    /// Waits for the next item. What was pushed before the queue was closed is still handed out.
    pub(super) fn pop(&self) -> Option<T> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(item) = inner.items.pop_front() {
                return Some(item);
            }
            if inner.closed {
                return None;
            }
            self.wake.wait(&mut inner);
        }
    }

    /// Waits until there is something that nobody else is about to take, and takes as much of it as is wanted.
    pub(super) fn pop_many(&self, most: usize) -> Option<Vec<T>> {
        let mut inner = self.inner.lock();
        loop {
            if inner.closed || !inner.promised {
                let wanted = inner.items.len().min(most);
                if wanted > 0 {
                    return Some(inner.items.drain(..wanted).collect());
                }
                if inner.closed {
                    return None;
                }
                self.wake.wait(&mut inner);
            } else {
                let taken = inner.taken;
                inner.watched = true;
                let is_late = self.wake.wait_for(&mut inner, TRUST).timed_out();
                inner.watched = false;
                if is_late && inner.taken == taken {
                    inner.promised = false;
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_first_who_promises_takes_what_all_have_pushed() {
        let queue = Queue::new();
        assert_eq!((queue.promise(1), queue.promise(2), queue.push(-3)), (Ok(true), Ok(false), Ok(())));
        assert_eq!(queue.promise(4), Ok(false));
        assert_eq!(queue.take(9, |item| *item > 0), [1, 2]);
        assert_eq!(queue.pop_many(9), Some(vec![-3, 4]), "what it does not want is the thread's");
        assert_eq!(queue.promise(5), Ok(true), "the next one promises anew");
    }

    #[test]
    fn a_promise_that_is_not_kept_is_the_threads_to_keep() {
        let queue = Arc::new(Queue::new());
        let thread = std::thread::spawn({
            let queue = queue.clone();
            move || std::iter::from_fn(|| queue.pop_many(9)).flatten().collect::<Vec<_>>()
        });
        // Forgotten, left, and cut short by the end.
        assert_eq!(queue.promise(1), Ok(true));
        while queue.inner.lock().promised {
            std::thread::yield_now();
        }
        assert!(queue.promise(2).is_ok());
        queue.leave();
        assert!(queue.promise(3).is_ok());
        queue.close();
        assert_eq!(queue.promise(4), Err(4));
        assert_eq!(thread.join().unwrap(), [1, 2, 3]);
    }
}
