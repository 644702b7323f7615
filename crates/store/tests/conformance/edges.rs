//! The record of admitted calls: when an edge is there, and who finds it.

use std::sync::Arc;

use chancery_protocol::{CostSource, Edge, HopId, TaskState};
use chancery_store::{EdgeQuery, MOST_EDGES, Realms, Store, StoreLimits};

use crate::calls::*;
use crate::support::*;

fn fresh(open: impl Fn(StoreLimits) -> Store) -> Store {
    open(StoreLimits::default())
}

pub(crate) async fn an_edge_is_there_if_its_batch_is(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let life = || create("t", TaskState::Submitted, 0).status(TaskState::Completed, 5);
    let whole = call(0).task("t").settled(5, 70);
    life().edge(whole.clone()).done(&store).await;
    assert_eq!(edges(&store, &all()).await, std::slice::from_ref(&whole));
    // Refused: it exists already, its key has been used, it does not go there.
    life().edge(call(1).settled(6, 1)).refused(&store).await;
    let begun = call(2).task("u");
    create("u", TaskState::Working, 0).key("k", 1).edge(begun.clone()).done(&store).await;
    create("v", TaskState::Working, 0).key("k", 1).edge(call(3)).refused(&store).await;
    draft("u").status(TaskState::Submitted, 1).edge(begun.clone().settled(7, 1)).refused(&store).await;
    draft("nowhere").chunk("a", "0").edge(call(4)).refused(&store).await;
    assert_eq!(edges(&store, &all()).await, [whole.clone(), begun.clone()]);
    assert_eq!(open_edges(&store, &realm()).await, std::slice::from_ref(&begun));
    assert_eq!(total(&sums(&store, &realm(), 0).await), (70, 1));
    // What ends the task settles the call.
    let ended = begun.settled(9, 30);
    draft("u").status(TaskState::Completed, 9).edge(ended.clone()).done(&store).await;
    assert_eq!(edges(&store, &all()).await, [whole, ended]);
    assert_eq!(open_edges(&store, &realm()).await, []);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (100, 2));
}

pub(crate) async fn a_settled_edge_never_changes(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let settled = call(0).task("t").settled(5, 70).put(&store).await;
    call(0).put(&store).await;
    call(0).by("other", "somebody", "else").put(&store).await;
    call(0).under(7, 1).settled(6, 80).put(&store).await;
    create("t", TaskState::Submitted, 0).edge(call(0)).done(&store).await;
    assert_eq!(edges(&store, &EdgeQuery::of(Realms::All)).await, [settled]);
    assert_eq!(open_edges(&store, &Realms::All).await, []);
    assert_eq!(edges(&store, &EdgeQuery { root: Some(hop(7)), ..all() }).await, []);
    assert_eq!(total(&sums(&store, &Realms::All, 0).await), (70, 1));
}

pub(crate) async fn an_open_edge_is_replaced(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    call(5).under(1, 1).put(&store).await;
    let full = Edge {
        skill: Some("s".into()),
        peer: Some("p".into()),
        parent: Some(hop(3)),
        reserved: usd(u64::MAX / 2),
        limits: chancery_protocol::CallLimits {
            ceiling_micro_usd: Some(u64::MAX),
            micro_usd: Some(7),
            tokens: Some(0),
            duration_ms: Some(30_000),
        },
        origin: Some(std::sync::Arc::new(chancery_protocol::CallOrigin {
            gateway: "elsewhere".into(),
            call: hop(4),
            root_agent: "first".into(),
            path: vec!["first".into(), "second".into()],
            micro_usd: Some(u64::MAX),
            tokens: None,
        })),
        ..call(5).under(2, 3).task("t").trace("tr")
    };
    full.clone().put(&store).await;
    assert_eq!(edges(&store, &all()).await, std::slice::from_ref(&full));
    assert_eq!(edges(&store, &EdgeQuery { root: Some(hop(1)), ..all() }).await, []);
    assert_eq!(edges(&store, &EdgeQuery { root: Some(hop(2)), ..all() }).await, std::slice::from_ref(&full));
    let mut ended = full.settled(6, 0);
    for (source, state) in [(CostSource::Unknown, None), (CostSource::Reported, Some(TaskState::Failed))] {
        ended.hop = HopId::generate();
        let settled = ended.settled.as_mut().unwrap();
        (settled.source, settled.state, settled.charged.tokens) = (source, state, u64::MAX);
        ended.clone().put(&store).await;
        let found = store.edges(&EdgeQuery { newest_first: true, ..all() }).await.unwrap().edges;
        assert!(found.contains(&ended), "{found:?}");
    }
}

