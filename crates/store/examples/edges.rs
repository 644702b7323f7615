//! What the record of a call costs, and how long it takes to rebuild a ledger from a million of them.
//!
//! `cargo run --release -p chancery-store --example edges -- [FOLDER] [EDGES]`
//!
//! For each store and number of callers: CPU of the whole process for a task that begins and ends in one batch, in
//! microseconds, without an edge and with one; the two take turns, and the middle of the rounds is given. Then it fills a
//! store with EDGES (1,000,000 if not said) of the last month and does what a start does. CPU is read from `/proc`, so
//! it is for Linux.

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    Amount, Artifact, ContextId, CostSource, Edge, HopId, Message, Part, Settled, Task,
    TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus, TaskStatusUpdateEvent, Timestamp,
};
use chancery_store::{Batch, EdgeQuery, MOST_EDGES, Realms, Retention, Scope, Store, StoreLimits};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long each spell takes, and how many there are of each kind.
const SPELL: Duration = Duration::from_millis(700);
const ROUNDS: usize = 7;
const MONTH_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let edges: usize = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    println!("{:<8} {:>7} {:>10} {:>10} {:>10}", "store", "callers", "without", "with", "extra");
    for kind in ["memory:", "sqlite:"] {
        for callers in [1, 16, 64] {
            compare(&folder, kind, callers).await?;
        }
    }
    fill_and_rebuild(&folder, edges).await
}

async fn compare(folder: &Path, kind: &str, callers: usize) -> Outcome<()> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(spell(folder, kind, callers, false).await?);
        with.push(spell(folder, kind, callers, true).await?);
    }
    let (without, with) = (middle(without), middle(with));
    let extra = with - without;
    println!("{kind:<8} {callers:>7} {without:>10.2} {with:>10.2} {extra:>10.2}");
    Ok(())
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Microseconds of CPU for a task.
async fn spell(folder: &Path, kind: &str, callers: usize, with_edge: bool) -> Outcome<f64> {
    let path = fresh(folder)?;
    let url = if kind == "memory:" { kind.to_owned() } else { format!("{kind}{}", path.display()) };
    let store = Arc::new(Store::open(&url, StoreLimits::for_url(&url))?);
    let (before, until) = (cpu()?, Instant::now() + SPELL);
    let work: Vec<_> = (0..callers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let scope = scope();
                let mut tasks = 0;
                while Instant::now() < until {
                    let id = TaskId::generate();
                    let mut batch = life(&id);
                    if with_edge {
                        batch.edge = Some(Box::new(edge(&scope, &id)));
                    }
                    store.append(&scope, &id, batch).await?;
                    tasks += 1;
                }
                Ok::<i32, chancery_store::StoreError>(tasks)
            })
        })
        .collect();
    let mut tasks = 0;
    for caller in work {
        tasks += caller.await??;
    }
    let spent = (cpu()? - before) / f64::from(tasks);
    drop(store);
    remove(&path)?;
    Ok(spent)
}

async fn fill_and_rebuild(folder: &Path, edges: usize) -> Outcome<()> {
    let path = fresh(folder)?;
    let url = format!("sqlite:{}", path.display());
    let store = Arc::new(Store::open(&url, limits())?);
    let now = Timestamp::now();
    let began = Instant::now();
    let fillers: Vec<_> = (0..64)
        .map(|filler| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in (filler..edges).step_by(64) {
                    store.put_edge(past_edge(n, edges, now)).await?;
                }
                Ok::<_, chancery_store::StoreError>(())
            })
        })
        .collect();
    for filler in fillers {
        filler.await??;
    }
    println!(
        "filled with {edges} edges of 30 days, 500 pairs of caller and agent, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    store.sweep(now).await;
    println!("swept in {:?}", began.elapsed());
    drop(store);
    println!("{} bytes an edge in the file", std::fs::metadata(&path)?.len() / edges as u64);
    let began = Instant::now();
    let store = Store::open(&url, limits())?;
    println!("opened in {:?}", began.elapsed());
    rebuild(&store, now).await?;
    drop(store);
    remove(&path)
}

