//! Opening: one process at a time, our files only, older ones made new, newer ones refused.

use std::time::Duration;

use chancery_protocol::{TaskState, Timestamp};
use chancery_store::{Clock, Store, StoreError, StoreLimits};
use rusqlite::{Connection, params};

use crate::folder::*;
use crate::support::*;

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_is_gone() {
    let folder = Folder::new("lock");
    let path = folder.path("a.db");
    let first = open(&path);
    let text = refusal(try_open(&path));
    assert!(text.contains("another process has it open") && text.contains("a.db.lock"), "{text}");
    drop(first);
    let second = open(&path);
    create("t", TaskState::Working, 0).done(&second).await;
    // Closing is enough; then it takes no more work.
    second.close();
    let third = open(&path);
    assert_eq!(snapshot(&third, "t").await.number, 1);
    let error = draft("t").chunk("a", "0").refused(&second).await;
    assert!(error.to_string().contains("closed"), "{error}");
    assert!(second.snapshot(&scope(), &"t".into()).await.is_ok(), "what is at hand can still be seen");
    assert!(second.list(&scope(), &query(1)).await.is_err());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = Folder::new("refused");
    let text = refusal(try_open(&folder.path("no/such/folder/a.db")));
    assert!(text.contains("directory that exists"), "{text}");

    std::fs::write(
        folder.path("garbage.db"),
        "this is no database at all, but long enough to be one".repeat(99),
    )
    .unwrap();
    let text = refusal(try_open(&folder.path("garbage.db")));
    assert!(text.contains("not a database"), "{text}");

    let other = Connection::open(folder.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let text = refusal(try_open(&folder.path("other.db")));
    assert!(text.contains("another program"), "{text}");
    assert_eq!(tables(&other), ["theirs"], "it was left alone");

    let text = refusal(try_open(&folder.path("a.db?durability=wishful")));
    assert!(text.contains("durability=wishful"), "{text}");
    assert!(matches!(Store::open("redis:", StoreLimits::default()), Err(StoreError::UnknownUrl { .. })));
}

fn tables(connection: &Connection) -> Vec<String> {
    let mut select = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn a_newer_version_is_refused_and_left_alone() {
    let folder = Folder::new("downgrade");
    let path = folder.path("a.db");
    let store = open(&path);
    create("t", TaskState::Working, 0).done(&store).await;
    drop(store);
    let set = |version: i64| Connection::open(&path).unwrap().pragma_update(None, "user_version", version);
    set(99).unwrap();
    let text = refusal(try_open(&path));
    assert!(text.contains("version is 99") && text.contains("newer program"), "{text}");
    set(16).unwrap();
    assert_eq!(snapshot(&open(&path), "t").await.number, 1);
}

#[tokio::test]
async fn an_older_version_is_made_new() {
    let folder = Folder::new("upgrade");
    let path = folder.path("a.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../src/sqlite/migrations/0001_journal.sql")).unwrap();
    old.execute_batch("PRAGMA user_version = 1; PRAGMA application_id = 0x4368616E").unwrap();
    old.execute_batch("INSERT INTO scopes VALUES (1, 'realm', 'owner', 'agent')").unwrap();
    old.execute_batch("INSERT INTO counts VALUES (1, 3, 1), (0, 3, 1)").unwrap();
    let json =
        br#"{"id":"t","status":{"state":"TASK_STATE_COMPLETED","timestamp":"1970-01-01T00:00:05.000Z"}}"#;
    old.execute(
        "INSERT INTO tasks VALUES (1, 1, 't', NULL, 3, 5000, 0, 5000, 3, ?, ?)",
        params![crc32fast::hash(json), &json[..]],
    )
    .unwrap();
    drop(old);
    let store = open(&path);
    let found = snapshot(&store, "t").await;
    assert_eq!((found.number, found.task.state()), (3, TaskState::Completed));
    create("u", TaskState::Working, 0).push("x").done(&store).await;
    assert_eq!(store.list(&scope(), &query(10)).await.unwrap().total, 2);
    assert_eq!(store.deliveries(None, store.now(), 10).await.unwrap().len(), 1);
    is_sound(&store).await;
    drop(store);
    let version = Connection::open(&path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0));
    assert_eq!(version, Ok(16));
}

#[tokio::test]
async fn events_that_are_not_packed_are_read_and_followed_by_those_that_are() {
    let folder = Folder::new("unpacked");
    let path = folder.path("a.db");
    let store = open(&path);
    let chunks = |draft: Draft, from: usize| {
        (from..from + 5).fold(draft, |draft, n| draft.chunk("a", &format!("number {n}")))
    };
    chunks(create("t", TaskState::Working, 0), 1).done(&store).await;
    let events = read(&store, "t", 0, 99).await;
    drop(store);
    // As the version before this one would have written it.
    let (mut json, mut ends) = (Vec::new(), Vec::new());
    for event in &events {
        json.extend_from_slice(&event.json);
        ends.extend_from_slice(&u32::try_from(json.len()).unwrap().to_le_bytes());
    }
    let sum = crc32fast::hash(&[&json[..], &ends].concat());
    let old = Connection::open(&path).unwrap();
    let row = params![json, ends, sum];
    assert_eq!(old.execute("UPDATE events SET json = ?, ends = ?, sum = ?", row), Ok(1));
    old.execute_batch(
        "ALTER TABLE edges DROP COLUMN overrun; ALTER TABLE edges DROP COLUMN limits; \
         ALTER TABLE spend DROP COLUMN overrun_tokens; ALTER TABLE spend DROP COLUMN overrun_micro_usd",
    )
    .unwrap();
    old.execute_batch("DELETE FROM facts WHERE name = 'counted'").unwrap();
    old.execute_batch("ALTER TABLE admissions DROP COLUMN answer; DROP TABLE reserved; DROP TABLE secrets")
        .unwrap();
    old.execute_batch("DROP TABLE audit; DROP TABLE audit_checkpoint").unwrap();
    old.pragma_update(None, "user_version", 5).unwrap();
    drop(old);

    let store = open(&path);
    assert_eq!(read(&store, "t", 0, 99).await, events);
    assert_eq!(read(&store, "t", 3, 2).await, events[3..5]);
    chunks(draft("t"), 6).done(&store).await;
    let all = read(&store, "t", 0, 99).await;
    assert_eq!((&all[..6], all.len()), (&events[..], 11));
    is_sound(&store).await;
    drop(store);
    let store = open(&path);
    assert_eq!(read(&store, "t", 0, 99).await, all);
    assert_eq!(value(&snapshot(&store, "t").await.task).artifacts[0].parts.len(), 10);
}

#[test]
fn each_opening_is_a_new_epoch() {
    let folder = Folder::new("epoch");
    for epoch in 1..=3 {
        let Store::Sqlite(store) = open(&folder.path("a.db")) else { panic!("another kind of store") };
        assert_eq!(store.epoch(), epoch);
    }
}

#[tokio::test]
async fn the_time_does_not_go_back_with_the_machine() {
    let folder = Folder::new("clock");
    let url = format!("sqlite:{}", folder.path("a.db").display());
    let open = |millis| {
        let clock = Clock::manual(Timestamp::from_millis(millis));
        Store::open_with(&url, StoreLimits::default(), clock).unwrap()
    };
    let store = open(1_000_000_000);
    create("t", TaskState::Working, 0).done(&store).await;
    drop(store);
    let store = open(5);
    let later = store.now();
    assert!(later > Timestamp::from_millis(1_000_000_000), "{later}");
    store.clock().advance(Duration::from_secs(10));
    assert!(store.now() > later);
}
