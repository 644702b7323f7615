//! Our relay, set up as its documentation shows and as the gateway is: an agent elsewhere, a server, a store.

use std::sync::Arc;

use anyhow::Context as _;
use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{Relay, Server};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench-relay --listen ADDRESS --upstream ADDRESS [--store URL]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);
    let upstream = value("--upstream").context(USAGE)?;
    let store = value("--store").map_or("memory:", String::as_str);
    let store = Arc::new(Store::open(store, StoreLimits::for_url(store))?);
    let relay = Relay::connect(format!("http://{upstream}")).await?;
    let server = Server::builder().relay_at("", relay).store(store);
    let server = server.bind(value("--listen").context(USAGE)?).await?;
    server.run().await;
    Ok(())
}
