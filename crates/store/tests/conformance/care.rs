//! What an operator asks of any store.

use std::sync::Arc;

use chancery_protocol::TaskState;
use chancery_store::{Store, StoreError};

use crate::support::*;

pub(crate) async fn what_an_owner_had_is_deleted(store: Arc<Store>) {
    let theirs = scope_of("realm", "somebody", "agent");
    let theirs_too = scope_of("realm", "somebody", "other");
    let others =
        [scope(), scope_of("other", "somebody", "agent"), scope_of("realm", "somebodyelse", "agent")];
    for scope in others.iter().chain([&theirs, &theirs_too]) {
        let active = create("t", TaskState::Working, 0).chunk("a", "0").push("x").key("k", 1);
        active.commit(&store, scope).await.unwrap();
        let ended = create("u", TaskState::Submitted, 0).status(TaskState::Completed, 1);
        ended.commit(&store, scope).await.unwrap();
    }
    assert_eq!(store.check().await.unwrap().tasks, 10);
    assert_eq!(store.census().await.unwrap(), [(TaskState::Working, 5), (TaskState::Completed, 5)]);
    assert_eq!(store.delete_owner("realm", "somebody").await.unwrap(), 4);
    assert_eq!(store.delete_owner("realm", "somebody").await.unwrap(), 0);
    assert_eq!(store.census().await.unwrap(), [(TaskState::Working, 3), (TaskState::Completed, 3)]);
    for scope in [&theirs, &theirs_too] {
        assert_eq!(store.list(scope, &query(10)).await.unwrap().total, 0);
        assert_eq!(store.admitted(scope, &admission("k", 1)).await.unwrap(), None);
        let found = store.snapshot(scope, &"t".into()).await;
        assert!(matches!(found, Err(StoreError::NotFound { .. })), "{found:?}");
        let outcome = draft("t").chunk("a", "1").commit(&store, scope).await;
        assert!(matches!(outcome, Err(StoreError::NotFound { .. })), "{outcome:?}");
    }
    for scope in &others {
        assert_eq!(store.list(scope, &query(10)).await.unwrap().total, 2);
        assert!(store.admitted(scope, &admission("k", 1)).await.unwrap().is_some());
    }
    let pending = store.deliveries(None, store.now(), 10).await.unwrap();
    assert_eq!(pending.iter().map(|delivery| delivery.scope.clone()).collect::<Vec<_>>(), others);
    let checked = store.check().await.unwrap();
    assert_eq!((checked.tasks, checked.problems), (6, Vec::new()));
    // They may come back.
    create("t", TaskState::Working, 0).key("k", 2).commit(&store, &theirs).await.unwrap();
    assert_eq!(store.list(&theirs, &query(10)).await.unwrap().total, 1);
}