pub(crate) async fn a_call_without_a_task_has_an_edge(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let one = call(0).settled(1, 5).put(&store).await;
    let two = call(1).put(&store).await;
    assert_eq!(edges(&store, &all()).await, [one.clone(), two.clone()]);
    let two = two.settled(2, 6).put(&store).await;
    assert_eq!(edges(&store, &all()).await, [one, two]);
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    assert_eq!(store.list(&scope(), &query(9)).await.unwrap().total, 0);
}

pub(crate) async fn open_edges_are_found_until_they_are_settled(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    for n in 0..20 {
        call(n).put(&store).await;
    }
    for n in (0..20).step_by(2) {
        call(n).settled(100, 1).put(&store).await;
    }
    let odd: Vec<_> = (0..10).map(|n| call(2 * n + 1)).collect();
    assert_eq!(open_edges(&store, &realm()).await, odd);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.open_edges(&realm(), after, 3).await.unwrap();
        assert!(page.edges.len() <= 3);
        found.extend(page.edges);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, odd);
}

pub(crate) async fn the_tree_of_a_root_is_in_order(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let tree = [call(10), call(12).under(10, 1), call(14).under(10, 2).settled(15, 1), call(20).under(10, 1)];
    for edge in tree.iter().rev().chain(&[call(11), call(13).under(11, 1)]) {
        edge.clone().put(&store).await;
    }
    let of_root = EdgeQuery { root: Some(hop(10)), ..all() };
    assert_eq!(edges(&store, &of_root).await, tree);
    assert_eq!(edges(&store, &EdgeQuery { limit: 1, ..of_root.clone() }).await, tree);
    let mut backwards = tree.to_vec();
    backwards.reverse();
    let newest_first = EdgeQuery { newest_first: true, limit: 2, ..of_root.clone() };
    assert_eq!(edges(&store, &newest_first).await, backwards);
    let part = EdgeQuery { since: Some(at(12)), until: Some(at(20)), ..of_root };
    assert_eq!(edges(&store, &part).await, tree[1..3]);
    // One that is under another is no root, whoever says so.
    assert_eq!(edges(&store, &EdgeQuery { root: Some(hop(12)), ..all() }).await, []);
    assert_eq!(edges(&store, &EdgeQuery { root: Some(HopId::generate()), ..all() }).await, []);
}

pub(crate) async fn filters_alone_and_together(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let mut there = Vec::new();
    for n in 0..24 {
        let edge = call(n).by("realm", ["ann", "bob"][n as usize % 2], ["x", "y", "z"][n as usize % 3]);
        let edge = edge.task(&format!("t{}", n % 4)).trace(&format!("tr{}", n % 5));
        there.push(if n < 12 { edge.settled(50 + n, 1) } else { edge }.put(&store).await);
    }
    call(30).put(&store).await;
    let queries = [
        EdgeQuery { caller: Some("ann".into()), ..all() },
        EdgeQuery { agent: Some("y".into()), ..all() },
        EdgeQuery { task: Some("t2".into()), ..all() },
        EdgeQuery { trace: Some("tr3".into()), ..all() },
        EdgeQuery { since: Some(at(3)), until: Some(at(9)), agent: Some("x".into()), ..all() },
        EdgeQuery { caller: Some("bob".into()), agent: Some("z".into()), task: Some("t1".into()), ..all() },
        EdgeQuery { trace: Some("tr".into()), ..all() },
        EdgeQuery { until: Some(at(0)), ..all() },
    ];
    for query in queries {
        let takes = |edge: &&Edge| {
            query.caller.as_ref().is_none_or(|caller| edge.caller == *caller)
                && query.agent.as_ref().is_none_or(|agent| edge.agent == *agent)
                && query.task.as_ref().is_none_or(|task| edge.task.as_ref() == Some(task))
                && query.trace.as_ref().is_none_or(|trace| edge.trace.as_ref() == Some(trace))
                && query.since.is_none_or(|since| edge.opened >= since)
                && query.until.is_none_or(|until| edge.opened < until)
        };
        let expected: Vec<_> = there.iter().filter(takes).cloned().collect();
        assert_eq!(edges(&store, &query).await, expected, "{query:?}");
        assert_eq!(edges(&store, &EdgeQuery { limit: 1, ..query }).await, expected);
    }
}

