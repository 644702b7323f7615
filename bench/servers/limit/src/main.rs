//! `limit`: what the same calls cost with nothing but an HTTP library and typed JSON.
//!
//! It is the denominator of every ratio, so it does the work that no server can
//! avoid and nothing else: hyper, one parse into borrowed structs, one
//! serialisation of a typed Task. `--store` adds the one thing a real server
//! needs on top, a map to keep the tasks in (`limit+store`).

mod clock;
mod reply;
mod service;
mod store;
mod stream;
mod wire;

use std::sync::Arc;

use anyhow::Context as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::service::Keep;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Arguments {
    listen: String,
    store: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse()?;
    let keep = if arguments.store { Keep::Maps(Arc::default()) } else { Keep::Nothing };
    let listener = TcpListener::bind(&arguments.listen).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let keep = keep.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| service::answer(keep.clone(), request));
            // A connection that ends badly is the load generator's to report.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

// === impl Arguments ===

impl Arguments {
    fn parse() -> anyhow::Result<Self> {
        let mut parsed = Self { listen: "127.0.0.1:8080".to_owned(), store: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--listen" => parsed.listen = words.next().context("--listen needs an address")?,
                "--store" => parsed.store = true,
                "--unbounded" => {} // it never forgets anyway
                other => anyhow::bail!("unknown argument: {other}"),
            }
        }
        Ok(parsed)
    }
}
