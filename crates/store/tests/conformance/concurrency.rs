//! Many threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chancery_protocol::{Event, StreamResponse, TaskState};
use chancery_store::{Store, StoreError};

use crate::support::*;

const WRITERS: usize = 16;
const READERS: usize = 4;
const TASKS: usize = 16;
/// How many chunks each writer gives each task.
const CHUNKS: usize = 24;

pub(crate) async fn chunks_from_many_threads(store: Arc<Store>) {
    for task in 0..TASKS {
        create(&name(task), TaskState::Working, 0).done(&store).await;
    }
    let writing = Arc::new(AtomicUsize::new(WRITERS));
    on_threads(WRITERS + READERS, |thread| {
        let (store, writing) = (store.clone(), writing.clone());
        async move {
            if thread < WRITERS {
                // Counted out even if it fails, or the readers would wait for it.
                let _out = CountOut(&writing);
                write(&store, thread).await;
            } else {
                follow(&store, &writing).await;
            }
        }
    })
    .await;
    for task in 0..TASKS {
        let events = read(&store, &name(task), 0, usize::MAX).await;
        assert_eq!(numbers(&events), (1..=events.len() as u64).collect::<Vec<_>>());
        let chunks: Vec<_> = events.iter().filter_map(chunk).collect();
        assert_eq!(chunks.len(), WRITERS * CHUNKS);
        for writer in 0..WRITERS {
            let prefix = format!("{writer}:");
            let own: Vec<_> = chunks.iter().filter(|chunk| chunk.starts_with(&prefix)).cloned().collect();
            let given: Vec<_> = (0..CHUNKS).map(|n| format!("{prefix}{n}")).collect();
            assert_eq!(own, given, "what writer {writer} gave task {task}");
        }
        let found = snapshot(&store, &name(task)).await;
        assert_eq!(found.number, events.len() as u64);
        let task = value(&found.task);
        let parts: Vec<_> = task.artifacts[0].parts.iter().map(|part| part.as_text().unwrap()).collect();
        assert_eq!(parts, chunks);
    }
    let page = store.list(&scope(), &query(100)).await.unwrap();
    assert_eq!((page.tasks.len(), page.total), (TASKS, TASKS));
}

struct CountOut<'a>(&'a AtomicUsize);

impl Drop for CountOut<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn name(task: usize) -> String {
    format!("t{task:02}")
}

fn chunk(event: &Event) -> Option<String> {
    match event.payload().unwrap() {
        StreamResponse::ArtifactUpdate(update) => update.artifact.parts[0].as_text().map(str::to_owned),
        _ => None,
    }
}

/// Gives every task its chunks, and now and then a status.
async fn write(store: &Store, writer: usize) {
    for n in 0..CHUNKS {
        for turn in 0..TASKS {
            let task = name((writer + turn) % TASKS);
            let mut batch = draft(&task).chunk("a", &format!("{writer}:{n}"));
            if (n + turn) % 8 == 0 {
                let millis = i64::try_from(writer * n).unwrap();
                batch = batch.status(TaskState::Working, millis);
            }
            let length = batch.wire().len();
            let appended = batch.done(store).await;
            assert_eq!(appended.events.len(), length);
            assert_eq!(chunk(&appended.events[0]).unwrap(), format!("{writer}:{n}"));
            let first = appended.events[0].number;
            assert_eq!(read(store, &task, first - 1, length).await, appended.events);
        }
    }
}

/// Reads everything as it comes: what is next, never past a gap, and never ahead of the task itself.
async fn follow(store: &Store, writing: &AtomicUsize) {
    let mut seen = [0; TASKS];
    loop {
        let last_round = writing.load(Ordering::Acquire) == 0;
        for (task, seen) in seen.iter_mut().enumerate() {
            let events = read(store, &name(task), *seen, usize::MAX).await;
            for event in &events {
                assert_eq!(event.number, *seen + 1);
                *seen = event.number;
            }
            let found = snapshot(store, &name(task)).await;
            assert!(found.number >= *seen);
            if last_round {
                assert_eq!(found.number, *seen);
            }
        }
        let page = store.list(&scope(), &query(100)).await.unwrap();
        assert_eq!((page.tasks.len(), page.total), (TASKS, TASKS));
        let order: Vec<_> =
            page.tasks.iter().map(|task| (value(task).status.timestamp, value(task).id.clone())).collect();
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        if last_round {
            return;
        }
    }
}

