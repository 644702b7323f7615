//! What a commit costs the SQLite store, and how long it takes to open with many tasks.
//!
//! `cargo run --release -p chancery-store --example append -- [FOLDER] [TASKS]`
//!
//! For each durability, kind of batch and number of callers: commits a second, CPU of the writer and of the
//! whole process for each commit, in microseconds. Then it fills a store with TASKS (1,000,000 if not said) and
//! opens it again. CPU is read from `/proc`, so it is for Linux.

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_protocol::{
    Artifact, ContextId, Message, Part, Task, TaskArtifactUpdateEvent, TaskId, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use chancery_store::{Batch, ListQuery, Retention, Scope, Store, StoreLimits};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long each row of the table takes.
const SPELL: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let tasks: usize = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    println!(
        "{:<8} {:<12} {:>7} {:>10} {:>10} {:>10}",
        "power", "batch", "callers", "commits/s", "writer", "all"
    );
    for durability in ["process", "power"] {
        for kind in [Kind::WholeLife, Kind::OneEvent] {
            for callers in [1, 16, 64] {
                measure(&folder, durability, kind, callers).await?;
            }
        }
    }
    fill_and_open(&folder, tasks).await
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    WholeLife,
    OneEvent,
}

async fn measure(folder: &Path, durability: &str, kind: Kind, callers: usize) -> Outcome<()> {
    let path = fresh(folder)?;
    let url = format!("sqlite:{}?durability={durability}", path.display());
    let store = Arc::new(Store::open(&url, limits())?);
    let before = (cpu("store-writer")?, cpu("")?);
    let began = Instant::now();
    let work: Vec<_> = (0..callers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                match kind {
                    Kind::WholeLife => whole_lives(&store, began + SPELL).await,
                    Kind::OneEvent => events(&store, began + SPELL).await,
                }
            })
        })
        .collect();
    let mut commits = 0;
    for caller in work {
        commits += caller.await??;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let count = f64::from(commits);
    let writer = (cpu("store-writer")? - before.0) / count;
    let all = (cpu("")? - before.1) / count;
    let name = format!("{kind:?}");
    let rate = count / elapsed;
    println!("{durability:<8} {name:<12} {callers:>7} {rate:>10.0} {writer:>10.1} {all:>10.1}");
    drop(store);
    remove(&path)
}

async fn whole_lives(store: &Store, until: Instant) -> Outcome<u32> {
    let mut commits = 0;
    while Instant::now() < until {
        let id = TaskId::generate();
        store.append(&scope(), &id, life(&id)).await?;
        commits += 1;
    }
    Ok(commits)
}

async fn events(store: &Store, until: Instant) -> Outcome<u32> {
    let mut commits = 0;
    while Instant::now() < until {
        let id = TaskId::generate();
        let context = ContextId::generate();
        let mut batch = Batch::default();
        batch.create(Task::submitted(id.clone(), context.clone(), Message::user("Tell me a story")));
        store.append(&scope(), &id, batch).await?;
        for _ in 0..500 {
            let mut batch = Batch::default();
            batch.artifact(artifact(&id, &context, "and then "));
            store.append(&scope(), &id, batch).await?;
            commits += 1;
        }
    }
    Ok(commits)
}

/// A task that is created, answered and completed at once.
fn life(id: &TaskId) -> Batch {
    let context = ContextId::generate();
    let mut batch = Batch::default();
    batch.create(Task::submitted(id.clone(), context.clone(), Message::user("hello")));
    batch.artifact(artifact(id, &context, "hello"));
    let status = TaskStatus::now(TaskState::Completed, None);
    batch.status(
        TaskStatusUpdateEvent { task_id: id.clone(), context_id: context, status, metadata: None },
        None,
    );
    batch
}

fn artifact(id: &TaskId, context: &ContextId, text: &str) -> TaskArtifactUpdateEvent {
    TaskArtifactUpdateEvent {
        task_id: id.clone(),
        context_id: context.clone(),
        artifact: Artifact::new("result", vec![Part::text(text)]),
        append: true,
        last_chunk: false,
        metadata: None,
    }
}

async fn fill_and_open(folder: &Path, tasks: usize) -> Outcome<()> {
    let path = fresh(folder)?;
    let url = format!("sqlite:{}", path.display());
    let store = Arc::new(Store::open(&url, limits())?);
    let began = Instant::now();
    let fillers: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..tasks / 64 {
                    let id = TaskId::generate();
                    store.append(&scope(), &id, life(&id)).await?;
                }
                Ok::<_, chancery_store::StoreError>(())
            })
        })
        .collect();
    for filler in fillers {
        filler.await??;
    }
    println!("filled with {tasks} tasks in {:.1} s", began.elapsed().as_secs_f64());
    drop(store);
    println!("{} bytes a task in the file", std::fs::metadata(&path)?.len() / tasks as u64);
    let began = Instant::now();
    let store = Store::open(&url, limits())?;
    let opened = began.elapsed();
    let page = store.list(&scope(), &ListQuery { limit: 50, ..ListQuery::default() }).await?;
    let listed = began.elapsed();
    println!("opened in {opened:?}; first list, of {} tasks, after {listed:?}", page.total);
    let again = Instant::now();
    let failed = ListQuery { limit: 50, state: Some(TaskState::Failed), ..ListQuery::default() };
    let total = store.list(&scope(), &failed).await?.total;
    println!("list of the {total} that failed: {:?}", again.elapsed());
    let newest = page.tasks.first().ok_or("there is no task")?.value()?;
    let newest = newest.status.timestamp.map(|time| time.as_millis());
    let again = Instant::now();
    let since = newest.map(|millis| chancery_protocol::Timestamp::from_millis(millis - 10_000));
    let total = store.list(&scope(), &ListQuery { limit: 50, since, ..ListQuery::default() }).await?.total;
    println!("list of the {total} of the last ten seconds: {:?}", again.elapsed());
    drop(store);
    remove(&path)
}

fn limits() -> StoreLimits {
    let retention = Retention { max_tasks: usize::MAX, ..Retention::default() };
    StoreLimits { retention, ..StoreLimits::default() }
}

fn scope() -> Scope {
    Scope { realm: "realm".into(), owner: "owner".into(), agent: "agent".into() }
}

fn fresh(folder: &Path) -> Outcome<PathBuf> {
    let path = folder.join(format!("append-{}.db", std::process::id()));
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

/// Microseconds of CPU that the threads of a name have had so far; all threads, if it is empty.
fn cpu(name: &str) -> Outcome<f64> {
    let mut nanos = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        let is_it = || Ok::<_, std::io::Error>(std::fs::read_to_string(thread.join("comm"))?.trim() == name);
        if name.is_empty() || is_it()? {
            let spent = std::fs::read_to_string(thread.join("schedstat"))?;
            nanos += spent.split(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(nanos / 1_000.0)
}
