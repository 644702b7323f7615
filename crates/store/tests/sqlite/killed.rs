//! A process that is killed while it writes: what it was told is committed is there.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use chancery_protocol::{Edge, HopId, TaskId, TaskState};
use chancery_store::{Scope, Store};

use crate::calls::*;
use crate::folder::*;
use crate::support::*;

/// Set in the process that is killed: the database it writes to.
const CHILD: &str = "CHANCERY_TEST_KILLED";
const NAME: &str = "killed::what_was_acknowledged_outlives_a_kill";
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_killed(path.as_ref()).await;
    }
    let folder = Folder::new("killed");
    let path = folder.path("a.db");
    let mut acknowledged: HashMap<String, u64> = HashMap::new();
    let mut plain_ones = 0;
    for round in 0..ROUNDS {
        let executable = std::env::current_exe().unwrap();
        let mut child = Command::new(executable)
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told = lines.filter_map(|line| {
            let (id, number) = line.strip_prefix("committed ")?.split_once(' ')?;
            Some((id.to_owned(), number.parse().ok()?))
        });
        // It goes on writing while we stop listening, and is killed in the middle of something.
        acknowledged.extend(told.by_ref().take(150 + 97 * round));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = open(&path);
        is_sound(&store).await;
        for (id, number) in &acknowledged {
            if *number == PLAIN {
                let found = store.snapshot(&plain(), &TaskId::from(id.as_str())).await.unwrap();
                assert_eq!(value(&found.task).status.state, TaskState::Completed);
                plain_ones += 1;
                continue;
            }
            let found = snapshot(&store, id).await;
            assert!(found.number >= *number, "{id}: {} of {number}", found.number);
            if found.task.state() != TaskState::Completed {
                assert_eq!(read(&store, id, 0, usize::MAX).await.len() as u64, found.number);
            }
        }
        calls_are_in_step(&store).await;
    }
    assert!(acknowledged.len() > 100, "{} tasks are too few to tell", acknowledged.len());
    assert!(plain_ones > 100, "{plain_ones} tasks without a call are too few to tell");
}

/// Each task has its call, settled if it has ended; what was charged is in the sums.
async fn calls_are_in_step(store: &Store) {
    let found = edges(store, &all()).await;
    let states: HashMap<_, _> = found.iter().map(|edge| (edge.task.clone().unwrap(), edge.settled)).collect();
    let page = store.list(&scope(), &query(usize::MAX)).await.unwrap();
    assert_eq!((states.len(), page.tasks.len()), (found.len(), found.len()));
    for task in &page.tasks {
        let settled = states[&value(task).id];
        assert_eq!(settled.is_some(), task.state() == TaskState::Completed);
    }
    let settled = found.iter().filter(|edge| edge.settled.is_some()).count() as u64;
    assert_eq!(total(&sums(store, &realm(), 0).await), (settled, settled));
}

/// Whose tasks come without a call.
fn plain() -> Scope {
    scope_of("realm", "plain", "agent")
}

/// The number that is told for those.
const PLAIN: u64 = 0;

/// The call that a task is of.
fn call_of(task: &TaskId) -> Edge {
    Edge { hop: HopId::generate(), ..call(0).task(task.as_str()) }
}

/// Tells what it has committed, as it does.
async fn write_until_killed(path: &std::path::Path) -> ! {
    let store = Arc::new(open(path));
    let tell = |id: &str, number: u64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\ncommitted {id} {number}").and_then(|()| out.flush()).unwrap();
    };
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..100_000 {
                    let whole = TaskId::generate();
                    let life =
                        create(whole.as_str(), TaskState::Submitted, 0).status(TaskState::Completed, 0);
                    let life = life.edge(call_of(&whole).settled(0, 1));
                    tell(whole.as_str(), life.done(&store).await.number);
                    for _ in 0..5 {
                        let plain_one = TaskId::generate();
                        life_now(&store, plain_one.as_str()).commit(&store, &plain()).await.unwrap();
                        tell(plain_one.as_str(), PLAIN);
                    }
                    let long = TaskId::generate();
                    let begun = create(long.as_str(), TaskState::Working, 0).edge(call_of(&long));
                    let begun = begun.done(&store).await;
                    tell(long.as_str(), begun.number);
                    for n in 0..5 {
                        let appended = draft(long.as_str()).chunk("a", &n.to_string()).done(&store).await;
                        tell(long.as_str(), appended.number);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    panic!("nobody has killed it");
}
