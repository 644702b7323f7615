//! How much a server takes from anyone before it says no.

use std::time::Duration;

use tokio::sync::Semaphore;

/// The limits of a server. Each has a default; none can be switched off by accident: a server with a limit of
/// nothing, or of more than can be counted to, is not built.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// The largest request body.
    pub body_bytes: usize,
    /// How long a request's head may take to arrive; also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// The largest request head. HTTP/1.1 takes 8 KiB in any case.
    pub header_bytes: usize,
    /// The most headers in a request.
    pub headers: usize,
    /// The most connections at a time.
    pub connections: usize,
    /// The most connections at a time from one address, or from one /64 of the sixth version. Proxies that are trusted are exempt.
    pub connections_per_source: usize,
    /// The most open streams at a time.
    pub streams: usize,
    /// The most open streams at a time of one owner. Each address of anonymous callers is an owner here.
    pub streams_per_owner: usize,
    /// The most bytes of large answers that are not read yet. One answer may be larger.
    pub unread_bytes: usize,
    /// The same for one owner.
    pub unread_bytes_per_owner: usize,
    /// How long a client may take nothing while there is something to send to it.
    pub write_timeout: Duration,
    /// How many wrong credentials may come from one address in a minute. It is then refused for the rest of that minute, before
    /// what it shows is looked at.
    pub refused_credentials: usize,
    /// The most requests at a time on one HTTP/2 connection.
    pub requests_per_connection: u32,
    /// The most HTTP/2 streams that a client may reset before we have answered them.
    pub resets: usize,
    /// How often a quiet stream is reminded that it is alive.
    pub keep_alive: Duration,
    /// How long a shutdown waits for calls to finish; zero if it does not.
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
            connections_per_source: 1_024,
            streams: 8_192,
            streams_per_owner: 2_048,
            unread_bytes: 1 << 30,
            unread_bytes_per_owner: 256 << 20,
            write_timeout: Duration::from_secs(30),
            refused_credentials: 100,
            requests_per_connection: 256,
            resets: 32,
            keep_alive: Duration::from_secs(15),
            drain: Duration::from_secs(10),
        }
    }
}

/// A year. Clocks can be relied on to count that far, and nobody waits longer.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A body and a head are held in memory as a whole.
const MOST_BYTES: usize = 1 << 30;

/// What the parsers of heads have room for.
const MOST_HEADERS: usize = 10_000;

impl ServerLimits {
    /// Whatever cannot be kept to, in words for the one who set it.
    pub(super) fn problems(&self) -> Vec<String> {
        let durations = [
            ("header_timeout", self.header_timeout, true),
            ("body_timeout", self.body_timeout, true),
            ("write_timeout", self.write_timeout, true),
            ("keep_alive", self.keep_alive, true),
            ("drain", self.drain, false),
        ];
        let counts = [
            ("body_bytes", self.body_bytes, MOST_BYTES),
            ("header_bytes", self.header_bytes, MOST_BYTES),
            ("headers", self.headers, MOST_HEADERS),
            ("connections", self.connections, Semaphore::MAX_PERMITS),
            ("connections_per_source", self.connections_per_source, Semaphore::MAX_PERMITS),
            ("streams", self.streams, Semaphore::MAX_PERMITS),
            ("streams_per_owner", self.streams_per_owner, Semaphore::MAX_PERMITS),
            ("unread_bytes", self.unread_bytes, usize::MAX),
            ("unread_bytes_per_owner", self.unread_bytes_per_owner, usize::MAX),
            ("refused_credentials", self.refused_credentials, usize::MAX),
            ("requests_per_connection", self.requests_per_connection as usize, u32::MAX as usize),
            ("resets", self.resets, usize::MAX),
        ];
        let mut problems = Vec::new();
        for (name, duration, must_last) in durations {
            if must_last && duration.is_zero() {
                problems.push(format!("the limit `{name}` is zero"));
            } else if duration > LONGEST {
                problems.push(format!("the limit `{name}` is longer than a year"));
            }
        }
        for (name, count, most) in counts {
            if count == 0 {
                problems.push(format!("the limit `{name}` is zero"));
            } else if count > most {
                problems.push(format!("the limit `{name}` is more than {most}"));
            }
        }
        problems
    }
}
