//! Walking a list page by page.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_protocol::{ContextId, TaskId, TaskState};
use chancery_store::{ListQuery, Page, PageToken, Store, StoreError};

use crate::list::assorted;
use crate::support::*;

/// Walks all pages; the tokens travel as text.
async fn walk(store: &Store, mut query: ListQuery) -> Vec<Page> {
    let mut pages = Vec::new();
    loop {
        let page = store.list(&scope(), &query).await.unwrap();
        query.after = page.next.as_ref().map(|token| PageToken::parse(&token.to_string()).unwrap());
        let last = page.next.is_none();
        pages.push(page);
        assert!(pages.len() < 1_000, "the list has no end");
        if last {
            return pages;
        }
    }
}

fn joined(pages: &[Page]) -> Vec<String> {
    pages.iter().flat_map(ids).collect()
}

pub(crate) async fn pages_join_without_gap(store: Arc<Store>) {
    let tasks = assorted(&store).await;
    let all: Vec<_> = tasks.iter().map(|task| task.0.as_str()).collect();
    for limit in [1, 2, 7, 20, 30, 59, 60, 61] {
        let pages = walk(&store, query(limit)).await;
        assert_eq!(joined(&pages), all, "by {limit}");
        // All are full but the last, which is never empty.
        assert_eq!(pages.len(), all.len().div_ceil(limit), "by {limit}");
        assert!(pages[..pages.len() - 1].iter().all(|page| page.tasks.len() == limit));
        assert!(pages.iter().all(|page| page.total == all.len()));
    }
}

pub(crate) async fn a_page_of_large_tasks_ends_early(store: Arc<Store>) {
    let large = "x".repeat(900 << 10);
    let tasks: Vec<_> = (0..12).map(|n| format!("t{n:02}")).collect();
    for (n, id) in (0..).zip(&tasks) {
        let ends_at_once = n % 3 != 0;
        let state = if ends_at_once { TaskState::Completed } else { TaskState::Working };
        create(id, TaskState::Working, n).artifact("a", &large).status(state, n).done(&store).await;
    }
    let newest_first: Vec<_> = tasks.iter().rev().cloned().collect();
    let pages = walk(&store, query(100)).await;
    assert_eq!(joined(&pages), newest_first);
    assert!(pages.iter().all(|page| page.total == 12 && (1..=5).contains(&page.tasks.len())), "{pages:?}");
    assert_eq!(pages.len(), 3);
}

pub(crate) async fn pages_of_a_filtered_list(store: Arc<Store>) {
    let tasks = assorted(&store).await;
    let wanted: Vec<_> = tasks
        .iter()
        .filter(|task| task.1 == "b" && task.2 == TaskState::Working && task.3 >= 50)
        .map(|task| task.0.as_str())
        .collect();
    assert!(wanted.len() >= 3, "too few to make pages of: {wanted:?}");
    for limit in 1..=wanted.len() {
        let query = ListQuery {
            context_id: Some(ContextId::from("b")),
            state: Some(TaskState::Working),
            since: Some(at(50)),
            ..query(limit)
        };
        let pages = walk(&store, query).await;
        assert_eq!(joined(&pages), wanted, "by {limit}");
        assert_eq!(pages.len(), wanted.len().div_ceil(limit));
        assert!(pages.iter().all(|page| page.total == wanted.len()));
    }
}

/// Twenty tasks that stay where they are, some at the same time.
async fn twenty(store: &Store) -> Vec<String> {
    let mut tasks: Vec<_> = (0..20_i64).map(|n| (n / 3 * 100, format!("t{n:02}"))).collect();
    for (millis, id) in &tasks {
        create(id, TaskState::Working, *millis).done(store).await;
    }
    tasks.sort_by(|a, b| b.cmp(a));
    tasks.into_iter().map(|(_, id)| id).collect()
}

pub(crate) async fn pages_stand_while_tasks_come(store: Arc<Store>) {
    let order = twenty(&store).await;
    let (mut seen, mut later) = (Vec::new(), Vec::new());
    let mut query = query(3);
    loop {
        let page = store.list(&scope(), &query).await.unwrap();
        assert_eq!(page.total, 20 + 2 * later.len());
        seen.extend(page.tasks.iter().map(|task| value(task).id.to_string()));
        query.after = page.next;
        let Some(token) = &query.after else { break };
        if later.len() < 5 {
            // One that is newer than all that have been seen, and one that is older.
            let (newer, older) = (format!("newer{}", later.len()), format!("older{}", later.len()));
            create(&newer, TaskState::Working, 5_000).done(&store).await;
            let last = token.millis - at(0).as_millis();
            create(&older, TaskState::Working, last - 50).done(&store).await;
            later.push(older);
        }
        assert!(seen.len() <= 30, "the list has no end");
    }
    assert_eq!(seen.len(), seen.iter().collect::<HashSet<_>>().len(), "one is there twice: {seen:?}");
    let (came, there): (Vec<_>, Vec<_>) = seen.into_iter().partition(|id| id.contains("er"));
    assert_eq!(there, order);
    assert_eq!(came, later);
}

pub(crate) async fn pages_stand_while_tasks_move(store: Arc<Store>) {
    let order = twenty(&store).await;
    let (mut seen, mut moved) = (Vec::new(), Vec::new());
    let mut query = query(3);
    loop {
        let page = store.list(&scope(), &query).await.unwrap();
        assert_eq!(page.total, 20);
        seen.extend(page.tasks.iter().map(|task| value(task).id.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
        // One that has been seen goes to the front, namely the one that the token was made of; and one that
        // has not.
        let last = seen.last().unwrap().clone();
        draft(&last).status(TaskState::InputRequired, 5_000).done(&store).await;
        if let Some(unseen) = order.iter().rev().find(|id| !seen.contains(id) && !moved.contains(*id)) {
            draft(unseen).status(TaskState::Completed, 5_000).done(&store).await;
            moved.push(unseen.clone());
        }
        assert!(seen.len() <= 20, "the list has no end");
    }
    // Whatever stayed is seen once, in its order; what went to the front is behind us.
    let stayed: Vec<_> = order.iter().filter(|id| !moved.contains(*id)).cloned().collect();
    assert_eq!(seen, stayed);
    assert!(moved.len() >= 3, "{moved:?}");
}

pub(crate) async fn tokens_travel_as_text(store: Arc<Store>) {
    for id in ["a.b", "é/+ =", "a", "-"] {
        create(id, TaskState::Working, 0).done(&store).await;
    }
    let pages = walk(&store, query(1)).await;
    assert_eq!(joined(&pages), ["é/+ =", "a.b", "a", "-"]);
    let token = pages[0].next.as_ref().unwrap();
    assert_eq!(token, &PageToken { millis: at(0).as_millis(), id: TaskId::from("é/+ =") });
    let text = token.to_string();
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");

    let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let bad = [
        String::new(),
        "0".into(),
        "not a token".into(),
        "a".into(),
        format!("{text}="),
        format!("{text}!"),
        encoded(b"12"),
        encoded(b"x.t"),
        encoded(b".t"),
        encoded(b"1.5e3"[..1].as_ref()),
        encoded(b"99999999999999999999.t"),
        encoded(b"1.\xff"),
    ];
    for text in bad {
        assert!(matches!(PageToken::parse(&text), Err(StoreError::BadPageToken)), "{text:?}");
    }
}
