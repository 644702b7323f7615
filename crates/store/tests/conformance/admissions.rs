//! Idempotency keys.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{TaskState, Timestamp};
use chancery_store::{Scope, Store, StoreError, StoreLimits};

use crate::support::*;

async fn admitted(store: &Store, key: &str, body: u8) -> Option<String> {
    store.admitted(&scope(), &admission(key, body)).await.unwrap().map(|used| used.task.to_string())
}

fn is_duplicate_of(error: &StoreError, id: &str) -> bool {
    matches!(error, StoreError::Duplicate { task } if task.as_str() == id)
}

pub(crate) async fn a_key_is_used_once(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    let begin = |id: &str| create(id, TaskState::InputRequired, 0);
    assert_eq!(admitted(&store, "k", 1).await, None);
    begin("t").key("k", 1).done(&store).await;
    assert_eq!(admitted(&store, "k", 1).await.as_deref(), Some("t"));
    // The repeated request would have made another task, or have gone on with this one.
    for batch in
        [begin("u"), begin("t"), draft("t").status(TaskState::Working, 1), draft("u").chunk("a", "1")]
    {
        let error = batch.key("k", 1).refused(&store).await;
        assert!(is_duplicate_of(&error, "t"), "{error}");
    }
    // Another body under the same key.
    assert!(matches!(store.admitted(&scope(), &admission("k", 2)).await, Err(StoreError::KeyReused)));
    let task = store.task_of_key(&scope(), "k").await.unwrap();
    assert_eq!(task.map(|task| task.to_string()).as_deref(), Some("t"));
    assert_eq!(store.task_of_key(&scope(), "other").await.unwrap(), None);
    for batch in [begin("u"), draft("t").status(TaskState::Working, 1)] {
        let error = batch.key("k", 2).refused(&store).await;
        assert!(matches!(error, StoreError::KeyReused), "{error}");
    }
    assert!(is_gone(&store, "u").await);
    assert_eq!(snapshot(&store, "t").await.number, 1);

    // Another key, the same body; the message that goes on has its own.
    begin("u").key("l", 1).done(&store).await;
    draft("t").status(TaskState::Working, 1).key("m", 3).done(&store).await;
    let error = draft("t").status(TaskState::Working, 1).key("m", 3).refused(&store).await;
    assert!(is_duplicate_of(&error, "t"), "{error}");
    assert_eq!(snapshot(&store, "t").await.number, 2);
    draft("t").chunk("a", "1").key("n", 4).done(&store).await;
    assert!(is_duplicate_of(&draft("t").chunk("a", "1").key("n", 4).refused(&store).await, "t"));
    // The keys outlive the end.
    draft("t").status(TaskState::Completed, 2).done(&store).await;
    assert!(is_duplicate_of(&begin("v").key("k", 1).refused(&store).await, "t"));
}

pub(crate) async fn keys_belong_to_a_scope(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).key("k", 1).done(&store).await;
    let others = [
        scope_of("other", "owner", "agent"),
        scope_of("realm", "other", "agent"),
        scope_of("realm", "owner", "other"),
    ];
    for (n, scope) in (2..).zip(&others) {
        assert_eq!(store.admitted(scope, &admission("k", 1)).await.unwrap(), None);
        let id = format!("t{n}");
        create(&id, TaskState::Working, 0).key("k", n).commit(&store, scope).await.unwrap();
        let task = store.admitted(scope, &admission("k", n)).await.unwrap().unwrap();
        assert_eq!(task.task.as_str(), id);
    }
    assert_eq!(admitted(&store, "k", 1).await.as_deref(), Some("t"));
}

pub(crate) async fn what_fails_uses_no_key(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.events = 3));
    create("t", TaskState::Working, 0).done(&store).await;
    let attempts = [
        draft("t").status(TaskState::Submitted, 1),
        draft("t").chunk("a", "1").status(TaskState::Completed, 1).chunk("a", "2"),
        draft("t").chunk("a", "1").chunk("a", "2").chunk("a", "3"),
        draft("unknown").status(TaskState::Working, 1),
        draft("unknown").chunk("a", "1"),
        create("t", TaskState::Working, 1),
        create("u", TaskState::Completed, 1).chunk("a", "1"),
    ];
    for attempt in attempts {
        let error = attempt.key("k", 1).refused(&store).await;
        assert!(!matches!(error, StoreError::Duplicate { .. } | StoreError::KeyReused), "{error}");
        assert_eq!(admitted(&store, "k", 1).await, None, "after {error}");
        assert_eq!(admitted(&store, "k", 2).await, None, "after {error}");
    }
    create("u", TaskState::Working, 0).key("k", 2).done(&store).await;
    assert_eq!(admitted(&store, "k", 2).await.as_deref(), Some("u"));
}

