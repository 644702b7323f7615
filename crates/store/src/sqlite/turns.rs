//! A queue in which everybody has a line of their own, and the lines take turns: whoever asks for much waits for it, and nobody
//! else does.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use parking_lot::{Condvar, Mutex};

use crate::record::Scope;

/// Whose line it is: a realm and an owner; nobody's for what the store does by itself.
pub(super) type Line = Option<(std::sync::Arc<str>, std::sync::Arc<str>)>;

#[derive(Debug)]
pub(super) struct Turns<T> {
    inner: Mutex<Inner<T>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    lines: HashMap<Line, VecDeque<T>, RandomState>,
    /// The lines that have something, whose turn is next first.
    order: VecDeque<Line>,
    closed: bool,
}

pub(super) fn line_of(scope: &Scope) -> Line {
    Some((scope.realm.clone(), scope.owner.clone()))
}

impl<T> Turns<T> {
    pub(super) fn new() -> Self {
        let inner = Inner { lines: HashMap::default(), order: VecDeque::new(), closed: false };
        Self { inner: Mutex::new(inner), wake: Condvar::new() }
    }

    /// Gives the item back if nobody will take it.
    pub(super) fn push(&self, line: Line, item: T) -> Result<(), T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(item);
        }
        let waiting = inner.lines.entry(line.clone()).or_default();
        waiting.push_back(item);
        if waiting.len() == 1 {
            inner.order.push_back(line);
        }
        drop(inner);
        // Costs next to nothing if nobody sleeps.
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for the next item. What was pushed before the queue was closed is still handed out.
    pub(super) fn pop(&self) -> Option<T> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(item) = inner.next() {
                return Some(item);
            }
            if inner.closed {
                return None;
            }
            self.wake.wait(&mut inner);
        }
    }

    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        drop(inner);
        self.wake.notify_all();
    }
}

impl<T> Inner<T> {
    fn next(&mut self) -> Option<T> {
        let line = self.order.pop_front()?;
        let waiting = self.lines.get_mut(&line)?;
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.lines.remove(&line);
        } else {
            self.order.push_back(line);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(owner: &str) -> Line {
        Some(("r".into(), owner.into()))
    }

    #[test]
    fn lines_take_turns_and_each_keeps_its_order() {
        let turns = Turns::new();
        for number in 0..4 {
            turns.push(line("much"), number).unwrap();
        }
        turns.push(line("little"), 10).unwrap();
        turns.push(None, 20).unwrap();
        turns.push(line("little"), 11).unwrap();
        turns.close();
        assert_eq!(turns.push(None, 21), Err(21));
        let taken: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(taken, [0, 10, 20, 1, 11, 2, 3]);
        assert!(turns.inner.lock().lines.is_empty());
    }
}
