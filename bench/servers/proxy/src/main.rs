//! `proxy`: what it costs to pass the bytes of a call on, and those of its answer back.
//!
//! A relay does this too, and then something with them; so this is the denominator of its ratios. hyper on both
//! sides, connections kept alive on both, bodies streamed as they come, no header but `Host` touched.

use std::net::SocketAddr;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench-proxy --listen ADDRESS --upstream ADDRESS";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1).context(USAGE);
    let upstream: SocketAddr = value("--upstream")?.parse()?;
    let listener = TcpListener::bind(value("--listen")?).await?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let client = client.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| pass_on(&client, upstream, request));
            // A connection that ends badly is the load generator's to report.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn pass_on(
    client: &Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = format!("http://{upstream}{path}").parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    if let Ok(host) = HeaderValue::try_from(upstream.to_string()) {
        request.headers_mut().insert(HOST, host);
    }
    client.request(request).await
}
