//! What every Rust program here shares: one JSON line a scenario, a receiver of notifications, and `expect_equal`.

mod webhook;

use std::fmt::Debug;
use std::future::Future;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

pub use webhook::{Notice, Webhook};

/// For how long a scenario may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What `send` sends, and must get back part by part.
pub const GREETING: &str = "tck-echo Grüße, 世界 🦀";

/// No server has a task of this id.
pub const UNKNOWN_TASK: &str = "00000000-0000-4000-8000-000000000000";

/// What a client is started with.
pub struct Arguments {
    /// The agent.
    pub url: String,
    /// As a card names it: `JSONRPC`, `HTTP+JSON` or `GRPC`.
    pub binding: String,
}

/// Bytes to send: each of them once.
pub fn file_bytes() -> Vec<u8> {
    (0..=255).collect()
}

/// Data to send.
pub fn data() -> Value {
    json!({"key": "välue", "count": 42, "nested": {"list": [1, 2.5, true, "x"]}})
}

/// Whether two values are the same, where `1` is `1.0`: gRPC knows no integers in JSON.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_both = |(key, value)| other.get(key).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(in_both)
        }
        _ => one == other,
    }
}

/// Reads `--url URL --binding BINDING`.
pub fn arguments() -> anyhow::Result<Arguments> {
    let words: Vec<_> = std::env::args().collect();
    let after = |flag: &str| {
        let found = words.iter().position(|word| word == flag).and_then(|index| words.get(index + 1));
        found.cloned().with_context(|| format!("{flag} is missing"))
    };
    Ok(Arguments { url: after("--url")?, binding: after("--binding")? })
}

/// Fails the scenario unless two things are equal.
pub fn expect_equal<T: PartialEq + Debug>(what: &str, actual: T, wanted: T) -> anyhow::Result<()> {
    if actual == wanted { Ok(()) } else { bail!("{what}: {actual:?}, not {wanted:?}") }
}

/// Runs a scenario and tells what came of it.
pub async fn run(scenario: &str, act: impl Future<Output = anyhow::Result<()>>) {
    match tokio::time::timeout(PATIENCE, act).await {
        Ok(Ok(())) => report(scenario, "ok", ""),
        Ok(Err(error)) => report(scenario, "failed", &format!("{error:#}")),
        Err(_) => report(scenario, "failed", &format!("nothing more came for {} s", PATIENCE.as_secs())),
    }
}

fn report(scenario: &str, outcome: &str, detail: &str) {
    say(&json!({"scenario": scenario, "outcome": outcome, "detail": detail}));
}

/// Says that a server is there, and waits until whoever started it closes its standard input.
pub async fn ready(url: &str) {
    say(&json!({ "url": url }));
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

fn say(line: &Value) {
    // Whoever does not listen any more does not miss it.
    let _ = writeln!(std::io::stdout(), "{line}");
}
