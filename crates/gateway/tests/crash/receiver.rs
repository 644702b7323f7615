//! Receivers of push notifications, each with manners of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes everything at once.
    Prompt,
    /// Takes everything, after a while.
    Slow,
    /// Is overloaded at first.
    Recovers,
    /// Wants nothing: each event is given up.
    Gone,
    /// Nobody listens, until somebody does.
    Dead,
}

pub(crate) struct Receiver {
    pub(crate) manner: Manner,
    address: SocketAddr,
    kept: Arc<Kept>,
    /// The port, as long as nobody listens there.
    socket: Option<TcpSocket>,
    serving: JoinSet<()>,
}

/// What has come.
#[derive(Debug, Default)]
struct Kept {
    /// By path, in order.
    bodies: Mutex<HashMap<String, Vec<Bytes>>>,
    /// How many have been turned away.
    refused: AtomicUsize,
}

/// How long a slow one takes.
const SLOW: Duration = Duration::from_secs(2);
/// How many an overloaded one turns away.
const REFUSALS: usize = 6;

// === impl Manner ===

impl Manner {
    /// Half of all are prompt.
    pub(crate) fn by(number: usize) -> Self {
        match number % 8 {
            4 => Self::Slow,
            5 => Self::Recovers,
            6 => Self::Gone,
            7 => Self::Dead,
            _ => Self::Prompt,
        }
    }
}

// === impl Receiver ===

impl Receiver {
    pub(crate) fn new(manner: Manner) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let mut receiver =
            Self { manner, address, kept: Arc::default(), socket: Some(socket), serving: JoinSet::new() };
        if manner != Manner::Dead {
            receiver.listen();
        }
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Takes connections from now on.
    pub(crate) fn listen(&mut self) {
        let listener = self.socket.take().expect("it does not listen yet").listen(1_024).unwrap();
        self.serving.spawn(serve(listener, self.manner, self.kept.clone()));
    }

    /// All that has come to a path.
    pub(crate) fn bodies(&self, path: &str) -> Vec<Bytes> {
        self.kept.bodies.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// How much has come to all paths.
    pub(crate) fn count(&self) -> usize {
        self.kept.bodies.lock().unwrap().values().map(Vec::len).sum()
    }
}

async fn serve(listener: TcpListener, manner: Manner, kept: Arc<Kept>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let kept = kept.clone();
        let service = service_fn(move |request| answer(request, manner, kept.clone()));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move { connection.await.ok() });
    }
}

async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    kept: Arc<Kept>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let overloaded = manner == Manner::Recovers && kept.refused.fetch_add(1, Ordering::Relaxed) < REFUSALS;
    let status = match manner {
        _ if overloaded => 503,
        Manner::Gone => 410,
        _ => 204,
    };
    if !overloaded {
        kept.bodies.lock().unwrap().entry(path).or_default().push(body);
    }
    if manner == Manner::Slow {
        tokio::time::sleep(SLOW).await;
    }
    Ok(Response::builder().status(status).body(Empty::new()).unwrap())
}
