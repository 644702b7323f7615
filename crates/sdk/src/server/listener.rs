//! Accepting connections, within limits, until told to stop; then letting calls finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::ServerLimits;
use super::service::Service;

/// A site that listens.
#[derive(Debug)]
pub struct Server {
    pub(super) listener: TcpListener,
    pub(super) service: Service,
    pub(super) url: String,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<super::tls::Tls>,
}

impl Server {
    /// The address that it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The URL that its cards name.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until SIGTERM or Ctrl-C, then drains.
    pub async fn run(self) {
        self.run_until(stop_signal()).await;
    }

    /// Serves until a future is ready, then drains: no new connections, open calls finish.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) {
        let limits = *self.service.limits();
        let connections = Arc::new(Semaphore::new(limits.connections));
        let http = Arc::new(http(&limits));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.listener, &connections) => accepted,
                () = &mut stop => break,
            };
            let (stream, permit) = accepted;
            self.spawn(stream, permit, &http, &graceful);
        }
        drop(self.listener);
        tracing::info!("no longer accepting connections; waiting for open calls");
        if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("some connections were still open after {:?} and are cut", limits.drain);
        }
    }

    fn spawn(
        &self,
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        http: &Arc<auto::Builder<TokioExecutor>>,
        graceful: &GracefulShutdown,
    ) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let (handshake, http, service) = (tls.accept(stream), http.clone(), self.service.clone());
            let watcher = graceful.watcher();
            tokio::spawn(async move {
                match handshake.await {
                    Ok(stream) => watcher.watch(connection(&http, stream, service)).await.unwrap_or_default(),
                    Err(error) => tracing::debug!(%error, "no TLS handshake"),
                }
                drop(permit);
            });
            return;
        }
        let connection = graceful.watch(connection(http, stream, self.service.clone()));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "connection ended");
            }
            drop(permit);
        });
    }
}

fn connection<S>(
    http: &auto::Builder<TokioExecutor>,
    stream: S,
    service: Service,
) -> auto::Connection<'static, TokioIo<S>, TowerToHyperService<Service>, TokioExecutor>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).into_owned()
}

/// HTTP/1.1 and HTTP/2 on one port, each within limits.
fn http(limits: &ServerLimits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(8192));
    // hyper's own limit is 100, and it is cheaper if it is not told so.
    if limits.headers != 100 {
        http.http1().max_headers(limits.headers);
    }
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.requests_per_connection)
        .max_pending_accept_reset_streams(limits.resets)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(Duration::from_secs(10));
    http
}

/// Takes the next connection, once there is room for one. The kernel queues those who come too early.
async fn accept(listener: &TcpListener, connections: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "connection lost before it was served");
                    continue;
                }
                return (stream, permit);
            }
            Err(error) => {
                // Out of file descriptors, most likely: closing connections will free some.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Ready on SIGTERM or Ctrl-C.
async fn stop_signal() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}
