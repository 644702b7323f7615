//! What goes on when the one who waits for it goes away.

use std::future::Future;

use chancery_protocol::Error;

/// Runs something on its own and waits for it. A request that goes away does not end it: so a message that was taken gets its
/// turn, and nothing stops between two commits.
pub(crate) async fn detached<T, F>(future: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    tokio::spawn(future).await.unwrap_or_else(|lost| Err(Error::internal(lost)))
}

/// Runs something on its own, unless the process winds down.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(future);
    }
}
