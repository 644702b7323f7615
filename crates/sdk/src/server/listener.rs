//! Accepting connections, within limits, until told to stop; then letting calls finish.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::BoxFuture;
use futures_util::future::select_all;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
#[cfg(unix)]
use tokio::io::AsyncReadExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::framing::{Ambiguous, Watched};
use super::grpc::GrpcPort;
use super::limits::ServerLimits;
use super::proxies::Peer;
use super::service::Service;
use super::socket::{Accepted, Listener};
use crate::runtime::Runtime;

/// A site that listens.
#[derive(Debug)]
pub struct Server {
    pub(super) listener: Listener,
    /// For gRPC, where that has ports of its own.
    pub(super) grpc_ports: Vec<GrpcPort>,
    pub(super) service: Service,
    pub(super) url: String,
    pub(super) recovered: usize,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<super::tls::Tls>,
}

impl Server {
    /// The address that it listens on. A socket in the file system has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address that it listens on for gRPC, if that is another one.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc_ports.iter().find(|port| port.agent.is_none()).and_then(GrpcPort::address)
    }

    /// The address that it listens on for gRPC to one agent, if that has one.
    pub fn grpc_addr_of(&self, agent: &str) -> Option<SocketAddr> {
        self.grpc_ports.iter().find(|port| port.agent.as_deref() == Some(agent)).and_then(GrpcPort::address)
    }

    /// The URL that its cards name.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many tasks an earlier process had left unfinished. They have been ended.
    pub fn recovered(&self) -> usize {
        self.recovered
    }

    /// What it serves. Take it before [`run`](Self::run) to stop tasks from outside.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The runtime of an agent that it serves, by the agent's name. Take it before [`run`](Self::run) to
    /// [`resume`](Runtime::resume) tasks once their callers have authenticated elsewhere.
    pub fn runtime(&self, agent: &str) -> Option<Runtime> {
        self.service.runtime(agent)
    }

    /// Serves until SIGTERM or Ctrl-C, then drains.
    pub async fn run(self) {
        self.run_until(stop_signal()).await;
    }

    /// Serves until a future is ready, then drains: no new connections, open calls finish.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) {
        let limits = *self.service.limits();
        let connections = Arc::new(Semaphore::new(limits.connections));
        let http = Arc::new(Http::new(&limits));
        // Nothing is ever sent: it is closed when nobody is left who could.
        let (open, mut all_closed) = mpsc::channel(1);
        let stop_connections = Stop { stopping: CancellationToken::new(), open };
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.listener, &connections) => (accepted, None),
                accepted = accept_any(&self.grpc_ports, &connections) => accepted,
                () = &mut stop => break,
            };
            match accepted {
                ((Accepted::Tcp(stream), permit), agent) => {
                    self.spawn(stream, permit, agent, &http, &stop_connections);
                }
                #[cfg(unix)]
                ((Accepted::Unix(stream), permit), _) => {
                    self.spawn_unix(stream, permit, &http, &stop_connections);
                }
            }
        }
        drop((self.listener, self.grpc_ports));
        stop_connections.stopping.cancel();
        drop(stop_connections);
        self.service.stop();
        tracing::info!("no longer accepting connections; waiting for open calls");
        if tokio::time::timeout(limits.drain, all_closed.recv()).await.is_err() {
            tracing::warn!("some connections were still open after {:?} and are cut", limits.drain);
        }
        if let Some(deliverer) = self.service.deliverer() {
            deliverer.stop(limits.drain).await;
        }
    }

    fn spawn(
        &self,
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        agent: Option<Arc<str>>,
        http: &Arc<Http>,
        stop: &Stop,
    ) {
        let service = match stream.peer_addr() {
            Ok(peer) => self.service.for_connection(Peer::Address(peer.ip()), agent),
            Err(_) => self.service.for_connection(Peer::Unknown, agent),
        };
        let (http, stop) = (http.clone(), stop.clone());
        // A connection that has said nothing yet has nothing to finish.
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let handshake = tls.accept(stream);
            tokio::spawn(async move {
                match stop.stopping.run_until_cancelled(handshake).await {
                    Some(Ok(stream)) => {
                        let version = negotiated(&stream);
                        http.serve(version, stream, service, stop, permit).await;
                    }
                    Some(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
                    None => {}
                }
            });
            return;
        }
        tokio::spawn(async move {
            let spoken = tokio::time::timeout(http.header_timeout, spoken(&stream));
            let Some(Ok(Ok(version))) = stop.stopping.run_until_cancelled(spoken).await else { return };
            http.serve(version, stream, service, stop, permit).await;
        });
    }

    /// The same for a connection on this machine, which nobody can look into without taking what there is.
    #[cfg(unix)]
    fn spawn_unix(
        &self,
        mut stream: UnixStream,
        permit: OwnedSemaphorePermit,
        http: &Arc<Http>,
        stop: &Stop,
    ) {
        let service = self.service.for_connection(Peer::Socket, None);
        let (http, stop) = (http.clone(), stop.clone());
        tokio::spawn(async move {
            let beginning = tokio::time::timeout(http.header_timeout, beginning(&mut stream));
            let begun = stop.stopping.run_until_cancelled(beginning).await;
            let Some(Ok(Ok((version, taken)))) = begun else { return };
            let (read, write) = stream.into_split();
            let whole = tokio::io::join(std::io::Cursor::new(taken).chain(read), write);
            http.serve(version, whole, service, stop, permit).await;
        });
    }
}

