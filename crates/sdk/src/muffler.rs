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
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// How often something is polled again before its task is told instead, so that others get their turn.
const MOST_AGAIN: usize = 4;

/// Polls what would otherwise wake its own task.
#[derive(Debug, Default)]
pub(crate) struct Muffler {
    /// Made when it is first needed, and kept.
    waker: Option<(Arc<Muffled>, Waker)>,
}

#[derive(Debug, Default)]
struct Muffled(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The task.
    task: Option<Waker>,
    polling: bool,
    /// Whether it was woken while it was polled.
    again: bool,
    /// Whether it has been found pending, and not been woken since.
    is_pending: bool,
}

impl Muffler {
    /// Polls if there is reason to, and again for as long as that has woken itself.
    pub(crate) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let (muffled, waker) = self.waker.get_or_insert_with(|| {
            let muffled = Arc::<Muffled>::default();
            (muffled.clone(), Waker::from(muffled))
        });
        let mut inner = Context::from_waker(waker);
        for _ in 0..MOST_AGAIN {
            if !muffled.begin(context.waker()) {
                return Poll::Pending;
            }
            let polled = poll(&mut inner);
            let again = muffled.end(polled.is_pending());
            if polled.is_ready() || !again {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether what was polled last waits for something, so that there is no reason to poll it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waker.as_ref().is_some_and(|(muffled, _)| muffled.0.lock().is_pending)
    }
}

impl Muffled {
    /// Whether there is reason to poll.
    fn begin(&self, task: &Waker) -> bool {
        let mut state = self.0.lock();
        match &mut state.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
        (state.polling, state.again) = (!state.is_pending, false);
        state.polling
    }

    fn end(&self, is_pending: bool) -> bool {
        let mut state = self.0.lock();
        state.polling = false;
        state.is_pending = is_pending && !state.again;
        state.again
    }
}

impl Wake for Muffled {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = {
            let mut state = self.0.lock();
            if state.polling {
                state.again = true;
                return;
            }
            state.is_pending = false;
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
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