pub(crate) async fn one_end_wins(store: Arc<Store>) {
    for round in 0..50_usize {
        let id = name(round);
        create(&id, TaskState::Working, 0).done(&store).await;
        let outcomes = on_threads(8, |thread| {
            let (store, id) = (store.clone(), id.clone());
            async move {
                let end = draft(&id).saying(TERMINAL[thread % 4], 1, &thread.to_string());
                end.commit(&store, &scope()).await
            }
        })
        .await;
        let found = snapshot(&store, &id).await;
        let mut winners = Vec::new();
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(appended) => {
                    assert_eq!(numbers(&appended.events), [2]);
                    assert_eq!(appended.task, found.task);
                    assert_eq!(texts(value(&found.task).status.message.as_deref()), [thread.to_string()]);
                    winners.push(thread);
                }
                Err(StoreError::Transition { from, .. }) => assert_eq!(from, found.task.state()),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(found.number, 2);
        assert_eq!(read(&store, &id, 0, 100).await.len(), 2);
    }
}

pub(crate) async fn nothing_slips_in_after_the_end(store: Arc<Store>) {
    for round in 0..50_usize {
        let id = name(round);
        create(&id, TaskState::Working, 0).done(&store).await;
        let written = on_threads(8, |thread| {
            let (store, id) = (store.clone(), id.clone());
            async move {
                // The last thread ends the task; the others write until they hear of it.
                for n in 0..1_000 {
                    let mut batch = draft(&id).chunk("a", &format!("{thread}:{n}"));
                    if thread == 7 && n == 10 {
                        batch = batch.status(TaskState::Completed, 1);
                    }
                    match batch.commit(&store, &scope()).await {
                        Ok(_) => {}
                        Err(StoreError::Transition { from: TaskState::Completed, .. }) => return n,
                        Err(error) => panic!("{error}"),
                    }
                }
                1_000
            }
        })
        .await;
        let events = read(&store, &id, 0, usize::MAX).await;
        let total = written.iter().sum::<usize>() + 2;
        assert_eq!(numbers(&events), (1..=total as u64).collect::<Vec<_>>());
        assert!(matches!(events[total - 1].payload().unwrap(), StreamResponse::StatusUpdate(_)));
        assert_eq!(written[7], 11);
        let found = snapshot(&store, &id).await;
        assert_eq!(value(&found.task).artifacts[0].parts.len(), total - 2);
        assert_eq!(value(&found.task).status, status(TaskState::Completed, 1));
    }
}

pub(crate) async fn one_creation_wins(store: Arc<Store>) {
    for round in 0..50_usize {
        let id = name(round);
        let outcomes = on_threads(8, |thread| {
            let (store, id) = (store.clone(), id.clone());
            async move {
                let batch = create(&id, TaskState::Working, 0).chunk("a", &thread.to_string());
                batch.commit(&store, &scope()).await
            }
        })
        .await;
        let mut winners = outcomes.into_iter().enumerate().filter_map(|(thread, outcome)| match outcome {
            Ok(_) => Some(thread),
            Err(StoreError::Exists { .. }) => None,
            Err(error) => panic!("{error}"),
        });
        let winner = winners.next().unwrap();
        assert_eq!(winners.next(), None);
        let found = snapshot(&store, &id).await;
        assert_eq!(found.number, 2);
        assert_eq!(value(&found.task).artifacts[0].parts[0].as_text(), Some(&*winner.to_string()));
    }
}
