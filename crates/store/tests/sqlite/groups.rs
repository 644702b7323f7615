//! Batches that share a transaction share nothing else.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use chancery_protocol::TaskState;
use chancery_store::{Scope, Store, StoreError};
use rusqlite::Connection;

use crate::folder::*;
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_refused_refuses_no_other() {
    let folder = Folder::new("groups");
    let path = folder.path("a.db");
    let store = Arc::new(open(&path));
    create("ended", TaskState::Working, 0).status(TaskState::Completed, 0).done(&store).await;
    create("shared", TaskState::Working, 0).done(&store).await;
    for round in 0..20 {
        let outcomes = on_threads(32, |thread| {
            let store = store.clone();
            async move {
                let id = format!("t{round}-{thread}");
                match thread % 4 {
                    0 => draft("ended").chunk("a", "0").commit(&store, &scope()).await,
                    1 => draft(&id).chunk("a", "0").commit(&store, &scope()).await,
                    2 => create(&id, TaskState::Working, 0).commit(&store, &scope()).await,
                    _ => draft("shared").chunk("a", &id).commit(&store, &scope()).await,
                }
            }
        })
        .await;
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            match (thread % 4, outcome) {
                (0, Err(StoreError::Transition { .. })) | (1, Err(StoreError::NotFound { .. })) => {}
                (2, Ok(appended)) => assert_eq!(appended.number, 1),
                (3, Ok(appended)) => {
                    let own = format!("t{round}-{thread}");
                    let task = value(&appended.task);
                    let said = task.artifacts[0].parts.iter().map(|part| part.as_text().unwrap());
                    assert_eq!(
                        said.filter(|said| *said == own).count(),
                        1,
                        "its own batch is folded in, once"
                    );
                }
                (kind, outcome) => panic!("{kind}: {outcome:?}"),
            }
        }
    }
    let shared = picture(&store, "shared").await;
    assert_eq!((shared.1, shared.3.len()), (161, 161));
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, 162);
    is_sound(&store).await;
    drop(store);
    assert_eq!(picture(&open(&path), "shared").await, shared);
}

/// Of tasks with one id, one is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_lives_with_one_id_one_is_written_and_so_are_all_others() {
    let folder = Folder::new("lives");
    let store = Arc::new(open(&folder.path("a.db")));
    for round in 0..20 {
        let outcomes = on_threads(37, |thread| {
            let store = store.clone();
            async move {
                let id = if thread % 9 == 0 { format!("same-{round}") } else { format!("t{round}-{thread}") };
                let life = create(&id, TaskState::Working, 0).status(TaskState::Completed, round);
                life.commit(&store, &scope()).await
            }
        })
        .await;
        let of_one = outcomes.iter().step_by(9).filter(|outcome| outcome.is_ok()).count();
        assert_eq!(of_one, 1);
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(appended) => assert_eq!(appended.number, 2),
                Err(StoreError::Exists { .. }) => assert_eq!(thread % 9, 0),
                Err(other) => panic!("{thread}: {other:?}"),
            }
        }
    }
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, 20 * 33);
    is_sound(&store).await;
}

