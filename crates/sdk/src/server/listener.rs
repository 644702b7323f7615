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
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionSlot, ConnectionSlots};
use super::framing::{Ambiguous, Watched};
use super::grpc::GrpcPort;
use super::limits::ServerLimits;
use super::open_answers::OpenAnswers;
use super::proxies::Peer;
use super::service::Service;
use super::socket::{Accepted, Listener};
use super::write_timeout::WriteTimeout;
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
        let connections = self.service.connection_slots();
        let http = Arc::new(Http::new(&limits));
        // Nothing is ever sent: it is closed when nobody is left who could.
        let (open, mut all_closed) = mpsc::channel(1);
        let stop_connections = Stop { stopping: CancellationToken::new(), open };
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.listener, &connections, &self.service) => (accepted, None),
                accepted = accept_any(&self.grpc_ports, &connections, &self.service) => accepted,
                () = &mut stop => break,
            };
            match accepted {
                ((Accepted::Tcp(stream, peer), slot), agent) => {
                    let service = self.service.for_connection(Peer::Address(peer), agent);
                    self.spawn(stream, slot, service, &http, &stop_connections);
                }
                #[cfg(unix)]
                ((Accepted::Unix(stream), slot), _) => {
                    self.spawn_unix(stream, slot, &http, &stop_connections);
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
        slot: ConnectionSlot,
        service: Service,
        http: &Arc<Http>,
        stop: &Stop,
    ) {
        let (http, stop) = (http.clone(), stop.clone());
        // A connection that has said nothing yet has nothing to finish.
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let handshake = tls.accept(WriteTimeout::new(stream, http.limits.write_timeout));
            tokio::spawn(async move {
                match stop.stopping.run_until_cancelled(handshake).await {
                    Some(Ok(stream)) => {
                        let version = negotiated(&stream);
                        http.serve(version, stream, service, stop, slot).await;
                    }
                    Some(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
                    None => {}
                }
            });
            return;
        }
        tokio::spawn(async move {
            let spoken = tokio::time::timeout(http.limits.header_timeout, spoken(&stream));
            match stop.stopping.run_until_cancelled(spoken).await {
                Some(Ok(Ok(Some(version)))) => {
                    let stream = WriteTimeout::new(stream, http.limits.write_timeout);
                    http.serve(version, stream, service, stop, slot).await;
                }
                Some(Ok(Ok(None))) => {
                    let (read, write) = stream.into_split();
                    http.serve_from_the_beginning(read, write, service, stop, slot).await;
                }
                _ => {}
            }
        });
    }

    /// The same for a connection on this machine, which nobody can look into without taking what there is.
    #[cfg(unix)]
    fn spawn_unix(&self, stream: UnixStream, slot: ConnectionSlot, http: &Arc<Http>, stop: &Stop) {
        let service = self.service.for_connection(Peer::Socket, None);
        let (http, stop) = (http.clone(), stop.clone());
        tokio::spawn(async move {
            let (read, write) = stream.into_split();
            http.serve_from_the_beginning(read, write, service, stop, slot).await;
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
    limits: ServerLimits,
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
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(limits.header_timeout)
            .keep_alive_timeout(Duration::from_secs(10));
        Self { one, two, limits: *limits }
    }

    /// Serves a connection to its end. On the heap, since it would otherwise be copied where it is awaited.
    fn serve<S>(
        &self,
        version: Version,
        stream: S,
        service: Service,
        stop: Stop,
        slot: ConnectionSlot,
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
                ended(self.one.serve_connection(stream, service), None, stop, slot)
            }
            Version::Two => {
                let answers = OpenAnswers::new();
                let watch = Watch { answers: answers.clone(), limits: self.limits };
                let service = service_fn(move |request| {
                    let (answer, answered) = (answers.open(), service.answer(request));
                    async move { answered.await.map(|response| response.map(|body| answer.watch(body))) }
                });
                let connection = self.two.serve_connection(TokioIo::new(stream), service);
                ended(connection, Some(watch), stop, slot)
            }
        }
    }

    /// Finds out which version is spoken by taking the first bytes, then serves the connection.
    async fn serve_from_the_beginning<R, W>(
        &self,
        mut read: R,
        write: W,
        service: Service,
        stop: Stop,
        slot: ConnectionSlot,
    ) where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let beginning = tokio::time::timeout(self.limits.header_timeout, beginning(&mut read));
        let begun = stop.stopping.run_until_cancelled(beginning).await;
        let Some(Ok(Ok((version, taken)))) = begun else { return };
        let whole = tokio::io::join(std::io::Cursor::new(taken).chain(read), write);
        let whole = WriteTimeout::new(whole, self.limits.write_timeout);
        self.serve(version, whole, service, stop, slot).await;
    }
}