/// What has every connection finish what it does, and tells when all have.
#[derive(Clone)]
struct Stop {
    stopping: CancellationToken,
    /// Kept until the connection is closed.
    open: mpsc::Sender<Infallible>,
}

/// How connections are served: HTTP/1.1 and HTTP/2 on one port, each within limits.
struct Http {
    one: http1::Builder,
    two: http2::Builder<TokioExecutor>,
    header_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

impl Http {
    fn new(limits: &ServerLimits) -> Self {
        let mut one = http1::Builder::new();
        one.timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(limits.header_bytes.max(8192));
        // hyper's own limit is 100, and it is cheaper if it is not told so.
        if limits.headers != 100 {
            one.max_headers(limits.headers);
        }
        let mut two = http2::Builder::new(TokioExecutor::new());
        two.timer(TokioTimer::new())
            .max_concurrent_streams(limits.requests_per_connection)
            .max_pending_accept_reset_streams(limits.resets)
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.header_timeout)
            .keep_alive_timeout(Duration::from_secs(10));
        Self { one, two, header_timeout: limits.header_timeout }
    }

    /// Serves a connection to its end. On the heap, since it would otherwise be copied where it is awaited.
    fn serve<S>(
        &self,
        version: Version,
        stream: S,
        service: Service,
        stop: Stop,
        permit: OwnedSemaphorePermit,
    ) -> BoxFuture<'static, ()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match version {
            Version::One => {
                let ambiguous = Ambiguous::default();
                let stream = TokioIo::new(Watched::new(stream, ambiguous.clone()));
                let service = service_fn(move |mut request: http::Request<_>| {
                    request.extensions_mut().insert(ambiguous.clone());
                    service.answer(request)
                });
                ended(self.one.serve_connection(stream, service), stop, permit)
            }
            Version::Two => {
                let service = service_fn(move |request| service.answer(request));
                ended(self.two.serve_connection(TokioIo::new(stream), service), stop, permit)
            }
        }
    }
}

/// A connection that breaks is the other side's business.
fn ended<C>(
    connection: C,
    Stop { stopping, open }: Stop,
    permit: OwnedSemaphorePermit,
) -> BoxFuture<'static, ()>
where
    C: GracefulConnection<Error = hyper::Error> + Send + 'static,
{
    let mut connection = Box::pin(connection);
    Box::pin(async move {
        let served = tokio::select! {
            biased;
            () = stopping.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            served = connection.as_mut() => served,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        }
        drop((open, permit));
    })
}

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Looks at the first bytes without taking them, and tells which version is spoken.
async fn spoken(stream: &TcpStream) -> io::Result<Version> {
    let mut first = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut first).await?;
        if length == 0 || !PREFACE.starts_with(&first[..length]) {
            return Ok(Version::One);
        }
        if length == PREFACE.len() {
            return Ok(Version::Two);
        }
        // Part of the preface; the rest is on its way.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Takes the first bytes, as many as tell which version is spoken.
#[cfg(unix)]
async fn beginning(stream: &mut UnixStream) -> io::Result<(Version, Vec<u8>)> {
    let mut taken = Vec::with_capacity(PREFACE.len());
    loop {
        let more = (&mut *stream).take((PREFACE.len() - taken.len()) as u64).read_buf(&mut taken).await?;
        if more == 0 || !PREFACE.starts_with(&taken) {
            return Ok((Version::One, taken));
        }
        if taken.len() == PREFACE.len() {
            return Ok((Version::Two, taken));
        }
    }
}

#[cfg(feature = "tls")]
fn negotiated(stream: &tokio_rustls::server::TlsStream<TcpStream>) -> Version {
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Version::Two,
        _ => Version::One,
    }
}

/// Takes the next connection, once there is room for one. The kernel queues those who come too early.
async fn accept(listener: &Listener, connections: &Arc<Semaphore>) -> (Accepted, OwnedSemaphorePermit) {
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { continue };
        match listener.accept().await {
            Ok(stream) => return (stream, permit),
            Err(error) => {
                // Out of file descriptors, most likely: closing connections will free some.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The same on any of several ports, with the agent that the port is for.
async fn accept_any(
    ports: &[GrpcPort],
    connections: &Arc<Semaphore>,
) -> ((Accepted, OwnedSemaphorePermit), Option<Arc<str>>) {
    if ports.is_empty() {
        return std::future::pending().await;
    }
    let accepting = ports.iter().map(|port| Box::pin(accept(&port.listener, connections)));
    let (accepted, place, _) = select_all(accepting).await;
    (accepted, ports[place].agent.clone())
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
