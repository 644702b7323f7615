//! How long the record of a call is kept, and what outlives it.

use std::time::Duration;

use chancery_protocol::{Edge, TaskState};
use chancery_store::{EdgeQuery, Realms, Store, StoreLimits};

use crate::calls::*;
use crate::support::*;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Edges for a minute, sums for two days.
fn short(max_edges: usize) -> StoreLimits {
    limits(|limits| {
        limits.retention.edges = Duration::from_secs(60);
        limits.retention.max_edges = max_edges;
        limits.retention.spend = Duration::from_secs(2 * 86_400);
    })
}

async fn there(store: &Store) -> Vec<Edge> {
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    edges(store, &all()).await
}

pub(crate) async fn settled_edges_are_forgotten_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(1_000));
    let old = call(0).put(&store).await;
    for n in 1..300 {
        call(n).under(0, 1).settled(n, 1).put(&store).await;
    }
    store.sweep(at(MINUTE)).await;
    assert_eq!(there(&store).await.len(), 300, "the first of them is a millisecond short of a minute");
    store.sweep(at(MINUTE + 298)).await;
    let last = call(299).under(0, 1).settled(299, 1);
    assert_eq!(there(&store).await, [old.clone(), last.clone()]);
    assert_eq!(edges(&store, &EdgeQuery { root: Some(hop(0)), ..all() }).await, [old.clone(), last]);
    store.sweep(at(DAY)).await;
    assert_eq!(there(&store).await, std::slice::from_ref(&old), "what is open stays");
    assert_eq!(open_edges(&store, &realm()).await, std::slice::from_ref(&old));
    old.settled(DAY, 1).put(&store).await;
    assert_eq!(there(&store).await.len(), 1);
    store.sweep(at(DAY)).await;
    assert_eq!(there(&store).await, [], "it was let through long ago");
}

pub(crate) async fn the_cap_forgets_the_oldest_settled_edge(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(5));
    for n in 0..10 {
        call(n).put(&store).await;
    }
    for n in (0..10).rev().step_by(2) {
        call(n).settled(50, 1).put(&store).await;
    }
    for n in 10..13 {
        call(n).settled(50, 1).put(&store).await;
    }
    store.sweep(at(20)).await;
    let left = |found: &[Edge], open: bool| -> Vec<_> {
        found.iter().filter(|edge| edge.settled.is_none() == open).map(|edge| edge.hop).collect()
    };
    let found = there(&store).await;
    assert_eq!(left(&found, false), [7, 9, 10, 11, 12].map(hop));
    assert_eq!(left(&found, true), [0, 2, 4, 6, 8].map(hop));
    // One that was passed over is the oldest when it is settled.
    call(2).settled(51, 1).put(&store).await;
    store.sweep(at(20)).await;
    let found = there(&store).await;
    assert_eq!(left(&found, false), [7, 9, 10, 11, 12].map(hop));
    assert_eq!(left(&found, true), [0, 4, 6, 8].map(hop));
    assert_eq!(total(&sums(&store, &realm(), 0).await), (9, 9));
}

pub(crate) async fn sums_outlive_their_edges(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(1));
    for n in 0..20 {
        call(n).settled(n * MINUTE, 10).put(&store).await;
    }
    store.sweep(at(DAY)).await;
    assert_eq!(there(&store).await, []);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (200, 20));
}