pub(crate) async fn pages_join_in_both_orders(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let mut there = Vec::new();
    for n in 0..10 {
        there.push(call(n).put(&store).await);
    }
    for limit in [1, 3, 10, 11] {
        assert_eq!(edges(&store, &EdgeQuery { limit, ..all() }).await, there);
    }
    let page = store.edges(&EdgeQuery { limit: 4, ..all() }).await.unwrap();
    // What comes meanwhile moves nothing.
    call(-5).put(&store).await;
    there[2] = call(2).settled(99, 1).put(&store).await;
    let rest = EdgeQuery { after: page.next, ..all() };
    assert_eq!(edges(&store, &rest).await, there[4..]);
    there.insert(0, call(-5));
    there.reverse();
    assert_eq!(edges(&store, &EdgeQuery { limit: 3, newest_first: true, ..all() }).await, there);
}

pub(crate) async fn realms_never_mix(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let ours = call(0).trace("tr").task("t").put(&store).await;
    let theirs = call(1).by("other", "owner", "agent").under(0, 1).trace("tr").task("t");
    let theirs = theirs.settled(9, 7).put(&store).await;
    let queries = [
        all(),
        EdgeQuery { root: Some(hop(0)), ..all() },
        EdgeQuery { trace: Some("tr".into()), ..all() },
        EdgeQuery { task: Some("t".into()), ..all() },
        EdgeQuery { caller: Some("owner".into()), agent: Some("agent".into()), ..all() },
    ];
    for query in queries {
        assert_eq!(edges(&store, &query).await, std::slice::from_ref(&ours));
        let of_others = EdgeQuery { realms: Realms::One("other".into()), ..query.clone() };
        assert_eq!(edges(&store, &of_others).await, std::slice::from_ref(&theirs));
        let of_none = EdgeQuery { realms: Realms::One("".into()), ..query.clone() };
        assert_eq!(edges(&store, &of_none).await, []);
        let of_all = EdgeQuery { realms: Realms::All, ..query };
        assert_eq!(edges(&store, &of_all).await, [ours.clone(), theirs.clone()]);
    }
    let other = Realms::One("other".into());
    assert_eq!(open_edges(&store, &realm()).await, [ours]);
    assert_eq!(open_edges(&store, &other).await, []);
    assert_eq!(sums(&store, &realm(), 0).await, []);
    assert_eq!(total(&sums(&store, &other, 0).await), (7, 1));
    let by_root = |realms: Realms| {
        let store = &store;
        async move { store.spend_by_root(&realms, at(0), 9).await.unwrap().roots }
    };
    assert_eq!(by_root(realm()).await[0].charged.micro_usd, 0);
    assert_eq!(by_root(other).await[0].charged.micro_usd, 7);
    let of_all = by_root(Realms::All).await;
    assert_eq!((of_all.len(), of_all[0].calls, of_all[0].charged.micro_usd), (1, 2, 7));
}

pub(crate) async fn a_query_looks_at_so_many_and_no_more(open: impl Fn(StoreLimits) -> Store) {
    const MANY: i64 = 17_000;
    let store = Arc::new(fresh(open));
    let putting: Vec<_> = (0..64)
        .map(|start| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in (start..MANY).step_by(64) {
                    call(n).settled(n, 1).put(&store).await;
                }
            })
        })
        .collect();
    for putting in putting {
        putting.await.unwrap();
    }
    let last = call(MANY).by("realm", "last", "agent").settled(MANY, 5).put(&store).await;
    let page = store.edges(&EdgeQuery { limit: usize::MAX, ..all() }).await.unwrap();
    assert_eq!((page.edges.len(), page.next), (MOST_EDGES, Some(hop(MOST_EDGES as i64 - 1))));
    let of_last = EdgeQuery { caller: Some("last".into()), ..all() };
    let page = store.edges(&of_last).await.unwrap();
    assert_eq!((page.edges.len(), page.next.is_some()), (0, true), "it is further on");
    assert_eq!(edges(&store, &of_last).await, std::slice::from_ref(&last));
    let newest_first = EdgeQuery { newest_first: true, limit: 1, ..all() };
    assert_eq!(store.edges(&newest_first).await.unwrap().edges, [last]);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (MANY as u64 + 5, MANY as u64 + 1));
}

pub(crate) async fn one_of_many_settles(open: impl Fn(StoreLimits) -> Store) {
    let store = Arc::new(fresh(open));
    for n in 0..30 {
        call(n).put(&store).await;
        on_threads(4, |thread| {
            let (store, thread) = (store.clone(), thread as u64);
            async move { call(n).settled(n, 1 + thread).put(&store).await }
        })
        .await;
    }
    let charged: u64 =
        edges(&store, &all()).await.iter().map(|edge| edge.settled.unwrap().charged.micro_usd).sum();
    assert_eq!(total(&sums(&store, &realm(), 0).await), (charged, 30));
    assert_eq!(open_edges(&store, &realm()).await, []);
}