/// A key is as old as its use, by the clock: it is long forgotten in our time.
pub(crate) async fn keys_are_forgotten_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.retention.admissions = Duration::from_secs(3_600)));
    create("t", TaskState::Working, 0).key("k", 1).done(&store).await;
    let now = store.now().as_millis();
    store.sweep(Timestamp::from_millis(now + 1_800_000)).await;
    assert_eq!(admitted(&store, "k", 1).await.as_deref(), Some("t"));
    store.sweep(Timestamp::from_millis(now + 3_600_000)).await;
    assert_eq!(admitted(&store, "k", 1).await, None);
    create("u", TaskState::Working, 0).key("k", 2).done(&store).await;
    assert_eq!(admitted(&store, "k", 2).await.as_deref(), Some("u"));
    // The task that the key made is another matter.
    assert_eq!(snapshot(&store, "t").await.number, 1);
}

pub(crate) async fn the_cap_forgets_the_oldest_key(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.retention.max_admissions = 3));
    for n in 0..10_u8 {
        create(&format!("t{n}"), TaskState::Working, 0).key(&format!("k{n}"), n).done(&store).await;
    }
    store.sweep(Timestamp::now()).await;
    for n in 0..10_u8 {
        let task = (n >= 7).then(|| format!("t{n}"));
        assert_eq!(admitted(&store, &format!("k{n}"), n).await, task, "k{n}");
    }
}

pub(crate) async fn one_of_many_commits(open: impl Fn(StoreLimits) -> Store) {
    let store = Arc::new(open(StoreLimits::default()));
    for round in 0..20_usize {
        let key = format!("k{round}");
        let outcomes = on_threads(32, |thread| {
            let (store, key) = (store.clone(), key.clone());
            async move {
                let batch = create(&format!("t{round}-{thread}"), TaskState::Working, 0).chunk("a", "0");
                batch.key(&key, 1).commit(&store, &scope()).await
            }
        })
        .await;
        let winner = admitted(&store, &key, 1).await.unwrap();
        let (mut won, mut lost) = (0, 0);
        for outcome in outcomes {
            match outcome {
                Ok(appended) => {
                    assert_eq!(value(&appended.task).id.as_str(), winner);
                    won += 1;
                }
                Err(error) => {
                    assert!(is_duplicate_of(&error, &winner), "{error}");
                    lost += 1;
                }
            }
        }
        assert_eq!((won, lost), (1, 31));
        assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, round + 1);
    }
}

pub(crate) async fn one_owner_does_not_push_out_anothers_keys(open: impl Fn(StoreLimits) -> Store) {
    for each in [100, 4] {
        let limits = limits(|limits| {
            limits.retention.max_admissions = 8;
            limits.retention.max_admissions_per_owner = each;
        });
        let store = open(limits);
        let (little, much) = (scope_of("realm", "little", "a"), scope_of("realm", "much", "a"));
        for n in 0..2_u8 {
            create(&format!("l{n}"), TaskState::Working, 0)
                .key(&format!("k{n}"), n)
                .done_in(&store, &little)
                .await;
        }
        for n in 0..20_u8 {
            create(&format!("t{n}"), TaskState::Working, 0)
                .key(&format!("k{n}"), n)
                .done_in(&store, &much)
                .await;
        }
        store.sweep(Timestamp::now()).await;
        let known = async |scope: &Scope, n: u8| {
            store.admitted(scope, &admission(&format!("k{n}"), n)).await.unwrap().is_some()
        };
        for n in 0..2 {
            assert!(known(&little, n).await, "{n} of {each}");
        }
        let stay = if each == 4 { 16 } else { 14 };
        for n in 0..20 {
            assert_eq!(known(&much, n).await, n >= stay, "{n} of {each}");
        }
    }
}
