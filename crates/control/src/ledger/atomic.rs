//! The atomics of the ledger: those of the standard library, except in tests, which count what is changed and let a
//! model checker switch threads at every access.
//!
//! Everything is sequentially consistent, but for what one thread writes alone. On the machines that matter a read costs
//! the same and a change costs the same, and what the checker explores is then all that can happen.

#[cfg(not(test))]
pub(super) use std::sync::atomic::AtomicU64;

#[cfg(not(test))]
use parking_lot::{Mutex, MutexGuard};

/// Which thread of a model this is; none outside of one.
#[cfg(not(test))]
#[inline]
pub(super) const fn thread_of_model() -> Option<usize> {
    None
}

#[cfg(not(test))]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
pub(super) use checked::AtomicU64;
#[cfg(test)]
pub(super) use checked::{changes_of, lock, model, thread_of_model};

#[cfg(test)]
mod checked {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64 as Plain, Ordering};

    use parking_lot::{Mutex, MutexGuard};

    thread_local! {
        static CHANGES: Cell<u64> = const { Cell::new(0) };
        static IN_MODEL: Cell<bool> = const { Cell::new(false) };
    }

    /// How many read-modify-writes this thread makes while it does that.
    pub(crate) fn changes_of(work: impl FnOnce()) -> u64 {
        let before = CHANGES.get();
        work();
        CHANGES.get() - before
    }

    /// Runs one execution of a model: from here on every access is a point at which another thread may go on.
    /// The checker runs all its threads on this one, so that a flag of this one is a flag of theirs.
    pub(crate) fn model(work: impl FnOnce()) {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                IN_MODEL.set(false);
            }
        }
        IN_MODEL.set(true);
        let _off = Off;
        work();
    }

    /// The model checker runs all threads on one: none may stand still.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        loop {
            match mutex.try_lock() {
                Some(guard) => return guard,
                None if switch() => {}
                None => return mutex.lock(),
            }
        }
    }

    /// Lets the checker go on with any thread. Says whether there is a checker.
    fn switch() -> bool {
        let in_model = IN_MODEL.get();
        if in_model {
            shuttle::thread::yield_now();
        }
        in_model
    }

    /// Which thread of a model this is; none outside of one.
    pub(crate) fn thread_of_model() -> Option<usize> {
        IN_MODEL.get().then(|| shuttle::current::me().into())
    }

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU64(Plain);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self(Plain::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            switch();
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            switch();
            self.0.store(value, order);
        }

        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.change().fetch_add(value, order)
        }

        pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            self.change().fetch_sub(value, order)
        }

        pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            self.change().fetch_max(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.change().compare_exchange(current, new, success, failure)
        }

        fn change(&self) -> &Plain {
            switch();
            CHANGES.set(CHANGES.get() + 1);
            &self.0
        }
    }
}
