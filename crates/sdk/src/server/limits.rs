//! How much a server takes from anyone before it says no.

use std::time::Duration;

/// The limits of a server. Each has a default; none can be switched off by accident.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// The largest request body.
    pub body_bytes: usize,
    /// How long a request's head may take to arrive; also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// The largest request head.
    pub header_bytes: usize,
    /// The most headers in a request.
    pub headers: usize,
    /// The most connections at a time.
    pub connections: usize,
    /// The most open streams at a time.
    pub streams: usize,
    /// The most requests at a time on one HTTP/2 connection.
    pub requests_per_connection: u32,
    /// The most HTTP/2 streams that a client may reset before we have answered them.
    pub resets: usize,
    /// How often a quiet stream is reminded that it is alive.
    pub keep_alive: Duration,
    /// How long a shutdown waits for calls to finish.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            header_bytes: 16 << 10,
            headers: 100,
            connections: 8_192,
            streams: 8_192,
            requests_per_connection: 256,
            resets: 32,
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(10),
        }
    }
}
