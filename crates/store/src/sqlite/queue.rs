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
    /// Somebody leads: has said that they will take what is in it.
    led: bool,
    /// The thread sees to it that they do.
    watched: bool,
    /// How often something was taken.
    taken: u64,
}

/// How long whoever leads is trusted to take what is in a queue. They do within microseconds, unless something that
/// never yields has the thread that they would do it on.
const TRUST: Duration = Duration::from_millis(20);

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let items = VecDeque::new();
        let inner = Inner { items, closed: false, led: false, watched: false, taken: 0 };
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

    /// Pushes for whoever leads, which is not the thread. Says whether that is the caller, since nobody else does. The thread
    /// only sees to it that it is done.
    pub(super) fn join(&self, item: T) -> Result<bool, T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(item);
        }
        inner.items.push_back(item);
        let leads = !std::mem::replace(&mut inner.led, true);
        let unwatched = !inner.watched;
        drop(inner);
        if unwatched {
            self.wake.notify_one();
        }
        Ok(leads)
    }

    /// How much waits to be taken.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().items.len()
    }

    /// Takes what there is, up to the first that is not wanted, and goes on leading.
    pub(super) fn take(&self, most: usize, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut inner = self.inner.lock();
        let wanted = inner.items.iter().take(most).take_while(|item| is_wanted(item)).count();
        inner.taken += 1;
        inner.items.drain(..wanted).collect()
    }

    /// Has somebody else lead: the first in line if `appoint` can tell them so, nobody if there is no line, and else the thread.
    pub(super) fn hand_over(&self, appoint: impl FnOnce(&mut T) -> bool) {
        let mut inner = self.inner.lock();
        let is_led = inner.items.front_mut().is_some_and(appoint);
        inner.led = is_led;
        let is_left = !is_led && !inner.items.is_empty();
        drop(inner);
        if is_left {
            self.wake.notify_one();
        }
    }

    /// Leads no more: the thread takes what there is.
    pub(super) fn leave(&self) {
        self.inner.lock().led = false;
        self.wake.notify_one();
    }

    /// Waits until there is something that nobody else is about to take, and takes as much of it as is wanted. While others take
    /// what comes, it looks now and then whether they do, and need not be woken for that.
    pub(super) fn pop_many(&self, most: usize) -> Option<Vec<T>> {
        let mut inner = self.inner.lock();
        let mut taken = inner.taken;
        loop {
            if inner.closed || !inner.led {
                let wanted = inner.items.len().min(most);
                if wanted > 0 {
                    return Some(inner.items.drain(..wanted).collect());
                }
                if inner.closed {
                    return None;
                }
            }
            let (was_led, is_busy) = (inner.led, inner.taken != taken);
            taken = inner.taken;
            if was_led || is_busy {
                inner.watched = true;
                let is_late = self.wake.wait_for(&mut inner, TRUST).timed_out();
                inner.watched = false;
                if is_late && was_led && inner.taken == taken {
                    inner.led = false;
                }
            } else {
                self.wake.wait(&mut inner);
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
    fn the_first_to_join_leads_and_hands_over_to_the_next_in_line() {
        let queue = Queue::new();
        assert_eq!((queue.join(1), queue.join(2), queue.push(-3)), (Ok(true), Ok(false), Ok(())));
        assert_eq!(queue.take(9, |item| *item > 0), [1, 2]);
        assert_eq!(queue.join(4), Ok(false), "it leads until it hands over");
        queue.hand_over(|first| *first > 0);
        assert_eq!(queue.pop_many(9), Some(vec![-3, 4]), "what cannot lead is the thread's");
        assert_eq!(queue.join(5), Ok(true), "the next one leads anew");
        queue.hand_over(|first| *first > 0);
        assert_eq!(queue.join(6), Ok(false), "the next in line leads");
        assert_eq!(queue.take(9, |item| *item > 0), [5, 6]);
        queue.hand_over(|_| panic!("there is no line"));
        assert_eq!(queue.join(7), Ok(true));
    }

    #[test]
    fn what_a_leader_does_not_do_is_the_threads_to_do() {
        let queue = Arc::new(Queue::new());
        let thread = std::thread::spawn({
            let queue = queue.clone();
            move || std::iter::from_fn(|| queue.pop_many(9)).flatten().collect::<Vec<_>>()
        });
        // Forgotten, left, and cut short by the end.
        assert_eq!(queue.join(1), Ok(true));
        while queue.inner.lock().led {
            std::thread::yield_now();
        }
        assert!(queue.join(2).is_ok());
        queue.leave();
        assert!(queue.join(3).is_ok());
        queue.close();
        assert_eq!(queue.join(4), Err(4));
        assert_eq!(thread.join().unwrap(), [1, 2, 3]);
    }
}
