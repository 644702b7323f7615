//! When output that comes in small pieces is shown: 50 ms after the first of it came, or as soon as there are 8 KiB, however fast
//! more follows. Many words at once cost little more than one.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// How much output is shown at once at most.
pub(super) const MOST_AT_ONCE: usize = 8 << 10;
/// How long output may wait for more.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// How long the output that is held may still wait.
#[derive(Debug, Default)]
pub(super) struct OutputPacing {
    due: Option<Instant>,
}

impl OutputPacing {
    /// Waits for more output; none if what is held is to be shown first.
    pub(super) async fn more<T>(&self, more: impl Future<Output = T>) -> Option<T> {
        match self.due {
            None => Some(more.await),
            // What is always ready would never time out.
            Some(due) if due <= Instant::now() => None,
            Some(due) => timeout_at(due, more).await.ok(),
        }
    }

    /// There is output to be shown.
    pub(super) fn hold(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + LONGEST_WAIT);
    }

    /// All of it has been shown.
    pub(super) fn shown(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn held_output_becomes_due_however_fast_more_comes() {
        let mut pacing = OutputPacing::default();
        assert_eq!(pacing.more(ready(1)).await, Some(1));
        pacing.hold();
        while pacing.more(ready(2)).await.is_some() {
            pacing.hold();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(pacing.more(std::future::pending::<()>()).await, None);
        pacing.shown();
        assert_eq!(pacing.more(ready(3)).await, Some(3));
    }
}
