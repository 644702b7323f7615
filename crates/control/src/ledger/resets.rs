//! What an operator does to an account: adds to its limits, forgets what was charged; and how that is done again after a
//! restart.

use chancery_protocol::Amount;

use super::account::Account;
use super::frame::Frame;
use super::limits::{Window, amount_of, by_metric};
use crate::Millis;

/// What was forgotten of an account, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// When.
    pub at: Millis,
    /// What had been charged within each window.
    pub forgotten: Vec<(Window, Amount)>,
}

impl Account {
    /// Adds to the limits of a window: until the day or month ends, or for as long as a rolling window is. Says whether
    /// the account has such a window. What is not limited stays so.
    pub fn top_up(&self, window: Window, more: Amount, now: Millis) -> bool {
        let Some(frame) = self.frames.iter().find(|frame| frame.window == window) else { return false };
        let amending = self.ceilings.amend();
        frame.top_up(by_metric(more), now);
        drop(amending);
        self.queue.advance(Some(now));
        true
    }

    /// Forgets what was charged, in all windows. What is held stays held. Says what was forgotten, for whoever wants
    /// it to outlive the process.
    pub fn reset(&self, now: Millis) -> Reset {
        self.turn(now);
        let amending = self.ceilings.amend();
        let spent = self.spent.sums();
        let forget = |frame: &Frame| {
            let starts = frame.starts();
            frame.forget(spent);
            let forgotten = std::array::from_fn(|metric| spent[metric].saturating_sub(starts[metric]));
            (frame.window, amount_of(forgotten))
        };
        let forgotten = self.frames.iter().map(forget).collect();
        drop(amending);
        self.queue.advance(Some(now));
        Reset { at: now, forgotten }
    }

    /// Does again what a reset of an earlier process did. To be called in its place between what was charged before and
    /// after. What is known only as the sum of a second, a minute or a day is charged at the end of that, so a part of what
    /// was forgotten may be charged only later; [`end_resets`](Self::end_resets) is to be called then.
    pub fn reset_again(&self, reset: &Reset) {
        self.turn(reset.at);
        let _amending = self.ceilings.amend();
        let spent = self.spent.sums();
        for frame in &self.frames {
            let known = reset.forgotten.iter().find(|(window, _)| *window == frame.window);
            let forgotten = known.map(|(_, forgotten)| by_metric(*forgotten)).unwrap_or_default();
            let starts = frame.starts();
            frame.forget(std::array::from_fn(|metric| {
                let until = starts[metric].saturating_add(forgotten[metric]);
                // Of a day, what is charged here by then may have been charged after the reset.
                if frame.window.is_calendar() { until } else { until.max(spent[metric]) }
            }));
        }
    }

    /// All that was charged before this process has been booked. No more is forgotten than that.
    pub fn end_resets(&self) {
        let _amending = self.ceilings.amend();
        let spent = self.spent.sums();
        self.frames.iter().for_each(|frame| frame.forget_at_most(spent));
    }
}
