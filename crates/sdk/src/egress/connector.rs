//! Dials, for hyper's client, exactly the addresses that have been looked at.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::Egress;
use super::refused::ConnectError;
use super::target::Checked;
#[cfg(feature = "tls")]
use super::target::Host;

/// Opens connections by a policy: a `Service` from a `Uri` to a [`Stream`], as hyper's client wants it. It checks
/// the URL again, resolves, checks every address and dials. It does not follow redirects, and neither does
/// hyper's client.
///
/// ```
/// use chancery_sdk::egress::{Connector, Egress};
/// use hyper_util::client::legacy::Client;
/// use hyper_util::rt::TokioExecutor;
///
/// let connector: Connector = Egress::default().connector();
/// let client: Client<_, String> = Client::builder(TokioExecutor::new()).build(connector);
/// # drop(client);
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    egress: Egress,
}

/// A connection to come.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

/// A connection, with or without TLS.
#[derive(Debug)]
pub struct Stream {
    io: Io,
    remote: SocketAddr,
}

#[derive(Debug)]
enum Io {
    Plain(TokioIo<TcpStream>),
    #[cfg(feature = "tls")]
    Tls(Box<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>>),
}

/// How long an address has the field to itself before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

// === impl Connector ===

impl Connector {
    pub(super) fn new(egress: Egress) -> Self {
        Self { egress }
    }

    async fn dial(egress: &Egress, uri: &Uri) -> Result<Stream, ConnectError> {
        let target = egress.check_uri(uri)?;
        if target.is_https() && !cfg!(feature = "tls") {
            return Err(ConnectError::NoTls);
        }
        let addresses = egress.resolve(&target).await?;
        let (stream, remote) = first_to_connect(&addresses).await?;
        // Small requests must not wait for the acknowledgement of earlier ones.
        stream.set_nodelay(true).map_err(|source| ConnectError::Connect { address: remote, source })?;
        Ok(Stream { io: secure(egress, &target, stream).await?, remote })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let egress = self.egress.clone();
        Box::pin(async move {
            let limit = egress.0.connect_timeout;
            let dialled = tokio::time::timeout(limit, Self::dial(&egress, &uri)).await;
            dialled.unwrap_or(Err(ConnectError::Timeout(limit)))
        })
    }
}

/// The addresses one after the other, without waiting long for any.
async fn first_to_connect(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let attempts = (0..).zip(addresses).map(async |(turn, address)| {
        tokio::time::sleep(HEAD_START * turn).await;
        (TcpStream::connect(address).await, *address)
    });
    let mut attempts: FuturesUnordered<_> = attempts.collect();
    let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut last = ConnectError::Resolve(nothing);
    while let Some((outcome, address)) = attempts.next().await {
        match outcome {
            Ok(stream) => return Ok((stream, address)),
            Err(source) => last = ConnectError::Connect { address, source },
        }
    }
    Err(last)
}

#[cfg(feature = "tls")]
async fn secure(egress: &Egress, target: &Checked, stream: TcpStream) -> Result<Io, ConnectError> {
    if !target.is_https() {
        return Ok(Io::Plain(TokioIo::new(stream)));
    }
    let config = egress.0.trust.config().await?;
    let name = match &target.host {
        Host::Name(name) => rustls::pki_types::ServerName::try_from(name.to_string())
            .map_err(|error| ConnectError::Tls(io::Error::other(error)))?,
        Host::Address(address) => (*address).into(),
    };
    let connected = tokio_rustls::TlsConnector::from(config).connect(name, stream).await;
    Ok(Io::Tls(Box::new(TokioIo::new(connected.map_err(ConnectError::Tls)?))))
}

#[cfg(not(feature = "tls"))]
async fn secure(_: &Egress, _: &Checked, stream: TcpStream) -> Result<Io, ConnectError> {
    Ok(Io::Plain(TokioIo::new(stream)))
}

// === impl Stream ===

impl Stream {
    /// The address at the other end.
    pub fn remote_address(&self) -> SocketAddr {
        self.remote
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match &self.io {
            Io::Plain(_) => Connected::new(),
            #[cfg(feature = "tls")]
            Io::Tls(io) => {
                let (_, session) = io.inner().get_ref();
                let connected = Connected::new();
                if session.alpn_protocol() == Some(b"h2") { connected.negotiated_h2() } else { connected }
            }
        }
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_read(context, buffer),
            #[cfg(feature = "tls")]
            Io::Tls(io) => Pin::new(io).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_write(context, bytes),
            #[cfg(feature = "tls")]
            Io::Tls(io) => Pin::new(io).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_flush(context),
            #[cfg(feature = "tls")]
            Io::Tls(io) => Pin::new(io).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(context),
            #[cfg(feature = "tls")]
            Io::Tls(io) => Pin::new(io).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(io) => io.is_write_vectored(),
            #[cfg(feature = "tls")]
            Io::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_write_vectored(context, slices),
            #[cfg(feature = "tls")]
            Io::Tls(io) => Pin::new(io).poll_write_vectored(context, slices),
        }
    }
}
