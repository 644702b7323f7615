//! The official Rust SDK, set up as its own hello-world example does: the default request
//! handler, its in-memory store, its JSON-RPC router, `axum::serve`.

mod executor;

use std::sync::Arc;

use a2a_server::{DefaultRequestHandler, InMemoryTaskStore};
use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::executor::Echo;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let handler = Arc::new(DefaultRequestHandler::new(Echo, InMemoryTaskStore::new()));
    let router = a2a_server::jsonrpc::jsonrpc_router(handler);
    let listener = TcpListener::bind(listen()?).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

/// The address after `--listen`. Other words are for servers that have more to set.
fn listen() -> anyhow::Result<String> {
    let mut words = std::env::args().skip_while(|word| word != "--listen").skip(1);
    words.next().context("usage: bench-official --listen ADDRESS")
}
