//! Which tasks a list shows, and in which order.

use std::sync::Arc;

use chancery_protocol::{ContextId, TaskId, TaskState, TaskStatus, Timestamp};
use chancery_store::{ListQuery, Store};

use crate::support::*;

pub(crate) async fn newest_status_first(store: Arc<Store>) {
    let tasks = [("b", 10), ("d", 30), ("a", 20), ("c", 20), ("e", 0), ("f", 20), ("g", 30), ("h", -5)];
    for (id, millis) in tasks {
        create(id, TaskState::Working, millis).done(&store).await;
    }
    let page = store.list(&scope(), &query(100)).await.unwrap();
    assert_eq!(ids(&page), ["g", "d", "f", "c", "a", "b", "e", "h"]);
    assert_eq!((page.total, page.next), (8, None));
}

pub(crate) async fn only_a_status_moves_a_task(store: Arc<Store>) {
    for (id, millis) in [("a", 10), ("b", 20), ("c", 30)] {
        create(id, TaskState::Submitted, millis).done(&store).await;
    }
    draft("a").chunk("x", "1").state("1").done(&store).await;
    let page = store.list(&scope(), &query(10)).await.unwrap();
    assert_eq!(ids(&page), ["c", "b", "a"]);
    // What is listed is the task as it stands.
    assert_eq!(page.tasks[2], snapshot(&store, "a").await.task);
    assert_eq!(value(&page.tasks[2]).artifacts.len(), 1);

    draft("a").status(TaskState::Working, 40).done(&store).await;
    draft("b").status(TaskState::Completed, 50).done(&store).await;
    draft("c").status(TaskState::Working, 15).done(&store).await;
    // One that is refused moves nothing.
    draft("c").status(TaskState::Submitted, 60).refused(&store).await;
    let page = store.list(&scope(), &query(10)).await.unwrap();
    assert_eq!(ids(&page), ["b", "a", "c"]);
    assert_eq!(page.total, 3);
    let done = ListQuery { state: Some(TaskState::Submitted), ..query(10) };
    assert_eq!(store.list(&scope(), &done).await.unwrap().total, 0);
}

/// What filters look at, of tasks of three conversations in many states at many times.
pub(crate) async fn assorted(store: &Store) -> Vec<(String, &'static str, TaskState, i64)> {
    let states = [TaskState::Submitted, TaskState::Working, TaskState::InputRequired, TaskState::Completed];
    let mut tasks = Vec::new();
    for n in 0..60_i64 {
        let context = ["a", "b", "ab"][usize::try_from(n % 3).unwrap()];
        let state = states[usize::try_from(n / 2 % 4).unwrap()];
        let (id, millis) = (format!("{:02}", n * 37 % 60), n * 7 % 20 * 10);
        // Half of them come to where they are from somewhere else.
        if state == TaskState::Submitted || n % 4 == 0 {
            draft(&id).context(context).created(state, millis).done(store).await;
        } else {
            draft(&id).context(context).created(TaskState::Submitted, 500).done(store).await;
            draft(&id).context(context).status(state, millis).done(store).await;
        }
        tasks.push((id, context, state, millis));
    }
    tasks.sort_by(|a, b| (b.3, &b.0).cmp(&(a.3, &a.0)));
    tasks
}

/// The task that opened a context is in it like those that joined later, whatever became of them.
pub(crate) async fn a_context_has_who_opened_it_and_who_joined(store: Arc<Store>) {
    let [one, other] = [TaskId::generate(), TaskId::generate()];
    let context = ContextId::opened_by(&one);
    draft(one.as_str()).context(context.as_str()).created(TaskState::Working, 20).done(&store).await;
    draft(other.as_str()).context(context.as_str()).created(TaskState::Working, 10).done(&store).await;
    create("elsewhere", TaskState::Working, 30).done(&store).await;
    let unfinished = store.unfinished("agent", None, 100).await.unwrap();
    let of = |task: &TaskId| unfinished.iter().find(|found| found.task == *task).unwrap().context_id.clone();
    assert_eq!((of(&one), of(&other)), (Some(context.clone()), Some(context.clone())));

    draft(one.as_str()).status(TaskState::Completed, 40).done(&store).await;
    let all = ListQuery { context_id: Some(context.clone()), ..query(100) };
    let page = store.list(&scope(), &all).await.unwrap();
    assert_eq!((ids(&page), page.total), (vec![one.to_string(), other.to_string()], 2));
    let first = store.list(&scope(), &ListQuery { limit: 1, ..all.clone() }).await.unwrap();
    assert_eq!((ids(&first), first.total), (vec![one.to_string()], 2));
    let second = store.list(&scope(), &ListQuery { after: first.next, ..all.clone() }).await.unwrap();
    assert_eq!((ids(&second), second.total), (vec![other.to_string()], 2));
    let late = store.list(&scope(), &ListQuery { since: Some(at(41)), ..all.clone() }).await.unwrap();
    assert_eq!((late.tasks.len(), late.total), (0, 0));
    let working = ListQuery { state: Some(TaskState::Working), ..all };
    let page = store.list(&scope(), &working).await.unwrap();
    assert_eq!((ids(&page), page.total), (vec![other.to_string()], 1));
    // The id of a task says nothing of a context that it never had.
    let strange = ListQuery { context_id: Some(ContextId::opened_by(&other)), ..query(100) };
    let page = store.list(&scope(), &strange).await.unwrap();
    assert_eq!((page.tasks.len(), page.total), (0, 0));
}