async fn rebuild(store: &Store, now: Timestamp) -> Outcome<()> {
    let began = Instant::now();
    let (mut open, mut after) = (0, None);
    loop {
        let page = store.open_edges(&Realms::All, after, MOST_EDGES).await?;
        open += page.edges.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    println!("{open} open edges read after {:?}", began.elapsed());
    let (mut sums, mut after) = (0, None);
    let month = Timestamp::from_millis(now.as_millis() - MONTH_MS);
    loop {
        let page = store.spend(&Realms::All, month, after, MOST_EDGES).await?;
        sums += page.sums.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    println!("{sums} sums of the month read after {:?}", began.elapsed());
    let began = Instant::now();
    let hour = Timestamp::from_millis(now.as_millis() - 24 * 3_600_000);
    let roots = store.spend_by_root(&Realms::All, hour, 50).await?;
    println!("the {} dearest roots of a day: {:?}", roots.roots.len(), began.elapsed());
    let began = Instant::now();
    let root = roots.roots.first().ok_or("there is no root")?.root;
    let calls = store.spend_of_root(&Realms::All, root).await?.map_or(0, |spend| spend.calls);
    println!("one root with its {calls} calls: {:?}", began.elapsed());
    let began = Instant::now();
    let (mut looks, mut query) = (0, EdgeQuery { trace: Some("none".into()), ..EdgeQuery::of(Realms::All) });
    loop {
        let page = store.edges(&query).await?;
        looks += 1;
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    println!("a trace that is nowhere, in {looks} looks: {:?}", began.elapsed());
    Ok(())
}

/// One of many that are spread over the last month; every fifth begins a tree, every thousandth is not settled.
fn past_edge(n: usize, edges: usize, now: Timestamp) -> Edge {
    let fraction = i64::try_from(n).unwrap_or(0) * (MONTH_MS / 1_000) / i64::try_from(edges).unwrap_or(1);
    let millis = now.as_millis() - MONTH_MS + fraction * 1_000;
    let hop = |n: usize| {
        let mut bytes = [0x70; 16];
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[8..].copy_from_slice(&(n as u64).to_be_bytes());
        HopId::from_bytes(bytes)
    };
    let scope = Scope {
        realm: "realm".into(),
        owner: format!("caller-{}", n % 50).into(),
        agent: format!("agent-{}", n / 50 % 10).into(),
    };
    let mut edge = edge(&scope, &TaskId::generate());
    (edge.hop, edge.root, edge.opened) = (hop(n), hop(n - n % 5), Timestamp::from_millis(millis));
    if let Some(settled) = &mut edge.settled {
        settled.at = Timestamp::from_millis(millis + 40);
    }
    edge.settled = edge.settled.filter(|_| !n.is_multiple_of(1_000));
    edge
}

fn edge(scope: &Scope, task: &TaskId) -> Edge {
    let (hop, now) = (HopId::generate(), Timestamp::now());
    let charged = Amount { micro_usd: 1_234, tokens: 567, tasks: 1 };
    Edge {
        hop,
        root: hop,
        parent: None,
        depth: 0,
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        realm: scope.realm.clone(),
        caller: scope.owner.clone(),
        payer: None,
        groups: Vec::new(),
        used: chancery_protocol::Usage::default(),
        agent: scope.agent.clone(),
        skill: Some("rag.query".into()),
        peer: None,
        task: Some(task.clone()),
        opened: now,
        reserved: charged,
        limits: chancery_protocol::CallLimits::default(),
        origin: None,
        settled: Some(Settled {
            at: now,
            charged,
            overrun: Amount::default(),
            source: CostSource::Metered,
            state: Some(TaskState::Completed),
        }),
    }
}

/// A task that is created, answered and completed at once.
fn life(id: &TaskId) -> Batch {
    let context = ContextId::generate();
    let mut batch = Batch::default();
    batch.create(Task::submitted(id.clone(), context.clone(), Message::user("hello")));
    batch.artifact(TaskArtifactUpdateEvent {
        task_id: id.clone(),
        context_id: context.clone(),
        artifact: Artifact::new("result", vec![Part::text("hello")]),
        append: true,
        last_chunk: false,
        metadata: None,
    });
    let status = TaskStatus::now(TaskState::Completed, None);
    let update = TaskStatusUpdateEvent { task_id: id.clone(), context_id: context, status, metadata: None };
    batch.status(update, None);
    batch
}

fn limits() -> StoreLimits {
    let retention = Retention { max_edges: usize::MAX, ..Retention::default() };
    StoreLimits { retention, ..StoreLimits::default() }
}

fn scope() -> Scope {
    Scope { realm: "realm".into(), owner: "owner".into(), agent: "agent".into() }
}

fn fresh(folder: &Path) -> Outcome<PathBuf> {
    let path = folder.join(format!("edges-{}.db", std::process::id()));
    remove(&path)?;
    Ok(path)
}

fn remove(path: &Path) -> Outcome<()> {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Microseconds of CPU that the process has had so far.
fn cpu() -> Outcome<f64> {
    let mut nanos = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // One that has just ended has no more to say.
        let spent = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += spent.split(' ').next().unwrap_or_default().parse::<f64>().unwrap_or_default();
    }
    Ok(nanos / 1_000.0)
}
