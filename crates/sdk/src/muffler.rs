//! Wake-ups that come from within, kept within, and polls that nothing has asked for, left out.
//!
//! What is polled in one task often wakes itself: one half of a channel wakes the other, which the same task polls a
//! moment later anyway. Passed on, each such wake-up has the executor run the whole task once more, and often wake
//! another thread for it. Here a wake-up that comes while something is being polled has it polled again at once; one that
//! comes at any other time goes to the task.
//!
//! And a task that is woken for one of the things in it polls all of them. What has not been woken since it was last found
//! pending is still pending, and is not polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// How often something is polled again before its task is told instead, so that others get their turn.
const MOST_AGAIN: usize = 4;

/// It has been woken since it was last found pending, or has never been found so: there is reason to poll.
const WOKEN: u8 = 1;
/// It is being polled.
const POLLING: u8 = 2;

/// Polls what would otherwise wake its own task.
#[derive(Debug, Default)]
pub(crate) struct Muffler {
    /// Made when it is first needed, and kept.
    inner: Option<Inner>,
}

#[derive(Debug)]
struct Inner {
    muffled: Arc<Muffled>,
    /// Made of it.
    waker: Waker,
    /// The task as it was last seen, so that the shared one need not be looked at.
    task: Waker,
}

#[derive(Debug)]
struct Muffled {
    state: AtomicU8,
    task: Mutex<Waker>,
}

// === impl Muffler ===

impl Muffler {
    /// Polls if there is reason to, and again for as long as that has woken itself.
    pub(crate) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Inner { muffled, waker, task } = self.inner.get_or_insert_with(|| Inner::new(context.waker()));
        if !task.will_wake(context.waker()) {
            task.clone_from(context.waker());
            muffled.tell(task.clone());
        }
        let mut inner = Context::from_waker(waker);
        for _ in 0..MOST_AGAIN {
            if !muffled.is_woken() {
                return Poll::Pending;
            }
            muffled.begin();
            let polled = poll(&mut inner);
            muffled.end(polled.is_ready());
            if polled.is_ready() {
                return polled;
            }
        }
        if muffled.is_woken() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Inner {
    fn new(task: &Waker) -> Self {
        let muffled = Arc::new(Muffled { state: AtomicU8::new(WOKEN), task: Mutex::new(task.clone()) });
        Self { waker: Waker::from(muffled.clone()), muffled, task: task.clone() }
    }
}

// === impl Muffled ===

impl Muffled {
    fn is_woken(&self) -> bool {
        self.state.load(Ordering::Acquire) & WOKEN != 0
    }

    /// Says whom to tell from now on.
    fn tell(&self, task: Waker) {
        let before = std::mem::replace(&mut *self.task.lock(), task);
        // Not under the lock: it may be the last that is left of a task.
        drop(before);
    }

    fn begin(&self) {
        self.state.swap(POLLING, Ordering::AcqRel);
    }

    /// What has given something may have more.
    fn end(&self, is_ready: bool) {
        match is_ready {
            true => self.state.store(WOKEN, Ordering::Release),
            false => _ = self.state.fetch_and(!POLLING, Ordering::AcqRel),
        }
    }
}

impl Wake for Muffled {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Whoever polls it sees to it, or has been told already.
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) == 0 {
            self.task.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_wakes_itself_is_polled_again_and_its_task_is_not_woken() {
        let counted = Arc::<Counted>::default();
        let task = Waker::from(counted.clone());
        let (mut muffler, mut polls) = (Muffler::default(), 0);
        let polled = muffler.poll(&mut Context::from_waker(&task), |context| {
            polls += 1;
            if polls < 3 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        assert_eq!((polled, polls, counted.0.load(Ordering::Relaxed)), (Poll::Ready(()), 3, 0));
    }

    #[test]
    fn what_wakes_itself_without_end_gives_way() {
        let counted = Arc::<Counted>::default();
        let task = Waker::from(counted.clone());
        let polled: Poll<()> = Muffler::default().poll(&mut Context::from_waker(&task), |context| {
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!((polled, counted.0.load(Ordering::Relaxed)), (Poll::Pending, 1));
    }

    #[test]
    fn what_was_not_woken_is_not_polled() {
        let task = Waker::noop();
        let (mut muffler, mut polls, mut kept) = (Muffler::default(), 0, None);
        for woken in [true, false, false, true, false] {
            if let Some(waker) = kept.take_if(|_| woken) {
                Waker::wake(waker);
            }
            let before = polls;
            let polled: Poll<()> = muffler.poll(&mut Context::from_waker(task), |context| {
                polls += 1;
                kept = Some(context.waker().clone());
                Poll::Pending
            });
            assert_eq!((polled, polls - before), (Poll::Pending, u32::from(woken)));
        }
    }

    /// It would wait for ever for what it has not been told of.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_from_another_thread_is_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sending = tokio::spawn(async move {
            for number in 0..20_000 {
                sender.send(number).await.unwrap();
            }
        });
        let (mut outer, mut inner, mut heard) = (Muffler::default(), Muffler::default(), 0);
        let next = |context: &mut Context<'_>| {
            outer.poll(context, |context| inner.poll(context, |context| receiver.poll_recv(context)))
        };
        let mut next = Box::new(next);
        while let Some(number) = std::future::poll_fn(&mut *next).await {
            assert_eq!(number, heard);
            heard += 1;
        }
        assert_eq!(heard, 20_000);
        sending.await.unwrap();
    }

    #[test]
    fn who_is_woken_from_outside_wakes_its_task() {
        let counted = Arc::<Counted>::default();
        let task = Waker::from(counted.clone());
        let (mut muffler, mut kept) = (Muffler::default(), None);
        let polled: Poll<()> = muffler.poll(&mut Context::from_waker(&task), |context| {
            kept = Some(context.waker().clone());
            Poll::Pending
        });
        assert!(polled.is_pending());
        kept.as_ref().unwrap().wake_by_ref();
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    }
}
