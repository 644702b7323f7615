//! How connections to a peer are made: where the user said, freely; where a card says, within the rules.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_protocol::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::origin::Origin;
use super::settings::Settings;

/// Makes the connections of one client.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    timeout: Duration,
    named: Origin,
}

/// An address that nobody allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Forbidden(String);

impl Connector {
    pub(crate) fn new(settings: &Settings, named: Origin) -> Self {
        Self { timeout: settings.connect_timeout, named }
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (limit, named) = (self.timeout, self.named.clone());
        Box::pin(async move {
            let origin = Origin::of(&uri).map_err(io::Error::other)?;
            if !named.is_same(&origin) {
                let why = format!("it is elsewhere than {named}");
                return Err(io::Error::other(Forbidden(why)));
            }
            if origin.is_https {
                return Err(io::Error::other("TLS is not built in"));
            }
            let connecting = TcpStream::connect((origin.host.as_str(), origin.port));
            let stream = timeout(limit, connecting).await.map_err(|_| io::ErrorKind::TimedOut)??;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
