//! What was committed is there when the store is opened again, however it was left.

use chancery_protocol::{Artifact, Event, Json, Message, Task, TaskState, TaskStatus};
use chancery_store::{ListQuery, Read, Store};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;

use crate::folder::*;
use crate::support::*;

/// One change of a batch.
#[derive(Clone, Debug)]
enum Step {
    Status { state: TaskState, millis: i64, said: Option<u8>, heard: Option<u8> },
    Artifact { id: u8, text: String, append: bool },
}

/// A batch for one of a few tasks; it may be refused.
#[derive(Clone, Debug)]
struct Attempt {
    task: u8,
    creates: bool,
    steps: Vec<Step>,
    state: Option<u8>,
    key: Option<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        6 => Just(TaskState::Working),
        3 => Just(TaskState::InputRequired),
        1 => proptest::sample::select(TERMINAL.to_vec()),
    ];
    let said = proptest::option::of(any::<u8>());
    let status = (state, 0..50_i64, said.clone(), said)
        .prop_map(|(state, millis, said, heard)| Step::Status { state, millis, said, heard });
    let artifact = (0..3_u8, "[a-zé\"\n]{0,6}", any::<bool>())
        .prop_map(|(id, text, append)| Step::Artifact { id, text, append });
    prop_oneof![status, artifact]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let steps = proptest::collection::vec(step(), 0..4);
    let small = || proptest::option::of(0..9_u8);
    (0..5_u8, any::<bool>(), steps, small(), small()).prop_map(|(task, creates, steps, state, key)| Attempt {
        task,
        creates,
        steps,
        state,
        key,
    })
}

impl Attempt {
    async fn commit(&self, store: &Store) -> bool {
        let mut batch = draft(&format!("t{}", self.task)).context(&format!("c{}", self.task % 2));
        if self.creates {
            batch = batch.created(TaskState::Submitted, i64::from(self.task));
        }
        for step in &self.steps {
            batch = match step {
                Step::Status { state, millis, said, heard } => {
                    let message = said.map(|said| Box::new(Message::agent(said.to_string())));
                    let status = TaskStatus { state: *state, message, timestamp: Some(at(*millis)) };
                    batch.full_status(status, None, heard.map(|heard| Message::user(heard.to_string())))
                }
                Step::Artifact { id, text, append: true } => batch.chunk(&id.to_string(), text),
                Step::Artifact { id, text, append: false } => batch.artifact(&id.to_string(), text),
            };
        }
        if let Some(state) = self.state {
            batch = batch.state(&state.to_string());
        }
        if let Some(key) = self.key {
            batch = batch.key(&key.to_string(), self.task);
        }
        batch.commit(store, &scope()).await.is_ok()
    }
}

/// A task, its last number, its state value, and its events if they are kept.
type Shown = (Task, u64, Option<Json>, Option<Vec<Event>>);
/// State, artifacts, what was said, and the last number.
type Gist = (TaskState, Vec<Artifact>, Vec<String>, u64);

/// All that a store shows.
#[derive(Debug, PartialEq)]
struct Everything {
    tasks: Vec<Option<Shown>>,
    lists: Vec<(Vec<Task>, usize)>,
    keys: Vec<Option<String>>,
}

impl Everything {
    /// What does not depend on the ids that messages were given.
    fn gist(&self) -> Vec<Option<Gist>> {
        let gist =
            |task: &Task, number| (task.status.state, task.artifacts.clone(), texts(&task.history), number);
        self.tasks.iter().map(|task| task.as_ref().map(|(task, number, ..)| gist(task, *number))).collect()
    }
}