/// Something may still hold the number of a task that has been deleted: also of the newest, after which SQLite would begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_tasks_are_not_used_again() {
    let folder = Folder::new("numbers");
    let path = folder.path("a.db");
    let store = Arc::new(open(&path));
    let look = Connection::open(&path).unwrap();
    for round in 0..20 {
        on_threads(40, |thread| {
            let store = store.clone();
            async move {
                let life = create(&format!("t{round}-{thread}"), TaskState::Working, 0);
                life.status(TaskState::Completed, round).done(&store).await
            }
        })
        .await;
        let numbers = "SELECT min(task), max(task) FROM tasks";
        let numbers = look.query_row(numbers, [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(numbers, Ok((round * 40 + 1, round * 40 + 40)));
        let Scope { realm, owner, .. } = scope();
        assert_eq!(store.delete_owner(&realm, &owner).await.unwrap(), 40);
    }
}

#[tokio::test]
async fn a_batch_that_nobody_waits_for_is_committed() {
    let folder = Folder::new("dropped");
    let store = open(&folder.path("a.db"));
    create("t", TaskState::Working, 0).done(&store).await;
    let scope = scope();
    for n in 0..200 {
        let mut append = pin!(draft("t").chunk("a", &n.to_string()).commit(&store, &scope));
        // Asked once, so that it is queued, and then dropped.
        poll_fn(|context| {
            let _ = append.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
    let last = draft("t").chunk("a", "last").done(&store).await;
    assert_eq!(last.number, 202);
    assert_eq!(value(&last.task).artifacts[0].parts.len(), 201);
    assert_eq!(read(&store, "t", 0, 1_000).await.len(), 202);
    is_sound(&store).await;
}

/// Who is to lead next may be gone by then, or go before it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_leader_that_is_gone() {
    let folder = Folder::new("gone");
    let store = Arc::new(open(&folder.path("a.db")));
    create("t", TaskState::Working, 0).done(&store).await;
    for round in 0..50 {
        let outcomes = on_threads(24, |thread| {
            let store = store.clone();
            async move {
                let scope = scope();
                let mut append = pin!(draft("t").chunk("a", "0").commit(&store, &scope));
                // Every third is dropped after so many polls, wherever it stands then.
                let polls = if thread % 3 == 0 { (round + thread) % 5 + 1 } else { usize::MAX };
                let mut polled = 0;
                poll_fn(|context| {
                    polled += 1;
                    match append.as_mut().poll(context) {
                        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                        Poll::Pending if polled >= polls => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            }
        })
        .await;
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            assert!(outcome.map_or(thread % 3 == 0, |outcome| outcome.is_ok()), "{thread} of round {round}");
        }
    }
    let last = draft("t").chunk("a", "last").done(&store).await;
    assert_eq!(last.number, 2 + 50 * 24, "what was queued is committed, whoever waits for it");
    is_sound(&store).await;
}

/// The caller who is to commit for others may be kept from it by something that never yields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_caller_whose_thread_is_taken() {
    let folder = Folder::new("taken");
    let store = Arc::new(open(&folder.path("a.db")));
    create("t", TaskState::Working, 0).done(&store).await;
    let (queued, is_queued) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel();
    let held = tokio::spawn({
        let store = store.clone();
        async move {
            let scope = scope();
            let mut append = pin!(draft("t").chunk("a", "1").commit(&store, &scope));
            poll_fn(|context| Poll::Ready(append.as_mut().poll(context).is_ready())).await;
            queued.send(()).unwrap();
            released.recv().unwrap();
            append.await
        }
    });
    is_queued.await.unwrap();
    assert_eq!(draft("t").chunk("a", "2").done(&store).await.number, 3);
    release.send(()).unwrap();
    assert_eq!(held.await.unwrap().unwrap().number, 2);
    is_sound(&store).await;
}

/// The database has a commit a moment before the tasks at hand do. Nobody is to be in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_finds_a_key_finds_the_events_that_came_with_it() {
    let folder = Folder::new("shown");
    let store = Arc::new(open(&folder.path("a.db")));
    let ids: Vec<_> = (0..48).map(|n| format!("t{n}")).collect();
    for id in &ids {
        create(id, TaskState::Working, 0).done(&store).await;
    }
    for round in 1..=30 {
        let appends = on_threads(2 * ids.len(), |thread| {
            let (store, id) = (store.clone(), ids[thread / 2].clone());
            async move {
                let key = format!("{id}-{round}");
                if thread % 2 == 0 {
                    return draft(&id).chunk("a", "0").key(&key, 0).done(&store).await.number;
                }
                while store.admitted(&scope(), &admission(&key, 0)).await.unwrap().is_none() {
                    tokio::task::yield_now().await;
                }
                snapshot(&store, &id).await.number
            }
        });
        assert_eq!(appends.await, vec![round + 1; 2 * ids.len()]);
    }
}

/// Whoever is told that something is to be delivered, and finds nothing, might not look again for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_finds_a_delivery_finds_its_events() {
    let folder = Folder::new("due");
    let store = Arc::new(open(&folder.path("a.db")));
    let ids: Vec<_> = (0..48).map(|n| format!("t{n}")).collect();
    for id in &ids {
        create(id, TaskState::Working, 0).push("x").done(&store).await;
    }
    for _ in 0..30 {
        let found = on_threads(ids.len() + 1, |thread| {
            let (store, id, count) = (store.clone(), ids.get(thread).cloned(), ids.len());
            async move {
                let Some(id) = id else { return deliver(&store, count).await };
                draft(&id).chunk("a", "0").done(&store).await;
                0
            }
        });
        assert_eq!(found.await.last(), Some(&0), "deliveries without events");
    }
}

/// Takes what is due until each of so many tasks has been met. Gives how often there was nothing to deliver.
async fn deliver(store: &Store, tasks: usize) -> usize {
    let (mut met, mut nothing) = (std::collections::HashSet::new(), 0);
    while met.len() < tasks {
        // The last one first: it is the last to be shown, too.
        for delivery in store.deliveries(None, store.now(), tasks).await.unwrap().into_iter().rev() {
            let events = read(store, delivery.task.as_str(), delivery.cursor, 10).await;
            match events.last() {
                Some(last) => assert!(store.delivered(&delivery, last.number).await.unwrap()),
                None => nothing += 1,
            }
            met.insert(delivery.task);
        }
    }
    nothing
}
