//! Calls SendMessage many times, one way or another, and says what that cost this process.
//!
//! `raw` posts the bytes and reads those that come back; `raw+parse` makes JSON of them as well;
//! `chancery` is the SDK's client as its documentation shows it. All on one thread, over keep-alive connections.

mod raw;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chancery_sdk::Client;
use chancery_sdk::protocol::ProtocolBinding;
use nix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use crate::raw::Raw;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench-client raw|raw+parse|chancery URL CALLERS CALLS";
const TEXT: &str = include_str!("../../message.txt");
/// The share of the calls that is made before the clock starts.
const WARM_UP: usize = 10;

/// One way to call.
#[derive(Clone)]
enum Way {
    Raw(Box<Raw>),
    Chancery(Client),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, url, callers, calls] = words.as_slice() else { bail!("{USAGE}") };
    let (callers, calls): (usize, usize) = (callers.parse().context(USAGE)?, calls.parse().context(USAGE)?);
    ensure!(callers > 0 && calls >= callers, "{USAGE}");
    let way = Way::parse(way, url).await?;
    make(&way, callers, calls / WARM_UP).await?;
    let before = cpu()?;
    make(&way, callers, calls).await?;
    println!("{}", (cpu()? - before).as_nanos() / calls as u128);
    Ok(())
}

/// Makes `calls` in all.
async fn make(way: &Way, callers: usize, calls: usize) -> anyhow::Result<()> {
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let (way, share) = (way.clone(), calls / callers + usize::from(caller < calls % callers));
        running.spawn(async move {
            for number in 0..share {
                way.call(number).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

/// CPU time of this process so far, user and system.
fn cpu() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?))
}

// === impl Way ===

impl Way {
    async fn parse(name: &str, url: &str) -> anyhow::Result<Self> {
        Ok(match name {
            "raw" => Self::Raw(Box::new(Raw::new(url, false)?)),
            "raw+parse" => Self::Raw(Box::new(Raw::new(url, true)?)),
            "chancery" => {
                Self::Chancery(Client::builder().prefer([ProtocolBinding::JsonRpc]).connect(url).await?)
            }
            _ => bail!("{USAGE}"),
        })
    }

    async fn call(&self, number: usize) -> anyhow::Result<()> {
        match self {
            Self::Raw(raw) => raw.call(number).await,
            Self::Chancery(client) => {
                let sent = client.send(TEXT).await?;
                ensure!(sent.task().is_some(), "answered without a task");
                Ok(())
            }
        }
    }
}