pub(crate) async fn filters_alone_and_together(store: Arc<Store>) {
    let tasks = assorted(&store).await;
    let states = [
        TaskState::Submitted,
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::Completed,
        TaskState::Failed,
    ];
    let states: Vec<_> = states.into_iter().map(Some).chain([None]).collect();
    let mut found = 0;
    for context in [None, Some("a"), Some("b"), Some("ab"), Some("c")] {
        for state in states.iter().copied() {
            for since in [None, Some(-1), Some(0), Some(95), Some(100), Some(190), Some(191)] {
                let expected: Vec<_> = tasks
                    .iter()
                    .filter(|task| context.is_none_or(|context| task.1 == context))
                    .filter(|task| state.is_none_or(|state| task.2 == state))
                    .filter(|task| since.is_none_or(|since| task.3 >= since))
                    .map(|task| task.0.as_str())
                    .collect();
                let query = ListQuery {
                    context_id: context.map(ContextId::from),
                    state,
                    since: since.map(at),
                    ..query(100)
                };
                let page = store.list(&scope(), &query).await.unwrap();
                assert_eq!(ids(&page), expected, "{query:?}");
                assert_eq!(page.total, expected.len(), "{query:?}");
                assert_eq!(page.next, None, "{query:?}");
                // The total is of all pages, not of this one.
                let first = store.list(&scope(), &ListQuery { limit: 2, ..query }).await.unwrap();
                assert_eq!(ids(&first), expected[..expected.len().min(2)]);
                assert_eq!(first.total, expected.len());
                found += expected.len();
            }
        }
    }
    assert!(found > 500, "the filters let through too little to tell: {found}");
}

pub(crate) async fn since_is_inclusive(store: Arc<Store>) {
    create("t", TaskState::Working, 1_000).done(&store).await;
    for (since, there) in [(999, 1), (1_000, 1), (1_001, 0)] {
        let query = ListQuery { since: Some(at(since)), ..query(10) };
        let page = store.list(&scope(), &query).await.unwrap();
        assert_eq!((page.tasks.len(), page.total), (there, there), "since {since}");
    }
    // It is the status that counts, not the beginning.
    draft("t").status(TaskState::InputRequired, 2_000).done(&store).await;
    let query = ListQuery { since: Some(at(2_000)), ..query(10) };
    assert_eq!(store.list(&scope(), &query).await.unwrap().total, 1);
}

/// Others write their times to the micro- or nanosecond, and ask with what they were told.
pub(crate) async fn since_is_exact_below_a_millisecond(store: Arc<Store>) {
    let time = |text: &str| Timestamp::parse(&format!("2100-01-01T00:00:00.{text}Z")).unwrap();
    create("t", TaskState::Submitted, 0).done(&store).await;
    let fine = TaskStatus { state: TaskState::Working, message: None, timestamp: Some(time("123456789")) };
    draft("t").full_status(fine, None, None).done(&store).await;
    for (since, there) in
        [("123", 1), ("123456", 1), ("123456789", 1), ("123456790", 0), ("1239", 0), ("124", 0)]
    {
        let query = ListQuery { since: Some(time(since)), ..query(10) };
        assert_eq!(store.list(&scope(), &query).await.unwrap().total, there, "since .{since}");
    }
}

pub(crate) async fn an_unknown_scope_is_empty(store: Arc<Store>) {
    let page = store.list(&scope(), &query(10)).await.unwrap();
    assert_eq!((page.tasks.len(), page.next, page.total), (0, None, 0));
}
