//! Reserved calls: written down before their agent has shown anything, and no task to anybody.

use std::sync::Arc;

use chancery_protocol::{Json, TaskId, TaskState};
use chancery_store::{ReservationChange, ReservationWrite, ReservedCall, Scope, Store, StoreError};

use crate::support::*;

fn call(text: &str) -> Json {
    Json::from_value(&text).unwrap()
}

async fn change(store: &Store, id: &str, change: ReservationChange) -> Result<(), StoreError> {
    store.reserve(&scope(), &TaskId::from(id), ReservationWrite { change, edge: None }).await
}

async fn put(store: &Store, id: &str, key: Option<(&str, u8)>) -> Result<(), StoreError> {
    let admission = key.map(|(key, body)| admission(key, body));
    change(store, id, ReservationChange::Put(call(id), admission)).await
}

async fn reserved(store: &Store) -> Vec<String> {
    let found = store.reserved(&scope().agent, None, 10).await.unwrap();
    found.into_iter().map(|one| one.task.to_string()).collect()
}

pub(crate) async fn a_reserved_call_is_no_task(store: Arc<Store>) {
    put(&store, "t", None).await.unwrap();
    assert!(is_gone(&store, "t").await);
    assert_eq!(reserved(&store).await, ["t"]);
    let found = store.reserved(&scope().agent, None, 10).await.unwrap();
    let expected = ReservedCall { scope: scope(), task: TaskId::from("t"), call: call("t") };
    assert_eq!(found, [expected]);
    change(&store, "t", ReservationChange::Put(call("changed"), None)).await.unwrap();
    assert_eq!(store.reserved(&scope().agent, None, 10).await.unwrap()[0].call, call("changed"));
    assert!(store.reserved("another", None, 10).await.unwrap().is_empty());
}

pub(crate) async fn reserved_calls_are_found_in_pages(store: Arc<Store>) {
    for id in ["b", "c", "a"] {
        put(&store, id, None).await.unwrap();
    }
    let first = store.reserved(&scope().agent, None, 2).await.unwrap();
    let rest = store.reserved(&scope().agent, first.last(), 2).await.unwrap();
    let ids: Vec<_> = first.iter().chain(&rest).map(|one| one.task.as_str().to_owned()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

pub(crate) async fn a_reserved_call_becomes_a_task(store: Arc<Store>) {
    for (id, state) in [("t", TaskState::Working), ("u", TaskState::Completed)] {
        put(&store, id, Some((id, 1))).await.unwrap();
        let mut opening = create(id, state, 0);
        opening.batch.opens_reserved = true;
        opening.done(&store).await;
        assert_eq!(snapshot(&store, id).await.number, 1);
        assert!(reserved(&store).await.is_empty());
        let used = store.admitted(&scope(), &admission(id, 1)).await.unwrap().unwrap();
        assert_eq!((used.task.as_str(), used.answer), (id, None));
    }
}

pub(crate) async fn a_key_reserves_once(store: Arc<Store>) {
    put(&store, "t", Some(("k", 1))).await.unwrap();
    let error = put(&store, "u", Some(("k", 1))).await.unwrap_err();
    assert!(matches!(error, StoreError::Duplicate { task } if task.as_str() == "t"));
    let error = create("u", TaskState::Working, 0).key("k", 1).refused(&store).await;
    assert!(matches!(error, StoreError::Duplicate { task } if task.as_str() == "t"));
    assert!(matches!(put(&store, "u", Some(("k", 2))).await, Err(StoreError::KeyReused)));
    assert_eq!(reserved(&store).await, ["t"]);
}

pub(crate) async fn an_answer_is_kept_with_its_key(store: Arc<Store>) {
    put(&store, "t", Some(("k", 1))).await.unwrap();
    change(&store, "t", ReservationChange::Answer(call("hello"), Some("k".to_owned()))).await.unwrap();
    assert!(reserved(&store).await.is_empty() && is_gone(&store, "t").await);
    let used = store.admitted(&scope(), &admission("k", 1)).await.unwrap().unwrap();
    assert_eq!((used.task.as_str(), used.answer), ("t", Some(call("hello"))));
    assert!(matches!(put(&store, "u", Some(("k", 1))).await, Err(StoreError::Duplicate { .. })));
}

pub(crate) async fn what_never_left_frees_its_key(store: Arc<Store>) {
    put(&store, "t", Some(("k", 1))).await.unwrap();
    change(&store, "t", ReservationChange::Release(Some("k".to_owned()))).await.unwrap();
    assert!(reserved(&store).await.is_empty());
    assert_eq!(store.admitted(&scope(), &admission("k", 1)).await.unwrap(), None);
    put(&store, "u", Some(("k", 1))).await.unwrap();
    assert_eq!(reserved(&store).await, ["u"]);
}

pub(crate) async fn reserved_calls_go_with_their_owner(store: Arc<Store>) {
    put(&store, "t", None).await.unwrap();
    let other = Scope { owner: "somebody else".into(), ..scope() };
    let write = ReservationWrite { change: ReservationChange::Put(call("o"), None), edge: None };
    store.reserve(&other, &TaskId::from("o"), write).await.unwrap();
    store.delete_owner(&scope().realm, &scope().owner).await.unwrap();
    assert_eq!(reserved(&store).await, ["o"]);
}