/// What is looked after on an HTTP/2 connection.
struct Watch {
    answers: Arc<OpenAnswers>,
    limits: ServerLimits,
}

/// What is wrong with an HTTP/2 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// An answer is not taken.
    Stuck,
    /// Nothing is asked.
    Idle,
}

impl Watch {
    /// Waits until something is wrong.
    async fn wrong(&self, is_leaving: bool) -> Wrong {
        let (write, idle) = (self.limits.write_timeout, self.limits.header_timeout);
        let every = (write.min(idle) / 4).max(SHORTEST_LOOK);
        loop {
            tokio::time::sleep(every).await;
            if self.answers.is_stuck(write) {
                return Wrong::Stuck;
            }
            if !is_leaving && self.answers.is_idle(idle) {
                return Wrong::Idle;
            }
        }
    }
}

/// A connection that breaks is the other side's business.
fn ended<C>(
    connection: C,
    watch: Option<Watch>,
    Stop { stopping, open }: Stop,
    slot: ConnectionSlot,
) -> BoxFuture<'static, ()>
where
    C: GracefulConnection<Error = hyper::Error> + Send + 'static,
{
    let mut connection = Box::pin(connection);
    Box::pin(async move {
        let mut is_leaving = false;
        let served = loop {
            let wrong = async {
                match &watch {
                    Some(watch) => watch.wrong(is_leaving).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stopping.cancelled(), if !is_leaving => {}
                served = connection.as_mut() => break served,
                wrong = wrong => if wrong == Wrong::Stuck {
                    tracing::debug!("connection closed: an answer on it was not taken for too long");
                    break Ok(());
                },
            }
            is_leaving = true;
            connection.as_mut().graceful_shutdown();
        };
        if let Err(error) = served {
            tracing::debug!(%error, "connection ended");
        }
        drop((connection, open, slot));
    })
}

/// How much of an answer waits on an HTTP/2 connection to be sent.
const SEND_BUFFER: usize = 64 << 10;

/// HTTP/2 connections are not looked at more often.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Looks at the first bytes without taking them, and tells which version is spoken, if they are enough to tell.
async fn spoken(stream: &TcpStream) -> io::Result<Option<Version>> {
    let mut first = [0; PREFACE.len()];
    let length = stream.peek(&mut first).await?;
    Ok(match length {
        0 => Some(Version::One),
        length if !PREFACE.starts_with(&first[..length]) => Some(Version::One),
        length => (length == PREFACE.len()).then_some(Version::Two),
    })
}

/// Takes the first bytes, as many as tell which version is spoken.
async fn beginning(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Version, Vec<u8>)> {
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
fn negotiated<S>(stream: &tokio_rustls::server::TlsStream<S>) -> Version {
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Version::Two,
        _ => Version::One,
    }
}

/// Takes the next connection, once there is room for one. The kernel queues those who come too early. One whose source has too many
/// is closed.
async fn accept(
    listener: &Listener,
    connections: &Arc<ConnectionSlots>,
    service: &Service,
) -> (Accepted, ConnectionSlot) {
    loop {
        let room = connections.room().await;
        match listener.accept().await {
            Ok(accepted) => {
                let source = match &accepted {
                    Accepted::Tcp(_, peer) if !service.is_proxy(*peer) => Some(*peer),
                    _ => None,
                };
                if let Some(slot) = connections.place(room, source) {
                    return (accepted, slot);
                }
            }
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
    connections: &Arc<ConnectionSlots>,
    service: &Service,
) -> ((Accepted, ConnectionSlot), Option<Arc<str>>) {
    if ports.is_empty() {
        return std::future::pending().await;
    }
    let accepting = ports.iter().map(|port| Box::pin(accept(&port.listener, connections, service)));
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
