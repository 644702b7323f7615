//! Tasks that were being worked on.

use chancery_protocol::{ContextId, TaskState};
use chancery_store::{Store, StoreLimits, Unfinished};

use crate::support::*;

pub(crate) async fn only_tasks_at_work_are_unfinished(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    for state in ACTIVE.into_iter().chain(TERMINAL) {
        draft(&format!("{state:?}")).context("talk").created(state, 0).done(&store).await;
    }
    let found = store.unfinished("agent", None, 100).await.unwrap();
    let expected = ["Submitted", "Working"].map(|id| Unfinished {
        scope: scope(),
        task: id.into(),
        context_id: Some(ContextId::from("talk")),
    });
    assert_eq!(found, expected);
    assert_eq!(store.unfinished("other", None, 100).await.unwrap(), []);
    // They come and go with their states.
    draft("Submitted").status(TaskState::Completed, 1).done(&store).await;
    draft("InputRequired").status(TaskState::Working, 1).done(&store).await;
    draft("Working").chunk("a", "0").done(&store).await;
    let found = store.unfinished("agent", None, 100).await.unwrap();
    let ids: Vec<_> = found.iter().map(|one| one.task.as_str()).collect();
    assert_eq!(ids, ["InputRequired", "Working"]);
}

pub(crate) async fn tasks_that_wait_are_found_by_their_state(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    for state in ACTIVE.into_iter().chain(TERMINAL) {
        draft(&format!("{state:?}")).context("talk").created(state, 0).done(&store).await;
    }
    let other = scope_of("r2", "a", "agent");
    create("other", TaskState::AuthRequired, 0).commit(&store, &other).await.unwrap();
    let found = store.waiting("agent", TaskState::AuthRequired, None, 1).await.unwrap();
    let [first] = &found[..] else { panic!("{found:?}") };
    let rest = store.waiting("agent", TaskState::AuthRequired, Some(first), 100).await.unwrap();
    let ids: Vec<_> = found.iter().chain(&rest).map(|one| (one.scope.clone(), one.task.as_str())).collect();
    let mut expected = [(scope(), "AuthRequired"), (other, "other")];
    expected.sort();
    assert_eq!(ids, expected);
    assert_eq!(store.waiting("other", TaskState::AuthRequired, None, 100).await.unwrap(), []);
    draft("AuthRequired").status(TaskState::Working, 1).done(&store).await;
    let left = store.waiting("agent", TaskState::AuthRequired, None, 100).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

pub(crate) async fn unfinished_pages_join(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    let mut expected = Vec::new();
    for (realm, owner) in [("r2", "a"), ("r1", "b"), ("r1", "a")] {
        for n in [2, 0, 3, 1] {
            let id = format!("t{n}");
            for agent in ["agent", "other"] {
                let scope = scope_of(realm, owner, agent);
                create(&id, TaskState::Working, n).commit(&store, &scope).await.unwrap();
            }
            expected.push((scope_of(realm, owner, "agent"), id));
        }
    }
    expected.sort();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.unfinished("agent", after.as_ref(), 5).await.unwrap();
        assert!(page.len() <= 5);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        found.extend(page.into_iter().map(|one| (one.scope, one.task.to_string())));
    }
    assert_eq!(found, expected);
}
