//! What was charged, added up: by caller and agent, and by root.

use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, Edge};
use chancery_store::{EdgeQuery, Realms, Spend, Store, StoreLimits};

use crate::calls::*;
use crate::support::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn fresh(open: impl Fn(StoreLimits) -> Store) -> Store {
    open(StoreLimits::default())
}

pub(crate) async fn every_charge_is_counted_once_and_by_its_second(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    for (n, (millis, caller, usd)) in
        [(1_000, "ann", 5), (1_999, "ann", 7), (2_000, "ann", 1), (1_500, "bob", 9)].into_iter().enumerate()
    {
        let edge = call(n as i64).by("realm", caller, "agent").put(&store).await;
        assert_eq!(total(&sums(&store, &realm(), 0).await).1, n as u64, "nothing is spent yet");
        edge.clone().settled(millis, usd).put(&store).await;
        edge.settled(millis, 1_000).put(&store).await;
    }
    let mut found: Vec<_> = sums(&store, &realm(), 0)
        .await
        .into_iter()
        .map(|sum| (sum.caller.unwrap().to_string(), sum.from, sum.span, sum.charged, sum.calls))
        .collect();
    found.sort_by_key(|sum| (sum.0.clone(), sum.1));
    let second = Duration::from_secs(1);
    let amount = |micro_usd, tasks| Amount { micro_usd, tokens: 2 * micro_usd, tasks };
    let expected = [
        ("ann".to_owned(), at(1_000), second, amount(12, 2), 2),
        ("ann".to_owned(), at(2_000), second, amount(1, 1), 1),
        ("bob".to_owned(), at(1_000), second, amount(9, 1), 1),
    ];
    assert_eq!(found, expected);
    // What ended before is left out.
    assert_eq!(total(&sums(&store, &realm(), 1_999).await), (22, 4));
    assert_eq!(total(&sums(&store, &realm(), 2_000).await), (1, 1));
    assert_eq!(sums(&store, &realm(), 3_000).await, []);
}

pub(crate) async fn what_another_pays_is_counted_as_theirs(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let paid = Edge { payer: Some("ann".into()), ..call(1).by("realm", "bob", "agent") };
    let paid = paid.settled(1_000, 5).put(&store).await;
    call(2).by("realm", "bob", "agent").settled(1_000, 7).put(&store).await;
    let mut found: Vec<_> = sums(&store, &realm(), 0)
        .await
        .into_iter()
        .map(|sum| (sum.caller.unwrap().to_string(), sum.charged.micro_usd))
        .collect();
    found.sort();
    assert_eq!(found, [("ann".to_owned(), 5), ("bob".to_owned(), 7)]);
    let kept = store.edges(&EdgeQuery::of(realm())).await.unwrap().edges;
    assert_eq!(kept[0], paid);
    // A call stays when the one who paid is deleted, and says no more who that was.
    store.delete_owner("realm", "ann").await.unwrap();
    let kept = store.edges(&EdgeQuery::of(realm())).await.unwrap().edges;
    assert_eq!(kept.iter().map(|edge| edge.payer.clone()).collect::<Vec<_>>(), [None, None]);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (12, 2));
}

pub(crate) async fn what_is_paid_with_other_groups_is_another_sum(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let groups = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
    let by = |number, names| Edge { groups: groups(names), ..call(number).by("realm", "bob", "agent") };
    let paid_by_ann = Edge { payer: Some("ann".into()), ..by(4, &["team"]) };
    let mut put = Vec::new();
    for edge in [by(1, &["team", "staff"]), by(2, &[]), by(3, &["team", "staff"]), paid_by_ann] {
        put.push(edge.settled(1_000, 5).put(&store).await);
    }
    assert_eq!(store.edges(&EdgeQuery::of(realm())).await.unwrap().edges, put);
    let mut found: Vec<_> = sums(&store, &realm(), 0)
        .await
        .into_iter()
        .map(|sum| (sum.caller.unwrap().to_string(), sum.groups, sum.charged.micro_usd))
        .collect();
    found.sort();
    let expected = [
        ("ann".to_owned(), groups(&["team"]), 5),
        ("bob".to_owned(), groups(&[]), 5),
        ("bob".to_owned(), groups(&["team", "staff"]), 10),
    ];
    assert_eq!(found, expected);
    // The groups have still spent what a caller has spent who is deleted.
    store.delete_owner("realm", "bob").await.unwrap();
    let kept = sums(&store, &realm(), 0).await;
    let of_team = kept.iter().filter(|sum| sum.groups.iter().any(|group| **group == *"team"));
    assert_eq!(of_team.map(|sum| sum.charged.micro_usd).sum::<u64>(), 15);
}

