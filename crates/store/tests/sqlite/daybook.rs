//! Tasks that are in the daybook and not in the database yet: they are there like all others, through kills, backups and a disk
//! that is full.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use chancery_protocol::TaskState;
use chancery_store::{Store, StoreError};
use rusqlite::Connection;

use crate::failures::Disk;
use crate::folder::*;
use crate::support::*;

/// As long as it is there, nobody else writes to the database, and nothing is posted.
struct Held(Connection);

impl Held {
    fn begin(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    fn let_go(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// A store with some tasks, all but the first of them in the daybook.
async fn with_some(path: &Path, tasks: usize) -> (Store, Held) {
    let store = open(path);
    life_now(&store, "t000").done(&store).await;
    let held = Held::begin(path);
    for n in 1..tasks {
        life_now(&store, &format!("t{n:03}")).done(&store).await;
    }
    (store, held)
}

fn in_database(path: &Path) -> usize {
    let tasks = "SELECT count(*) FROM tasks";
    Connection::open(path).unwrap().query_row(tasks, [], |row| row.get(0)).unwrap()
}

/// All of them are there, however one looks for them.
async fn has_all(store: &Store, tasks: usize) {
    let page = store.list(&scope(), &query(usize::MAX)).await.unwrap();
    let listed: HashSet<_> = ids(&page).into_iter().collect();
    assert_eq!((page.total, page.tasks.len(), listed.len()), (tasks, tasks, tasks));
    for id in &listed {
        let found = snapshot(store, id).await;
        assert_eq!((value(&found.task).id.as_str(), found.number), (id.as_str(), 2));
        assert!(is_compacted(store, id, 0).await && read(store, id, 2, 9).await.is_empty());
        assert_eq!(store.push_configs(&scope(), &id.as_str().into()).await.unwrap().len(), 0);
    }
    assert_eq!(store.census().await.unwrap(), [(TaskState::Completed, tasks as u64)]);
    let check = store.check().await.unwrap();
    assert_eq!((check.tasks, check.problems), (tasks as u64, Vec::new()));
}

#[tokio::test]
async fn what_is_in_the_daybook_is_there_like_all_else() {
    let folder = Folder::new("daybook");
    let path = folder.path("a.db");
    let (store, held) = with_some(&path, 40).await;
    assert_eq!(in_database(&path), 1, "the first tells what ids are new");
    has_all(&store, 40).await;
    assert_eq!(Store::check_of(&format!("sqlite:{}", path.display())).unwrap().tasks, 40);
    held.let_go();
    for id in ["t000", "t039"] {
        let error = life_now(&store, id).refused(&store).await;
        assert!(matches!(error, StoreError::Exists { .. }), "{error}");
        let error = draft(id).chunk("a", "0").refused(&store).await;
        assert!(matches!(error, StoreError::Transition { .. }), "{error}");
    }
    // Another owner may have a task of the same name.
    let other = scope_of("realm", "other", "agent");
    life_now(&store, "t").commit(&store, &other).await.unwrap();
    assert_eq!(in_database(&path), 41, "any transaction posts them");
    life_now(&store, "t050").done(&store).await;
    life_now(&store, "t050").commit(&store, &other).await.unwrap();
    assert_eq!(store.list(&other, &query(9)).await.unwrap().total, 2);
    drop(store);
    assert_eq!(in_database(&path), 43);
    assert!(!folder.path("a.db.daybook").exists(), "nothing is left to be posted");
    has_all_of_both(&open(&path)).await;
}

async fn has_all_of_both(store: &Store) {
    let total = async |owner| store.list(&scope_of("realm", owner, "agent"), &query(1)).await.unwrap().total;
    assert_eq!((total("owner").await, total("other").await), (41, 2));
    is_sound(store).await;
}

/// Whoever looks into the file finds them there before long.
#[tokio::test]
async fn what_is_in_the_daybook_is_posted_by_itself() {
    let folder = Folder::new("daybook-posted");
    let path = folder.path("a.db");
    let (store, held) = with_some(&path, 5).await;
    held.let_go();
    for tasks in [5, 6] {
        while in_database(&path) < tasks {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        life_now(&store, &format!("t00{tasks}")).done(&store).await;
    }
    has_all(&store, 7).await;
}

#[tokio::test]
async fn pages_join_across_the_daybook_and_the_database() {
    let folder = Folder::new("daybook-pages");
    let path = folder.path("a.db");
    let (store, held) = with_some(&path, 10).await;
    held.let_go();
    draft("s").context("other").created(TaskState::Working, 0).done(&store).await;
    let _held = Held::begin(&path);
    for n in 10..20 {
        life_now(&store, &format!("t{n:03}")).done(&store).await;
    }
    let (mut seen, mut asked) = (Vec::new(), query(3));
    loop {
        let page = store.list(&scope(), &asked).await.unwrap();
        assert_eq!(page.total, 21);
        seen.extend(ids(&page));
        asked.after = page.next;
        if asked.after.is_none() {
            break;
        }
    }
    // The one that works is of a time far ahead.
    let newest_first = (0..20).rev().map(|n| format!("t{n:03}"));
    assert_eq!(seen, std::iter::once("s".to_owned()).chain(newest_first).collect::<Vec<_>>());
    let of = async |query| store.list(&scope(), &query).await.unwrap().total;
    assert_eq!(of(chancery_store::ListQuery { state: Some(TaskState::Completed), ..query(1) }).await, 20);
    assert_eq!(of(chancery_store::ListQuery { context_id: Some("other".into()), ..query(1) }).await, 1);
    assert_eq!(of(chancery_store::ListQuery { since: Some(store.now()), ..query(1) }).await, 1);
}

#[tokio::test]
async fn what_a_killed_process_left_is_posted_once() {
    let folder = Folder::new("daybook-killed");
    let (store, _held) = with_some(&folder.path("a.db"), 100).await;
    for options in ["", "?durability=power"] {
        folder.copy_as_killed("a.db", "b.db");
        let book = std::fs::read(folder.path("b.db.daybook")).unwrap();
        let left = open(&folder.path(&format!("b.db{options}")));
        has_all(&left, 100).await;
        assert_eq!(in_database(&folder.path("b.db")), 100);
        assert_eq!(left.delete_owner("realm", "owner").await.unwrap(), 100);
        drop(left);
        // What is found beside a database that has gone on since is not of it.
        std::fs::write(folder.path("b.db.daybook"), book).unwrap();
        assert!(is_gone(&open(&folder.path("b.db")), "t050").await);
    }
    has_all(&store, 100).await;
}

/// The newest tasks may have been deleted: what is posted after them has their numbers, and is counted.
#[tokio::test]
async fn what_takes_the_numbers_of_deleted_tasks_is_counted() {
    let folder = Folder::new("daybook-numbers");
    let path = folder.path("a.db");
    let store = open(&path);
    for n in 0..30 {
        life_now(&store, &format!("s{n:03}")).done(&store).await;
    }
    // All go, and the store still knows which ids are new.
    store.sweep(at(i64::from(i32::MAX) * 1_000)).await;
    assert_eq!(in_database(&path), 0);
    let _held = Held::begin(&path);
    for n in 10..15 {
        life_now(&store, &format!("t{n:03}")).done(&store).await;
    }
    folder.copy_as_killed("a.db", "b.db");
    has_all(&open(&folder.path("b.db")), 5).await;
    store.backup(&folder.path("c.db")).await.unwrap();
    has_all(&open(&folder.path("c.db")), 5).await;
}

/// Whatever is left of the daybook: a prefix.
#[tokio::test]
async fn a_torn_daybook_loses_only_its_end() {
    let folder = Folder::new("daybook-torn");
    let (store, _held) = with_some(&folder.path("a.db"), 50).await;
    let book = std::fs::read(folder.path("a.db.daybook")).unwrap();
    let mut kept = Vec::new();
    for tenth in 0..=10 {
        for garbled in [false, true] {
            folder.copy_as_killed("a.db", "b.db");
            let at = (book.len() - 1) * tenth / 10;
            let mut torn = book.clone();
            if garbled {
                torn[at..].fill(0xA5);
            } else {
                torn.truncate(at);
            }
            std::fs::write(folder.path("b.db.daybook"), torn).unwrap();
            let left = open(&folder.path("b.db"));
            let total = left.list(&scope(), &query(1)).await.unwrap().total;
            has_all(&left, total).await;
            assert!(total == 0 || !is_gone(&left, &format!("t{:03}", total - 1)).await);
            kept.push(total);
        }
    }
    assert!(kept.is_sorted() && kept.contains(&1) && kept.contains(&49), "{kept:?}");
    has_all(&store, 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_what_is_in_the_daybook() {
    let folder = Folder::new("daybook-backup");
    let path = folder.path("a.db");
    let (store, held) = with_some(&path, 60).await;
    let store = Arc::new(store);
    store.backup(&folder.path("quiet.db")).await.unwrap();
    assert_eq!((in_database(&path), in_database(&folder.path("quiet.db"))), (1, 60));
    held.let_go();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 60..800 {
                life_now(&store, &format!("t{n:03}")).done(&store).await;
            }
        }
    });
    store.backup(&folder.path("b.db")).await.unwrap();
    let url = format!("sqlite:{}", path.display());
    let elsewhere = folder.path("c.db");
    tokio::task::spawn_blocking(move || Store::backup_of(&url, &elsewhere)).await.unwrap().unwrap();
    writer.await.unwrap();
    for name in ["quiet.db", "b.db", "c.db"] {
        let copy = open(&folder.path(name));
        let total = copy.list(&scope(), &query(1)).await.unwrap().total;
        assert!((60..=800).contains(&total), "{total}");
        has_all(&copy, total).await;
        for n in 0..60 {
            assert!(!is_gone(&copy, &format!("t{n:03}")).await, "{name} has no t{n:03}");
        }
    }
    has_all(&store, 800).await;
}

#[tokio::test]
async fn a_full_disk_keeps_what_is_in_the_daybook() {
    let folder = Folder::new("daybook-full");
    let Some(disk) = Disk::mount(&folder.path("disk"), "16m") else { return };
    let path = disk.path("a.db");
    let (store, held) = with_some(&path, 3).await;
    held.let_go();
    std::fs::write(disk.path("ballast"), vec![0; 15 << 20]).unwrap();
    // Until nothing more can be posted, nor entered.
    let mut tasks = 3;
    let error = loop {
        let now = millis_now(&store);
        let begun =
            create(&format!("t{tasks:03}"), TaskState::Working, now).artifact("a", &"x".repeat(2_000));
        match begun.status(TaskState::Completed, now).commit(&store, &scope()).await {
            Ok(_) => tasks += 1,
            Err(error) => break error,
        }
        assert!(tasks < 10_000, "there is always more room");
    };
    assert!(error.to_string().contains("free some space"), "{error}");
    let page = store.list(&scope(), &query(usize::MAX)).await.unwrap();
    assert_eq!((page.total, page.tasks.len()), (tasks, tasks));
    assert!(in_database(&path) < tasks, "some cannot be posted");
    for id in ids(&page) {
        assert_eq!(value(&snapshot(&store, &id).await.task).id.as_str(), id);
    }
    std::fs::remove_file(disk.path("ballast")).unwrap();
    life_now(&store, "u").done(&store).await;
    is_sound(&store).await;
    drop(store);
    assert_eq!(in_database(&path), tasks + 1);
}