async fn everything(store: &Store) -> Everything {
    let mut tasks = Vec::new();
    for n in 0..5 {
        let id = format!("t{n}").as_str().into();
        tasks.push(match store.snapshot(&scope(), &id).await {
            Err(_) => None,
            Ok(found) => {
                let events = match store.read(&scope(), &id, 0, usize::MAX).await.unwrap() {
                    Read::Events(events) => Some(events),
                    Read::Compacted => None,
                };
                Some(((*value(&found.task)).clone(), found.number, found.state, events))
            }
        });
    }
    let mut lists = Vec::new();
    for context_id in [None, Some("c0".into()), Some("c1".into())] {
        for state in [None, Some(TaskState::Working), Some(TaskState::Completed)] {
            for since in [None, Some(at(20))] {
                let query = ListQuery { context_id: context_id.clone(), state, since, ..query(100) };
                let page = store.list(&scope(), &query).await.unwrap();
                lists.push((page.tasks.iter().map(|task| (*value(task)).clone()).collect(), page.total));
            }
        }
    }
    let mut keys = Vec::new();
    for n in 0..9_u8 {
        for task in 0..5 {
            let found = store.admitted(&scope(), &admission(&n.to_string(), task)).await;
            keys.push(found.ok().flatten().map(|used| used.task.to_string()));
        }
    }
    Everything { tasks, lists, keys }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_again() {
    let folder = Folder::new("reopen");
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let handle = tokio::runtime::Handle::current();
    let attempts = || proptest::collection::vec(attempt(), 1..30);
    let case = std::cell::Cell::new(0);
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&(attempts(), attempts()), |(first, second)| {
            case.set(case.get() + 1);
            handle.block_on(compare(&folder, case.get(), &first, &second));
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

async fn compare(folder: &Folder, case: usize, first: &[Attempt], second: &[Attempt]) {
    let (name, killed) = (format!("{case}.db"), format!("{case}-killed.db"));
    let store = open(&folder.path(&name));
    for attempt in first {
        attempt.commit(&store).await;
    }
    let before = everything(&store).await;
    folder.copy_as_killed(&name, &killed);
    drop(store);
    let (store, killed) = (open(&folder.path(&name)), open(&folder.path(&killed)));
    assert_eq!(everything(&store).await, before);
    assert_eq!(everything(&killed).await, before);
    // And it goes on from there, alike with what has just been written and what was read back.
    for attempt in second {
        assert_eq!(attempt.commit(&store).await, attempt.commit(&killed).await);
        assert_eq!(everything(&store).await.gist(), everything(&killed).await.gist());
    }
    is_sound(&store).await;
    is_sound(&killed).await;
}

#[tokio::test]
async fn events_go_in_small_steps_and_leave_nothing() {
    let folder = Folder::new("compact");
    let path = folder.path("a.db");
    let store = open(&path);
    for id in ["t", "u"] {
        create(id, TaskState::Working, 0).done(&store).await;
        for n in 0..300 {
            draft(id).chunk("a", &n.to_string()).done(&store).await;
        }
        draft(id).status(TaskState::Completed, 0).done(&store).await;
    }
    let before = snapshot(&store, "t").await;
    let rows = || -> i64 {
        let reader = Connection::open(&path).unwrap();
        reader.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(), 604);
    store.sweep(at(10 * 60 * 1_000)).await;
    assert_eq!(rows(), 0);
    is_sound(&store).await;
    drop(store);
    let store = open(&path);
    let after = snapshot(&store, "t").await;
    assert_eq!((after.task, after.number), (before.task, 302));
    assert!(is_compacted(&store, "t", 301).await);
    store.sweep(at(24 * 60 * 60 * 1_000)).await;
    assert!(is_gone(&store, "t").await && is_gone(&store, "u").await);
    is_sound(&store).await;
}

#[tokio::test]
async fn the_cap_holds_without_a_sweep() {
    let folder = Folder::new("cap");
    let url = format!("sqlite:{}", folder.path("a.db").display());
    let store = Store::open(&url, limits(|limits| limits.retention.max_tasks = 10)).unwrap();
    for n in 0..50 {
        let life = create(&format!("t{n:02}"), TaskState::Submitted, n).status(TaskState::Completed, n);
        life.done(&store).await;
    }
    // The writer forgets after it has answered; what it is asked next it does next.
    create("last", TaskState::Working, 0).done(&store).await;
    let completed = ListQuery { state: Some(TaskState::Completed), ..query(100) };
    let page = store.list(&scope(), &completed).await.unwrap();
    assert_eq!(ids(&page), (40..50).rev().map(|n| format!("t{n:02}")).collect::<Vec<_>>());
    is_sound(&store).await;
}
