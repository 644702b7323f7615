//! Nothing crosses from one scope to another.

use std::sync::Arc;

use chancery_protocol::{TaskId, TaskState};
use chancery_store::{Scope, Store, StoreError};

use crate::support::*;

/// Scopes that differ from the usual one in one thing, or only in where a name ends.
fn others() -> [Scope; 7] {
    [
        scope_of("other", "owner", "agent"),
        scope_of("realm", "other", "agent"),
        scope_of("realm", "owner", "other"),
        scope_of("realm", "agent", "owner"),
        scope_of("realmo", "wner", "agent"),
        scope_of("realm", "ownera", "gent"),
        scope_of("", "", ""),
    ]
}

pub(crate) async fn other_scopes_see_nothing(store: Arc<Store>) {
    create("t", TaskState::Working, 0).chunk("a", "0").state("1").done(&store).await;
    let id = TaskId::from("t");
    for populated in [false, true] {
        for scope in others() {
            if populated {
                create("u", TaskState::Working, 0).commit(&store, &scope).await.unwrap();
            }
            let found = store.snapshot(&scope, &id).await;
            assert!(matches!(found, Err(StoreError::NotFound { .. })), "{scope:?}: {found:?}");
            let found = store.read(&scope, &id, 0, 10).await;
            assert!(matches!(found, Err(StoreError::NotFound { .. })), "{scope:?}: {found:?}");
            let page = store.list(&scope, &query(10)).await.unwrap();
            let there: &[&str] = if populated { &["u"] } else { &[] };
            assert_eq!(
                (ids(&page), page.total),
                (there.iter().map(ToString::to_string).collect(), there.len()),
                "{scope:?}"
            );
        }
    }
    let page = store.list(&scope(), &query(10)).await.unwrap();
    assert_eq!((ids(&page), page.total), (vec!["t".to_owned()], 1));
}

pub(crate) async fn other_scopes_change_nothing(store: Arc<Store>) {
    create("t", TaskState::Working, 0).chunk("a", "0").state("1").done(&store).await;
    let before = picture(&store, "t").await;
    for scope in others() {
        create("u", TaskState::Working, 0).commit(&store, &scope).await.unwrap();
        let attempts = [
            draft("t").status(TaskState::Canceled, 9),
            draft("t").chunk("a", "1"),
            draft("t").state("2"),
            draft("t").chunk("a", "1").status(TaskState::Completed, 9),
        ];
        for attempt in attempts {
            let outcome = attempt.commit(&store, &scope).await;
            assert!(matches!(outcome, Err(StoreError::NotFound { .. })), "{scope:?}: {outcome:?}");
        }
        assert_eq!(picture(&store, "t").await, before);
    }
}

pub(crate) async fn scopes_hold_the_same_id_apart(store: Arc<Store>) {
    let id = TaskId::from("t");
    create("t", TaskState::Working, 0).chunk("a", "mine").state("0").done(&store).await;
    let before = picture(&store, "t").await;
    for (n, scope) in (1_i64..).zip(others()) {
        let made =
            create("t", TaskState::Submitted, n).state(&n.to_string()).commit(&store, &scope).await.unwrap();
        assert_eq!(numbers(&made.events), [1]);
        let ended = draft("t").status(TaskState::Completed, n).commit(&store, &scope).await.unwrap();
        assert_eq!(numbers(&ended.events), [2]);
    }
    assert_eq!(picture(&store, "t").await, before);
    for (n, scope) in (1_i64..).zip(others()) {
        let found = store.snapshot(&scope, &id).await.unwrap();
        assert_eq!(value(&found.task).status, status(TaskState::Completed, n));
        assert_eq!(found.state.unwrap().as_str(), n.to_string());
        assert_eq!(value(&found.task).artifacts, []);
        assert_eq!(store.list(&scope, &query(10)).await.unwrap().total, 1);
    }
}
