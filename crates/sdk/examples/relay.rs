//! Serves an agent that runs elsewhere, by every binding that is served here. Its tasks are kept in a file.
//!
//! ```console
//! $ cargo run --release -p chancery -- demo --listen 127.0.0.1:8081
//! $ cargo run --release -p chancery-sdk --example relay -- 127.0.0.1:8080 http://127.0.0.1:8081/agents/stream
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program, and says what it does")]

use std::process::ExitCode;
use std::sync::Arc;

use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{Relay, Server};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [address, upstream, store @ ..] = &arguments[..] else {
        eprintln!("usage: relay ADDRESS URL [STORE]\n\nSTORE is `sqlite:relay.db` unless said otherwise");
        return ExitCode::from(2);
    };
    let store = store.first().map_or("sqlite:relay.db", String::as_str);
    match run(address, upstream, store).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(address: &str, upstream: &str, store: &str) -> Result<(), Box<dyn std::error::Error>> {
    let relay = Relay::connect(upstream).await?;
    let store = Arc::new(Store::open(store, StoreLimits::for_url(store))?);
    let server = Server::builder().store(store).relay_at("", relay).bind(address).await?;
    println!("{} relays to {upstream}", server.url());
    server.run().await;
    Ok(())
}