pub(crate) async fn spans_grow_with_age_and_lose_nothing(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let mut spent = 0;
    // Two days, every seven minutes and eleven seconds.
    for n in 0..(2 * DAY / 431_000) {
        call(n)
            .by("realm", ["ann", "bob"][n as usize % 2], "agent")
            .settled(n * 431_000, 1)
            .put(&store)
            .await;
        spent += 1;
    }
    let now = 2 * DAY;
    for again in 0..2 {
        store.sweep(at(now)).await;
        let found = sums(&store, &realm(), 0).await;
        assert_eq!(total(&found), (spent, spent));
        let of = |span: i64| {
            let wanted = Duration::from_millis(span.unsigned_abs());
            found.iter().filter(|sum| sum.span == wanted).collect::<Vec<_>>()
        };
        assert!(of(1_000).iter().all(|sum| sum.from >= at(now - 2 * MINUTE)), "round {again}");
        assert!(of(MINUTE).iter().all(|sum| sum.from >= at(now - 62 * MINUTE)));
        assert!(of(MINUTE).len() > 5, "the last hour is known by the minute");
        let days: Vec<_> =
            of(DAY).iter().map(|sum| (sum.from, sum.caller.clone().unwrap().to_string())).collect();
        let expected = [(at(0), "ann"), (at(0), "bob"), (at(DAY), "ann"), (at(DAY), "bob")];
        assert_eq!(days, expected.map(|(from, caller)| (from, caller.to_owned())));
        let exact = (0..spent as i64).filter(|n| n * 431_000 >= now - HOUR).count() as u64;
        let ends = |sum: &Spend| sum.from.as_millis() + i64::try_from(sum.span.as_millis()).unwrap();
        let short = found.iter().filter(|sum| sum.span < Duration::from_secs(86_400));
        let last_hour = short.filter(|sum| ends(sum) > at(now - HOUR).as_millis());
        assert_eq!(total(last_hour).0, exact);
    }
    // Late, and still where it belongs.
    call(-1).by("realm", "ann", "agent").settled(5_000, 100).put(&store).await;
    store.sweep(at(now)).await;
    let found = sums(&store, &realm(), 0).await;
    let first = found.iter().find(|sum| sum.from == at(0) && sum.caller.as_deref() == Some("ann")).unwrap();
    assert_eq!((first.span, first.charged.micro_usd), (Duration::from_secs(86_400), first.calls + 99));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn overruns_are_kept_and_added_up_by_themselves(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    let overrun = Amount { micro_usd: 70, tokens: 7, tasks: 0 };
    for n in 0..3 {
        let mut edge = call(n).settled(n * 10_000, 1);
        if let Some(settled) = edge.settled.as_mut().filter(|_| n > 0) {
            settled.overrun = overrun;
        }
        let edge = edge.put(&store).await;
        assert!(edges(&store, &all()).await.contains(&edge));
    }
    for now in [at(60_000), at(2 * HOUR), at(2 * DAY)] {
        store.sweep(now).await;
        let found = sums(&store, &realm(), 0).await;
        assert_eq!(total(&found), (3, 3));
        let over = found
            .iter()
            .fold((0, 0), |(usd, tokens), sum| (usd + sum.overrun.micro_usd, tokens + sum.overrun.tokens));
        assert_eq!(over, (140, 14));
    }
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn pages_of_sums_join(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    for n in 0..40 {
        let edge = call(n).by(["realm", "other"][n as usize % 2], "ann", ["x", "y", "z"][n as usize % 3]);
        edge.settled(n * 20 * MINUTE, 1).put(&store).await;
    }
    store.sweep(at(13 * HOUR)).await;
    for realms in [realm(), Realms::All] {
        let whole = sums(&store, &realms, 0).await;
        assert_eq!(total(&whole).0, if realms == Realms::All { 40 } else { 20 });
        for limit in [1, 2, 5] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = store.spend(&realms, at(0), after, limit).await.unwrap();
                assert!(page.sums.len() <= limit);
                found.extend(page.sums);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, whole);
        }
    }
}

