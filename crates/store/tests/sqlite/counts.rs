//! How many tasks there are is known exactly, though tasks that begin and end at once are written down only now and then.

use chancery_protocol::TaskState;
use chancery_store::{Scope, Store, StoreError};
use rusqlite::Connection;

use crate::folder::*;
use crate::support::*;

const STEPS: i64 = 900;
const MOST_UNCOUNTED: i64 = 128;

fn owners() -> [Scope; 2] {
    ["a", "b"].map(|owner| scope_of("realm", owner, "agent"))
}

#[tokio::test]
async fn however_tasks_come_and_go_all_are_counted() {
    let folder = Folder::new("counts");
    let path = folder.path("a.db");
    let few = limits(|limits| limits.retention.max_tasks = 400);
    let mut store = open_with(&path, few);
    let look = Connection::open(&path).unwrap();
    let (mut longest, mut running) = (0, None);
    for step in 0..STEPS {
        let scope = &owners()[usize::from(step % 3 == 0)];
        let (now, id) = (millis_now(&store), format!("t{step}"));
        let life = |millis| create(&id, TaskState::Working, millis).status(TaskState::Completed, millis);
        match step % 14 {
            0 => drop(life(5_000).commit(&store, scope).await.unwrap()),
            3 => {
                create(&id, TaskState::Working, now).commit(&store, scope).await.unwrap();
                running = Some((id, scope.clone()));
            }
            9 => {
                let (id, scope) = running.take().unwrap();
                draft(&id).status(TaskState::Failed, now).commit(&store, &scope).await.unwrap();
            }
            5 => {
                life(now).commit(&store, scope).await.unwrap();
                // The transaction that finds that there is one already is rolled back.
                let again = life(now).commit(&store, scope).await;
                assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
            }
            _ => drop(life(now).commit(&store, scope).await.unwrap()),
        }
        all_are_counted(&store).await;
        let counted = "SELECT (SELECT count(*) FROM tasks) - (SELECT sum(tasks) FROM counts WHERE scope = 0)";
        longest = longest.max(look.query_row(counted, [], |row| row.get::<_, i64>(0)).unwrap());
        if step % 100 == 50 {
            folder.copy_as_killed("a.db", "b.db");
            let left = open_with(&folder.path("b.db"), few);
            all_are_counted(&left).await;
            is_sound(&left).await;
        }
        if step == 250 {
            let owned = store.list(&owners()[1], &query(1)).await.unwrap().total;
            assert_eq!(store.delete_owner("realm", "b").await.unwrap(), owned);
            all_are_counted(&store).await;
        }
        if step % 300 == 120 {
            drop(store);
            store = open_with(&path, few);
            all_are_counted(&store).await;
        }
    }
    is_sound(&store).await;
    assert!((MOST_UNCOUNTED / 2..MOST_UNCOUNTED).contains(&longest), "{longest} were not in the table");
}

/// The newest tasks may be the ones that go. What comes after them when the store is opened again has their numbers.
#[tokio::test]
async fn tasks_that_take_the_numbers_of_deleted_ones_are_counted() {
    let folder = Folder::new("counts-again");
    let path = folder.path("a.db");
    for round in 0..3 {
        let store = open(&path);
        for (place, scope) in owners().iter().enumerate() {
            for n in 0..20 {
                let life = life_now(&store, &format!("t{round}-{place}-{n}"));
                life.commit(&store, scope).await.unwrap();
            }
        }
        all_are_counted(&store).await;
        assert_eq!(store.delete_owner("realm", "b").await.unwrap(), 20);
        is_sound(&store).await;
    }
}

/// What the store says is what there is.
async fn all_are_counted(store: &Store) {
    loop {
        let before = census(store).await;
        let mut there = 0;
        for scope in owners() {
            let page = store.list(&scope, &query(usize::MAX)).await.unwrap();
            assert_eq!(page.total, page.tasks.len());
            there += page.tasks.len() as u64;
        }
        // Some may be forgotten meanwhile: that is not waited for by whoever ends a task too many.
        if census(store).await == before {
            return assert_eq!(before, there);
        }
    }
}

async fn census(store: &Store) -> u64 {
    store.census().await.unwrap().into_iter().map(|(_, tasks)| tasks).sum()
}
