//! Push notification configurations as records of a task.

use chancery_protocol::{TaskId, TaskState};
use chancery_store::{Store, StoreError, StoreLimits};

use crate::support::*;

async fn put(store: &Store, id: &str) {
    let kept = store.put_push_config(&scope(), &task(), push_config(id)).await.unwrap();
    assert_eq!(*kept, push_config(id));
}

async fn urls(store: &Store) -> Vec<String> {
    let configs = store.push_configs(&scope(), &task()).await.unwrap();
    configs.iter().map(|config| config.url.rsplit('/').next().unwrap().to_owned()).collect()
}

fn task() -> TaskId {
    TaskId::from("t")
}

pub(crate) async fn configurations_come_and_go(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).done(&store).await;
    assert_eq!(urls(&store).await, [""; 0]);
    put(&store, "b").await;
    put(&store, "a").await;
    draft("t").status(TaskState::Working, 1).push("c").done(&store).await;
    assert_eq!(urls(&store).await, ["b", "a", "c"]);
    let found = store.push_config(&scope(), &task(), &"a".into()).await.unwrap();
    assert_eq!(*found, push_config("a"));

    store.delete_push_config(&scope(), &task(), &"b".into()).await.unwrap();
    assert_eq!(urls(&store).await, ["a", "c"]);
    // They outlive the end of their task.
    draft("t").status(TaskState::Completed, 2).done(&store).await;
    assert_eq!(urls(&store).await, ["a", "c"]);
    put(&store, "d").await;
    assert_eq!(urls(&store).await, ["a", "c", "d"]);

    // One without an id is given one.
    let nameless = chancery_protocol::TaskPushNotificationConfig { id: None, ..push_config("e") };
    let kept = store.put_push_config(&scope(), &task(), nameless).await.unwrap();
    let found = store.push_config(&scope(), &task(), kept.id.as_ref().unwrap()).await.unwrap();
    assert_eq!((&found, found.url.as_str()), (&kept, "https://receiver.example/e"));
}

pub(crate) async fn an_id_is_used_once_and_replaces(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).push("a").done(&store).await;
    put(&store, "b").await;
    let mut other = push_config("a");
    other.url = "https://elsewhere.example/x".to_owned();
    store.put_push_config(&scope(), &task(), other.clone()).await.unwrap();
    assert_eq!(urls(&store).await, ["x", "b"]);
    assert_eq!(*store.push_config(&scope(), &task(), &"a".into()).await.unwrap(), other);
    draft("t").chunk("c", "0").push("a").done(&store).await;
    assert_eq!(urls(&store).await, ["a", "b"]);
    // Ids belong to their task.
    create("u", TaskState::Working, 0).push("a").done(&store).await;
    store.delete_push_config(&scope(), &"u".into(), &"a".into()).await.unwrap();
    assert_eq!(urls(&store).await, ["a", "b"]);
}

pub(crate) async fn too_many_are_refused(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.push_configs = 2));
    create("t", TaskState::Working, 0).push("a").done(&store).await;
    put(&store, "b").await;
    let is_too_many = |error: &StoreError| matches!(error, StoreError::TooManyPushConfigs { task, limit: 2 } if task.as_str() == "t");
    let error = store.put_push_config(&scope(), &task(), push_config("c")).await.unwrap_err();
    assert!(is_too_many(&error), "{error}");
    assert!(error.to_string().contains('2'), "{error}");
    // The batch that brings it is refused with it.
    let before = picture(&store, "t").await;
    let error = draft("t").chunk("a", "0").push("c").refused(&store).await;
    assert!(is_too_many(&error), "{error}");
    assert_eq!(picture(&store, "t").await, before);
    // To replace one is not to have one more.
    put(&store, "b").await;
    draft("t").chunk("a", "0").push("a").done(&store).await;
    store.delete_push_config(&scope(), &task(), &"a".into()).await.unwrap();
    put(&store, "c").await;
    assert_eq!(urls(&store).await, ["b", "c"]);

    let none = open(limits(|limits| limits.task.push_configs = 0));
    let error = create("t", TaskState::Working, 0).push("a").refused(&none).await;
    assert!(matches!(error, StoreError::TooManyPushConfigs { limit: 0, .. }), "{error}");
    assert!(is_gone(&none, "t").await);
}

pub(crate) async fn unknown_tasks_and_configurations_are_told_apart(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    for exists in [false, true] {
        if exists {
            create("t", TaskState::Working, 0).done(&store).await;
        }
        let gone = |error: &StoreError| match error {
            StoreError::NotFound { id } => !exists && id.as_str() == "t",
            StoreError::UnknownPushConfig { task, id } => {
                exists && (task.as_str(), id.as_str()) == ("t", "a")
            }
            _ => false,
        };
        let error = store.push_config(&scope(), &task(), &"a".into()).await.unwrap_err();
        assert!(gone(&error), "{error}");
        let error = store.delete_push_config(&scope(), &task(), &"a".into()).await.unwrap_err();
        assert!(gone(&error), "{error}");
        assert_eq!(store.push_configs(&scope(), &task()).await.is_ok(), exists);
        assert_eq!(store.put_push_config(&scope(), &task(), push_config("b")).await.is_ok(), exists);
    }
    // Now it has others.
    let error = store.push_config(&scope(), &task(), &"a".into()).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownPushConfig { .. }), "{error}");
}

pub(crate) async fn other_scopes_have_no_part_in_them(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    create("t", TaskState::Working, 0).push("a").done(&store).await;
    let others = [
        scope_of("other", "owner", "agent"),
        scope_of("realm", "other", "agent"),
        scope_of("realm", "owner", "other"),
    ];
    for other in &others {
        assert!(store.push_configs(other, &task()).await.is_err());
        assert!(store.push_config(other, &task(), &"a".into()).await.is_err());
        assert!(store.delete_push_config(other, &task(), &"a".into()).await.is_err());
        assert!(store.put_push_config(other, &task(), push_config("b")).await.is_err());
        // A task of the same id has its own.
        create("t", TaskState::Working, 0).push("b").commit(&store, other).await.unwrap();
        let configs = store.push_configs(other, &task()).await.unwrap();
        assert_eq!(configs.iter().map(|config| config.id.clone().unwrap()).collect::<Vec<_>>(), ["b".into()]);
    }
    assert_eq!(urls(&store).await, ["a"]);
    let pending = store.deliveries(None, store.now(), 10).await.unwrap();
    let scopes: Vec<_> = pending.iter().map(|delivery| delivery.scope.clone()).collect();
    assert_eq!(scopes, [&[scope()], &others[..]].concat());
}
