//! A server that is killed again and again while many callers stream: nothing that anybody saw is lost.
//!
//! A few kills by default. `CHANCERY_CRASH_KILLS=50 CHANCERY_CRASH_STREAMS=1000` is the full version.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::load::{self, Witness};
use crate::server::Home;
use crate::verify;
use crate::wire::Call;

/// How many tasks are checked at a time.
const CHECKS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_anybody_saw_outlives_every_kill() {
    let kills = setting("CHANCERY_CRASH_KILLS", 3);
    let streams = setting("CHANCERY_CRASH_STREAMS", 100);
    let home = Home::new(&[]);
    let mut server = home.start();
    let mut sum = Sum::default();
    for round in 0..kills {
        let begun = Instant::now();
        let progress = Arc::new(AtomicUsize::new(0));
        let callers = load::begin(server.address, round, streams, &progress);
        // From the first answer to well into the streams.
        let moment = 1 + random() % (streams * 8);
        while progress.load(Ordering::Relaxed) < moment {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        let witnesses = callers.join_all().await;
        server = home.start();
        let restarted = begun.elapsed();
        sum.add(&witnesses);
        sum.read_back += check_all(server.address, witnesses).await;
        report(&format!(
            "kill {round} after {moment} events: up at {restarted:?}, checked at {:?}",
            begun.elapsed()
        ));
    }
    let tasks = total(server.address, "stream").await + total(server.address, "ask").await;
    assert_eq!(home.check(), tasks, "the store has what the lists have");
    home.is_calm();
    report(&format!("{sum:?}, {tasks} tasks"));
    assert!(sum.seen > 0 && sum.cut > 0, "too little happened to tell: {sum:?}");
}

/// What the callers of all rounds saw.
#[derive(Debug, Default)]
struct Sum {
    /// Events and answers before a kill.
    seen: usize,
    /// Calls that a kill cut off.
    cut: usize,
    /// Events that were read back after a kill.
    read_back: usize,
}

impl Sum {
    fn add(&mut self, witnesses: &[Witness]) {
        for witness in witnesses {
            self.seen += witness.frames.len() + usize::from(witness.told.is_some());
            self.cut += usize::from(!witness.ended && witness.told.is_none());
        }
    }
}

/// Checks everybody's task. Gives the number of events that were read back.
pub(crate) async fn check_all(address: SocketAddr, witnesses: Vec<Witness>) -> usize {
    let room = Arc::new(Semaphore::new(CHECKS));
    let mut checks = JoinSet::new();
    for witness in witnesses {
        let room = room.clone();
        checks.spawn(async move {
            let _held = room.acquire().await.unwrap();
            verify::check(address, &witness, random()).await
        });
    }
    checks.join_all().await.into_iter().sum()
}

async fn total(address: SocketAddr, agent: &str) -> u64 {
    let page = Call::list(agent, &json!({"pageSize": 1})).result(address).await.unwrap();
    page["totalSize"].as_u64().unwrap()
}

/// A number from the environment.
pub(crate) fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Every state of the standard library's hasher has keys of its own, which is as much chance as this needs.
fn random() -> usize {
    usize::try_from(RandomState::new().hash_one(0) >> 33).unwrap()
}

/// Says how a long run goes. A short one says nothing.
pub(crate) fn report(text: &str) {
    if std::env::var_os("CHANCERY_CRASH_KILLS").is_some() {
        let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
    }
}
