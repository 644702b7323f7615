//! Whether something took no time, so that nobody has been woken meanwhile: what waited before still does.

use std::future::{Future, poll_fn};
use std::pin::Pin;

/// Waits for something, and says whether it was there at once.
pub(crate) async fn at_once<F: Future>(mut future: Pin<&mut F>) -> (F::Output, bool) {
    let mut is_first = true;
    poll_fn(|context| {
        let was_first = std::mem::take(&mut is_first);
        future.as_mut().poll(context).map(|output| (output, was_first))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn what_is_ready_is_told_from_what_is_waited_for() {
        assert_eq!(at_once(pin!(std::future::ready(1))).await, (1, true));
        assert_eq!(at_once(pin!(tokio::task::yield_now())).await, ((), false));
    }
}