pub(crate) async fn sums_never_overflow(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    for n in 0..4 {
        let mut edge = call(n).settled(0, 0);
        let charged = &mut edge.settled.as_mut().unwrap().charged;
        *charged = Amount { micro_usd: u64::MAX, tokens: i64::MAX as u64 - 1, tasks: 1 << 62 };
        let edge = edge.put(&store).await;
        assert!(edges(&store, &all()).await.contains(&edge), "the figure itself is kept as it is");
    }
    for sweep in [0, HOUR, 3 * DAY] {
        store.sweep(at(sweep)).await;
        let found = sums(&store, &realm(), 0).await;
        let most = i64::MAX as u64;
        assert_eq!(found[0].charged, Amount { micro_usd: most, tokens: most, tasks: most });
        assert_eq!((found.len(), found[0].calls), (1, 4));
    }
    let roots = store.spend_by_root(&realm(), at(0), 9).await.unwrap().roots;
    assert_eq!(roots.len(), 4);
}

pub(crate) async fn the_dearest_root_comes_first(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    for (root, usd) in [(10, 5), (20, 50), (30, 20)] {
        call(root).by("realm", &format!("c{root}"), "a").settled(100, usd).put(&store).await;
        call(root + 5).under(root, 1).settled(200, usd).put(&store).await;
    }
    let ask = |since, limit| {
        let store = &store;
        async move {
            let found = store.spend_by_root(&realm(), at(since), limit).await.unwrap();
            assert_eq!(found.cut, None);
            found.roots.iter().map(|one| (one.root, one.charged.micro_usd)).collect::<Vec<_>>()
        }
    };
    assert_eq!(ask(0, 9).await, [(hop(20), 100), (hop(30), 40), (hop(10), 10)]);
    assert_eq!(ask(0, 1).await, [(hop(20), 100)]);
    // What is under an older root is that root's.
    assert_eq!(ask(11, 9).await, [(hop(20), 100), (hop(30), 40)]);
    assert_eq!(ask(21, 9).await, [(hop(30), 40)]);
    assert_eq!(ask(31, 9).await, []);
}

pub(crate) async fn a_root_is_counted_with_all_that_is_under_it(open: impl Fn(StoreLimits) -> Store) {
    let store = fresh(open);
    call(10).by("realm", "ann", "x").settled(70, 1).put(&store).await;
    call(11).by("realm", "x", "y").under(10, 1).settled(60, 2).put(&store).await;
    call(12).by("realm", "y", "z").under(10, 2).put(&store).await;
    let found = store.spend_of_root(&realm(), hop(10)).await.unwrap().unwrap();
    assert_eq!(store.spend_by_root(&realm(), at(0), 1).await.unwrap().roots, std::slice::from_ref(&found));
    assert_eq!((&*found.realm, &*found.caller, &*found.agent), ("realm", "ann", "x"));
    assert_eq!((found.root, found.opened, found.settled), (hop(10), at(10), Some(at(70))));
    assert_eq!((found.charged, found.held), (Amount { tasks: 2, ..usd(3) }, usd(1_000)));
    assert_eq!((found.calls, found.open, found.depth), (3, 1, 2));
    assert_eq!(store.spend_of_root(&realm(), hop(11)).await.unwrap(), None);
    assert_eq!(store.spend_of_root(&Realms::One("other".into()), hop(10)).await.unwrap(), None);
    // Its root was let through elsewhere.
    call(21).under(20, 3).settled(30, 4).put(&store).await;
    let found = store.spend_of_root(&realm(), hop(20)).await.unwrap().unwrap();
    assert_eq!((found.root, found.opened, found.charged.micro_usd), (hop(20), at(21), 4));
}
