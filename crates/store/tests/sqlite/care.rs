//! Backups, checks, and deleting what somebody owns.

use std::sync::Arc;

use chancery_protocol::TaskState;
use rusqlite::Connection;

use crate::folder::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_store_as_of_a_point_in_time() {
    let folder = Folder::new("backup");
    let store = Arc::new(open(&folder.path("a.db")));
    create("t", TaskState::Working, 0).chunk("a", "0").state("7").key("k", 1).done(&store).await;
    let before = picture(&store, "t").await;
    // Others write meanwhile.
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 0..200 {
                create(&format!("u{n}"), TaskState::Working, 0).chunk("a", "0").done(&store).await;
            }
        }
    });
    let to = folder.path("b.db");
    store.backup(&to).await.unwrap();
    writer.await.unwrap();
    let text = refusal(store.backup(&to).await);
    assert!(text.contains("there is a file already"), "{text}");
    let text = refusal(store.backup(&folder.path("no/such/folder/b.db")).await);
    assert!(text.contains("back up the store to"), "{text}");

    #[cfg(unix)]
    for name in ["a.db", "a.db-wal", "a.db.lock", "b.db"] {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&folder.path(name).metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "{name} is for its owner alone");
    }
    let copy = open(&to);
    is_sound(&copy).await;
    let found = picture(&copy, "t").await;
    assert_eq!((found.0, found.1, found.2, found.3), (before.0, before.1, before.2, before.3));
    let whole = store.list(&scope(), &query(1)).await.unwrap().total;
    let total = copy.list(&scope(), &query(1)).await.unwrap().total;
    assert!((1..=whole).contains(&total), "{total} of {whole}");
    draft("t").chunk("a", "1").done(&copy).await;
    assert_eq!(snapshot(&store, "t").await.number, 2);
}

#[tokio::test]
async fn a_check_finds_what_does_not_fit() {
    let folder = Folder::new("check");
    let path = folder.path("a.db");
    let spoiled = [
        ("UPDATE counts SET tasks = 5 WHERE scope = 1", "has 2 tasks"),
        ("DELETE FROM counts WHERE scope = 1", "not counted"),
        ("DELETE FROM events WHERE place & 0xffffff = 2", "has no event 2"),
        ("UPDATE events SET json = x'7b7d', sum = 2745614147 WHERE place & 0xffffff = 2", "cannot be read"),
        ("UPDATE events SET json = x'00'", "checksum"),
        ("UPDATE tasks SET millis = 1", "not what its row says"),
        ("DELETE FROM tasks WHERE id = 't'", "which is not there"),
    ];
    for (sql, problem) in spoiled {
        let _ = std::fs::remove_file(&path);
        let store = open(&path);
        create("t", TaskState::Working, 0).done(&store).await;
        draft("t").chunk("a", "0").done(&store).await;
        draft("t").chunk("a", "1").done(&store).await;
        create("u", TaskState::Working, 0).done(&store).await;
        let sound = store.check().await.unwrap();
        assert_eq!((sound.tasks, sound.problems), (2, Vec::new()));
        store.close();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let found = open(&path).check().await.unwrap().problems;
        assert!(found.iter().any(|found| found.contains(problem)), "{problem}: {found:?}");
    }
}

#[tokio::test]
async fn what_somebody_owned_leaves_no_trace() {
    let folder = Folder::new("delete-owner");
    let path = folder.path("a.db");
    let store = open(&path);
    let theirs = scope_of("realm", "somebody", "agent");
    for n in 0..300 {
        let batch =
            create(&format!("t{n}"), TaskState::Working, n).state("1").push("x").key(&n.to_string(), 1);
        batch.commit(&store, &theirs).await.unwrap();
    }
    create("mine", TaskState::Working, 0).push("x").key("k", 1).done(&store).await;
    assert_eq!(store.delete_owner("realm", "somebody").await.unwrap(), 300);
    assert_eq!(store.list(&theirs, &query(10)).await.unwrap().total, 0);
    assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, 1);
    is_sound(&store).await;
    // They may come back, as somebody new.
    create("t0", TaskState::Working, 0).commit(&store, &theirs).await.unwrap();
    assert_eq!(store.delete_owner("realm", "somebody").await.unwrap(), 1);
    drop(store);
    let file = Connection::open(&path).unwrap();
    for table in ["tasks", "events", "scopes", "admissions", "pushes"] {
        let rows = file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
        assert_eq!(rows, Ok(1), "{table}");
    }
    assert_eq!(file.query_row("SELECT count(*) FROM states", [], |row| row.get(0)), Ok(0));
}
