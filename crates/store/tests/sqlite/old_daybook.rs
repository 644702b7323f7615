//! A store of version 13 that was killed with tasks in its daybook: they are posted once. The store was written by that version;
//! `t1` and `t2` are in its database and in its daybook, the rest of [`LEFT`] is in the daybook alone.

use std::path::Path;

use chancery_protocol::TaskState;
use chancery_store::Store;
use rusqlite::Connection;

use crate::folder::*;
use crate::support::*;

const ROWS: &str = include_str!("store-v13/store.sql");
const DAYBOOK: &[u8] = include_bytes!("store-v13/store.db.daybook");

/// Whose task each line is of, its name, its state and its context.
const LEFT: [(&str, &str, TaskState, Option<&str>); 5] = [
    ("owner", "t3", TaskState::Completed, Some("c")),
    ("other", "x3", TaskState::Failed, Some("c")),
    ("owner", "t4", TaskState::Canceled, Some("01a1f197-3788-75d2-96e3-4c0f2dd6aa63")),
    ("owner", "t5", TaskState::Rejected, None),
    ("owner", "t6", TaskState::Completed, Some("c")),
];

/// Puts the store there as it was left.
fn rebuild(path: &Path, daybook: &[u8]) {
    Connection::open(path).unwrap().execute_batch(ROWS).unwrap();
    std::fs::write(daybook_of(path), daybook).unwrap();
}

fn daybook_of(path: &Path) -> std::path::PathBuf {
    path.with_extension("db.daybook")
}

/// It has what was in the database, and so many of the lines.
async fn has(store: &Store, lines: usize) {
    is_sound(store).await;
    let there = &LEFT[..lines];
    for (owner, known) in [("owner", 4), ("other", 1)] {
        let scope = scope_of("realm", owner, "agent");
        let total = known + there.iter().filter(|(of, ..)| *of == owner).count();
        let page = store.list(&scope, &query(99)).await.unwrap();
        assert_eq!((page.total, page.tasks.len()), (total, total), "{owner}");
        for (of, id, state, context) in LEFT.iter().filter(|(of, ..)| *of == owner) {
            let found = store.snapshot(&scope, &(*id).into()).await;
            let is_there = there.iter().any(|(_, left, ..)| left == id);
            assert_eq!(found.is_ok(), is_there, "{of} {id}");
            let Ok(found) = found else { continue };
            let task = value(&found.task);
            let shown = task.context_id.as_ref().map(|context| context.as_str());
            assert_eq!((task.id.as_str(), task.status.state, shown), (*id, *state, *context));
            let query = chancery_store::ListQuery { state: Some(*state), ..query(9) };
            assert!(ids(&store.list(&scope, &query).await.unwrap()).contains(&(*id).to_owned()));
        }
    }
    let counted: u64 = store.census().await.unwrap().into_iter().map(|(_, tasks)| tasks).sum();
    assert_eq!(counted as usize, 5 + lines);
}

#[tokio::test]
async fn what_is_in_an_old_daybook_is_posted_once_and_the_file_is_gone() {
    for durability in ["process", "power"] {
        let folder = Folder::new(&format!("old-daybook-{durability}"));
        let path = folder.path("a.db");
        rebuild(&path, DAYBOOK);
        let store = open(&folder.path(&format!("a.db?durability={durability}")));
        has(&store, LEFT.len()).await;
        assert!(!daybook_of(&path).exists());
        assert!(matches!(
            life_now(&store, "t3").refused(&store).await,
            chancery_store::StoreError::Exists { .. }
        ));
        drop(store);
        // As if the process had been killed before it removed the file.
        std::fs::write(daybook_of(&path), DAYBOOK).unwrap();
        let store = open(&path);
        has(&store, LEFT.len()).await;
        assert!(!daybook_of(&path).exists());
        store.delete_owner("realm", "owner").await.unwrap();
        drop(store);
        std::fs::write(daybook_of(&path), DAYBOOK).unwrap();
        assert!(is_gone(&open(&path), "t3").await, "what is deleted does not come back");
    }
}

/// Nothing of the daybook is posted unless all of it is, and the version is raised along with it.
#[tokio::test]
async fn what_is_interrupted_begins_again() {
    let folder = Folder::new("old-daybook-cut");
    let path = folder.path("a.db");
    rebuild(&path, DAYBOOK);
    let look = Connection::open(&path).unwrap();
    look.execute_batch("CREATE TRIGGER full BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'full'); END")
        .unwrap();
    assert!(refusal(try_open(&path)).contains("full"));
    let state = "SELECT (SELECT count(*) FROM tasks), user_version FROM pragma_user_version";
    let state = look.query_row(state, [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(state, Ok((5, 13)));
    assert_eq!(std::fs::read(daybook_of(&path)).unwrap(), DAYBOOK);
    look.execute_batch("DROP TRIGGER full").unwrap();
    has(&open(&path), LEFT.len()).await;
}

#[tokio::test]
async fn a_torn_daybook_loses_only_its_end() {
    let folder = Folder::new("old-daybook-torn");
    let path = folder.path("a.db");
    let mut kept = Vec::new();
    for at in (0..DAYBOOK.len()).step_by(53).chain([DAYBOOK.len() - 1]) {
        for garbled in [false, true] {
            let mut torn = DAYBOOK.to_vec();
            if garbled {
                torn[at..].fill(0xA5);
            } else {
                torn.truncate(at);
            }
            rebuild(&path, &torn);
            let store = open(&path);
            let lines = usize::try_from(store.check().await.unwrap().tasks).unwrap() - 5;
            has(&store, lines).await;
            kept.push(lines);
            drop(store);
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert!(kept.is_sorted() && kept[0] == 0 && kept.ends_with(&[4, 4]), "{kept:?}");
}

/// Before the store was opened by this version.
#[tokio::test]
async fn a_backup_has_what_is_in_an_old_daybook() {
    let folder = Folder::new("old-daybook-backup");
    let path = folder.path("a.db");
    rebuild(&path, DAYBOOK);
    Store::backup_of(&format!("sqlite:{}", path.display()), &folder.path("b.db")).unwrap();
    assert_eq!(std::fs::read(daybook_of(&path)).unwrap(), DAYBOOK, "it is left alone");
    std::fs::write(folder.path("b.db.daybook"), DAYBOOK).unwrap();
    has(&open(&folder.path("b.db")), LEFT.len()).await;
    has(&open(&path), LEFT.len()).await;
}

#[tokio::test]
async fn a_daybook_of_another_store_is_left_out() {
    let folder = Folder::new("old-daybook-other");
    let path = folder.path("a.db");
    std::fs::write(daybook_of(&path), DAYBOOK).unwrap();
    let store = open(&path);
    assert_eq!(store.check().await.unwrap().tasks, 0);
    assert!(!daybook_of(&path).exists());
}
