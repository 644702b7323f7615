//! Threads of the server's own, each of which serves the connections that it is given.
//!
//! On a runtime whose threads share their work, a connection is served by whichever of them finds it ready. What it is made of
//! moves from core to core with it, and so do the connections that its calls are passed on over; and who finds work wakes
//! somebody to share it. Here a connection stays where it is.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;

use chancery_protocol::BoxFuture;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::listener::Version;

/// They end when this is dropped, and so does what they still serve.
#[derive(Debug, Default)]
pub(super) struct Threads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Each connection that it serves has one more of it.
    connection: Arc<()>,
    /// Nothing is ever sent: it ends when this is dropped.
    _end: oneshot::Sender<Infallible>,
}

impl Threads {
    pub(super) fn start(count: usize) -> io::Result<Self> {
        (0..count).map(Thread::start).collect::<io::Result<_>>().map(Self)
    }

    /// Whether connections are theirs. By HTTP/1.1 they have one call at a time. Those of one connection by HTTP/2 may be enough for
    /// several cores, so they are left to the runtime to spread.
    pub(super) fn are_for(&self, version: Version) -> bool {
        version == Version::One && !self.0.is_empty()
    }

    /// Has the thread with the fewest connections serve one more, which is begun there: a socket belongs to the runtime in which
    /// it is made.
    pub(super) fn serve(&self, begin: impl FnOnce() -> io::Result<BoxFuture<'static, ()>> + Send + 'static) {
        let fewest = self.0.iter().min_by_key(|thread| Arc::strong_count(&thread.connection));
        let Some(Thread { runtime, connection, .. }) = fewest else { return };
        let connection = connection.clone();
        runtime.spawn(async move {
            match begin() {
                Ok(served) => served.await,
                Err(error) => tracing::debug!(%error, "connection lost before it was served"),
            }
            drop(connection);
        });
    }
}

impl Thread {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name(format!("connections-{number}")).spawn(move || {
            let _ = runtime.block_on(ended);
            // Whatever blocks there is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connection: Arc::default(), _end: end })
    }
}