pub(crate) async fn sums_are_forgotten_in_time(open: impl Fn(StoreLimits) -> Store) {
    let store = open(short(100));
    for day in 0..5 {
        call(day).by("realm", "ann", "x").settled(day * DAY, 10).put(&store).await;
        call(day + 10).by("realm", "bob", "x").settled(day * DAY + 5, 10).put(&store).await;
    }
    store.sweep(at(5 * DAY - 1)).await;
    let days = |found: &[chancery_store::Spend]| found.iter().map(|sum| sum.from).collect::<Vec<_>>();
    let found = sums(&store, &realm(), 0).await;
    assert_eq!(days(&found), [2, 2, 3, 3, 4, 4].map(|day| at(day * DAY)));
    store.sweep(at(5 * DAY)).await;
    assert_eq!(days(&sums(&store, &realm(), 0).await), [3, 3, 4, 4].map(|day| at(day * DAY)));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    // Whoever was forgotten may come back.
    call(50).by("realm", "ann", "x").settled(6 * DAY, 1).put(&store).await;
    store.sweep(at(60 * DAY)).await;
    assert_eq!(sums(&store, &realm(), 0).await, []);
    call(61).by("realm", "ann", "x").settled(60 * DAY, 1).put(&store).await;
    assert_eq!(total(&sums(&store, &realm(), 0).await), (1, 1));
}

pub(crate) async fn what_a_caller_did_is_deleted(open: impl Fn(StoreLimits) -> Store) {
    let store = open(StoreLimits::default());
    let theirs = scope_of("realm", "somebody", "agent");
    for n in 0..300 {
        call(3 * n).by("realm", "somebody", "agent").settled(1, 1).put(&store).await;
        call(3 * n + 1).by("realm", "else", "agent").under(3 * n, 1).settled(1, 10).put(&store).await;
        call(3 * n + 2).by("other", "somebody", "agent").put(&store).await;
    }
    let running = call(5_000).by("realm", "somebody", "b").task("t").put(&store).await;
    create("t", TaskState::Working, 0).commit(&store, &theirs).await.unwrap();
    assert_eq!(store.delete_owner("realm", "somebody").await.unwrap(), 1);
    let left = edges(&store, &EdgeQuery::of(Realms::All)).await;
    assert_eq!(left.len(), 600);
    assert!(left.iter().all(|edge| &*edge.realm != "realm" || &*edge.caller != "somebody"));
    assert!(open_edges(&store, &realm()).await.is_empty());
    assert_eq!(open_edges(&store, &Realms::One("other".into())).await.len(), 300);
    // The realm and the agent have still spent it, but nobody knows who it was.
    let found = sums(&store, &realm(), 0).await;
    assert_eq!(total(&found), (3_300, 600));
    let nameless: Vec<_> = found.iter().filter(|sum| sum.caller.is_none()).collect();
    assert_eq!((nameless.len(), nameless[0].charged.micro_usd, &*nameless[0].agent), (1, 300, "agent"));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
    // What still runs is recorded when it ends; and they may come back, as somebody new.
    let ended = running.settled(9, 7).put(&store).await;
    call(6_000).by("realm", "somebody", "agent").settled(1, 5).put(&store).await;
    let of_them = EdgeQuery { caller: Some("somebody".into()), ..all() };
    assert_eq!(edges(&store, &of_them).await[0], ended);
    let found = sums(&store, &realm(), 0).await;
    let named = found.iter().filter(|sum| sum.caller.as_deref() == Some("somebody"));
    assert_eq!(total(named), (12, 2));
    store.delete_owner("realm", "somebody").await.unwrap();
    assert_eq!(edges(&store, &of_them).await, []);
    store.sweep(at(DAY)).await;
    assert_eq!(total(&sums(&store, &realm(), 0).await), (3_312, 602));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn one_caller_does_not_push_out_the_calls_of_another(open: impl Fn(StoreLimits) -> Store) {
    for each in [100, 4] {
        let mut limits = short(8);
        limits.retention.max_edges_per_owner = each;
        let store = open(limits);
        for n in 0..2 {
            call(n).by("realm", "little", "a").settled(n, 1).put(&store).await;
        }
        for n in 10..30 {
            call(n).by("realm", "much", "a").settled(n, 1).put(&store).await;
        }
        store.sweep(at(50)).await;
        let there = there(&store).await;
        let of = |caller: &str| there.iter().filter(|edge| &*edge.caller == caller).count();
        assert_eq!((of("little"), of("much")), (2, each.min(6)), "{each}");
        assert_eq!(there.last().map(|edge| edge.hop), Some(hop(29)), "the newest stay");
    }
}
