//! The load: connections that call as fast as they are answered, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::machine::Moment;
use crate::process::Server;
use crate::request::Request;
use crate::response::Connection;

/// Load before the clock starts: connections open, caches and allocators settle.
const WARM_UP: Duration = Duration::from_millis(300);
/// A window in which more of the machine than this went to its host's others, or to other processes on it, is followed by another,
/// which counts in its place; so many times.
pub(crate) const MOST_LOST: [f64; 2] = [0.02, 0.05];
const MOST_WINDOWS: usize = 3;

/// What one timed window saw.
pub(crate) struct Timed {
    /// Replies, or events of streams.
    pub(crate) done: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of the server alone.
    pub(crate) cpu: Duration,
    /// Of each call; for a stream, until its first event. Sorted.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) streams: u64,
    /// Streams that ended before their task did.
    pub(crate) cut: u64,
    /// The share of the machine that others had meanwhile, of 1.
    pub(crate) lost: f64,
}

/// What the connections share; relaxed atomics, as all run on one thread.
#[derive(Default)]
struct Shared {
    done: AtomicU64,
    streams: AtomicU64,
    cut: AtomicU64,
    number: AtomicU64,
    /// The window that is being timed, counted from 1; 0 before the first.
    window: AtomicUsize,
    stop: AtomicBool,
}

/// What one connection has seen of a window.
struct Latencies {
    of: usize,
    all: Vec<Duration>,
}

// === impl Latencies ===

impl Latencies {
    /// Those of an earlier window do not count any more.
    fn push(&mut self, shared: &Shared, latency: Option<Duration>) {
        let window = shared.window.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.of, window) != window {
            self.all.clear();
        }
        self.all.extend(latency.filter(|_| window > 0));
    }
}

// === impl Timed ===

impl Timed {
    pub(crate) fn per_second(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn cpu_micros_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.done.max(1) as f64
    }

    /// The latency that `share` of the calls stayed under, in milliseconds.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let at = ((self.latencies.len() as f64 * share) as usize).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }

    pub(crate) fn cut_percent(&self) -> f64 {
        self.cut as f64 * 100.0 / self.streams.max(1) as f64
    }
}

/// Unary calls on one connection for each of `requests`, for as long as `window`: as fast as they
/// are answered, or at a fixed rate over all connections.
pub(crate) async fn calls(
    server: &Server,
    requests: Vec<Request>,
    per_second: Option<u32>,
    window: Duration,
) -> anyhow::Result<Timed> {
    let shared = Arc::new(Shared::default());
    let mut connections = JoinSet::new();
    let (started, width) = (tokio::time::Instant::now(), requests.len() as u32);
    let pause = per_second.map(|rate| Duration::from_secs(1) * width / rate);
    for (at, request) in (0..).zip(requests) {
        let connection = Connection::open(server.address).await?;
        // Connections take turns, rather than all calling at once.
        let ticks = pause.map(|pause| {
            let mut ticks = tokio::time::interval_at(started + pause * at / width, pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        connections.spawn(call_until_stop(connection, request, ticks, Arc::clone(&shared)));
    }
    time(server, &shared, window, connections).await
}

/// Streams on `width` connections, one after the other on each, for as long as `window`.
pub(crate) async fn streams(
    server: &Server,
    width: usize,
    request: &Request,
    window: Duration,
) -> anyhow::Result<Timed> {
    let shared = Arc::new(Shared::default());
    let mut connections = JoinSet::new();
    for _ in 0..width {
        let connection = Connection::open(server.address).await?;
        connections.spawn(stream_until_stop(connection, request.clone(), Arc::clone(&shared)));
    }
    time(server, &shared, window, connections).await
}

/// Exactly `total` SendMessage calls over `width` connections.
pub(crate) async fn count(server: &Server, width: usize, total: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(total));
    let mut connections = JoinSet::new();
    for _ in 0..width {
        let mut connection = Connection::open(server.address).await?;
        let (mut request, left) = (Request::send_message(server.address), Arc::clone(&left));
        connections.spawn(async move {
            while let Ok(before) =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            {
                connection.call(request.numbered(before)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = connections.join_next().await {
        ended??;
    }
    Ok(())
}

async fn time(
    server: &Server,
    shared: &Shared,
    window: Duration,
    mut connections: JoinSet<anyhow::Result<Vec<Duration>>>,
) -> anyhow::Result<Timed> {
    tokio::time::sleep(WARM_UP).await;
    let mut number = 1;
    let timed = loop {
        let before = Moment::now();
        shared.window.store(number, Ordering::Relaxed);
        let timed = one_window(server, shared, window).await?;
        let lost = before.zip(Moment::now()).map_or([0.0; 2], |(before, after)| after.lost_since(before));
        if lost.iter().zip(MOST_LOST).all(|(lost, most)| *lost <= most) || number == MOST_WINDOWS {
            break Timed { lost: lost.iter().sum(), ..timed };
        }
        number += 1;
    };
    shared.stop.store(true, Ordering::Relaxed);

    let mut latencies = Vec::new();
    while let Some(ended) = connections.join_next().await {
        latencies.extend(ended?.with_context(|| format!("load on {}", server.name))?);
    }
    latencies.sort_unstable();
    Ok(Timed { latencies, ..timed })
}

async fn one_window(server: &Server, shared: &Shared, window: Duration) -> anyhow::Result<Timed> {
    let (started, cpu, done) = (Instant::now(), server.cpu()?, shared.done.load(Ordering::Relaxed));
    tokio::time::sleep(window).await;
    Ok(Timed {
        done: shared.done.load(Ordering::Relaxed) - done,
        cpu: server.cpu()? - cpu,
        elapsed: started.elapsed(),
        latencies: Vec::new(),
        lost: 0.0,
        streams: shared.streams.load(Ordering::Relaxed),
        cut: shared.cut.load(Ordering::Relaxed),
    })
}

async fn call_until_stop(
    mut connection: Connection,
    mut request: Request,
    mut ticks: Option<Interval>,
    shared: Arc<Shared>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Latencies { of: 0, all: Vec::with_capacity(64 * 1024) };
    while !shared.stop.load(Ordering::Relaxed) {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let number = shared.number.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        connection.call(request.numbered(number)).await?;
        latencies.push(&shared, Some(asked.elapsed()));
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(latencies.all)
}

async fn stream_until_stop(
    mut connection: Connection,
    mut request: Request,
    shared: Arc<Shared>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Latencies { of: 0, all: Vec::new() };
    while !shared.stop.load(Ordering::Relaxed) {
        let number = shared.number.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        let mut first = None;
        let heard = |events| {
            first.get_or_insert_with(|| asked.elapsed());
            shared.done.fetch_add(events, Ordering::Relaxed);
        };
        let end = connection.stream(request.numbered(number), heard).await?;
        latencies.push(&shared, first);
        shared.streams.fetch_add(1, Ordering::Relaxed);
        shared.cut.fetch_add(u64::from(!end.complete), Ordering::Relaxed);
    }
    Ok(latencies.all)
}
