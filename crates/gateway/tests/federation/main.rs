//! Two gateways that list each other, as processes, and agents behind each that call across: depth and revisits hold through both,
//! and what a call there may cost here is no more than that one holds for it, whoever is killed meanwhile.

mod site;

use serde_json::Value;
use site::{Scene, Site, call};

/// Whether a call was refused for this reason.
fn refused(answer: &Value, reason: &str) -> bool {
    answer.get("error").is_some_and(|error| error.to_string().contains(reason))
}

/// How a chain goes on: by the agent's own gateway, which calls the other one, or straight to the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ByOwn,
    Straight,
}

/// Lets the two agents call each other for as long as they may. Says how often each was called, and what the last one was told.
async fn loop_through(site: &mut Site, way: Way) -> ([usize; 2], Value) {
    let urls = match way {
        Way::ByOwn => [site.url(0, "b"), site.url(1, "a")],
        Way::Straight => [site.url(1, "b"), site.url(0, "a")],
    };
    let mut answer = tokio::spawn(call(site.url(0, "a"), None));
    let (mut called, mut scenes) = ([0; 2], Vec::<Scene>::new());
    let last = loop {
        let place = scenes.len() % 2;
        tokio::select! {
            scene = site.puppets[place].called() => {
                called[place] += 1;
                answer = tokio::spawn(call(urls[place].clone(), scene.lineage.clone()));
                scenes.push(scene);
            }
            answer = &mut answer => break answer.expect("it does not panic"),
        }
    };
    scenes.into_iter().rev().for_each(Scene::end);
    (called, last)
}

#[tokio::test]
async fn a_loop_of_two_gateways_ends_at_the_depth() {
    let recursion = "[recursion]\nmax_call_depth = 6\ndeny_revisit = false\n";
    let mut site = Site::start([recursion; 2]).await;
    // By its own gateway, what an agent begins is two calls: one here, and one there.
    for (way, times) in [(Way::ByOwn, [2, 2]), (Way::Straight, [4, 3])] {
        let (called, last) = loop_through(&mut site, way).await;
        assert_eq!(called, times, "{way:?}");
        assert!(refused(&last, "CALL_DEPTH_EXCEEDED"), "{way:?}: {last}");
    }
}

#[tokio::test]
async fn nobody_comes_back_to_an_agent_by_way_of_another_gateway() {
    let mut site = Site::start(["", ""]).await;
    for way in [Way::ByOwn, Way::Straight] {
        let (called, last) = loop_through(&mut site, way).await;
        assert_eq!(called, [1, 1], "{way:?}");
        assert!(refused(&last, "REVISIT_DENIED"), "{way:?}: {last}");
    }
    // Without what it was given, an agent is a caller like any other.
    let first = tokio::spawn(call(site.url(0, "a"), None));
    let scene = site.puppets[0].called().await;
    let second = tokio::spawn(call(site.url(0, "a"), None));
    site.puppets[0].called().await.end();
    scene.end();
    for answer in [first.await, second.await] {
        let answer = answer.expect("it does not panic");
        assert!(answer.get("error").is_none(), "{answer}");
    }
}

/// How many of so many calls with a token are let through.
async fn let_through(url: &str, token: Option<&str>, tries: usize) -> usize {
    let mut let_through = 0;
    for _ in 0..tries {
        let answer = call(url.to_owned(), token.map(str::to_owned)).await;
        assert!(answer.get("error").is_none() || refused(&answer, "BUDGET_EXCEEDED"), "{answer}");
        let_through += usize::from(answer.get("error").is_none());
    }
    let_through
}

/// What everything has cost at a gateway that goes back to the other one.
fn charged(site: &Site, gateway: usize) -> Vec<u64> {
    let told = site.run(gateway, &["spend", "roots", "-o", "json"]);
    let cost = |line: &str| {
        let root: Value = serde_json::from_str(line).expect("it is JSON");
        root["charged"]["microUsd"].as_u64().unwrap_or_else(|| panic!("{root}"))
    };
    told.lines().map(cost).collect()
}

/// Each call to `a` and `b` is held 5 cents for at the first gateway, and every call at the second one costs 1.
const MONEY: [&str; 2] = ["[budget.root]\nmax_usd = 1.0\n", "[budget.global]\nmax_usd_per_day = 100.0\n"];

#[tokio::test]
async fn what_another_gateway_holds_is_all_that_may_be_spent_whoever_is_killed() {
    let mut site = Site::start(MONEY).await;
    let root = tokio::spawn(call(site.url(0, "a"), None));
    let at_a = site.puppets[0].called().await;
    let across = tokio::spawn(call(site.url(0, "b"), at_a.lineage.clone()));
    let at_b = site.puppets[1].called().await;
    let echo = site.url(1, "echo");
    // One of the five cents is for `b` itself.
    assert_eq!(let_through(&echo, at_b.lineage.as_deref(), 1).await, 1);
    site.kill_and_restart(1);
    assert_eq!(let_through(&echo, at_b.lineage.as_deref(), 2).await, 2);
    site.kill_and_restart(0);
    assert_eq!(let_through(&echo, at_b.lineage.as_deref(), 5).await, 1);
    // What `a` was given for its own work is good for as much again, there as well, and only once.
    assert_eq!(let_through(&echo, at_a.lineage.as_deref(), 3).await, 3);
    site.kill_and_restart(1);
    assert_eq!(let_through(&echo, at_a.lineage.as_deref(), 10).await, 2);
    assert_eq!(let_through(&echo, at_b.lineage.as_deref(), 5).await, 0);
    let token = at_a.lineage.clone();
    at_b.end();
    at_a.end();
    // Who called through the first gateway has lost it, and it them.
    drop((root, across));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while charged(&site, 1).iter().sum::<u64>() < 100_000 {
        assert!(std::time::Instant::now() < deadline, "{:?}", charged(&site, 1));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let mut charged = charged(&site, 1);
    charged.sort_unstable();
    assert_eq!(charged, [50_000, 50_000]);
    // Nor is it good for more once all of it is over.
    site.kill_and_restart(1);
    assert_eq!(let_through(&echo, token.as_deref(), 3).await, 0);
}

#[tokio::test]
async fn a_gateway_that_is_not_listed_is_told_so_and_one_that_was_not_meant_is_not_asked() {
    let mut site = Site::start(["", "unlisted"]).await;
    let first = tokio::spawn(call(site.url(0, "a"), None));
    let scene = site.puppets[0].called().await;
    let answer = call(site.url(1, "echo"), scene.lineage.clone()).await;
    assert!(refused(&answer, "LINEAGE_INVALID"), "{answer}");
    // Tokens of a gateway that lists nobody are for itself.
    let there = tokio::spawn(call(site.url(1, "b"), None));
    let other = site.puppets[1].called().await;
    let back = call(site.url(0, "echo"), other.lineage.clone()).await;
    assert!(back.get("error").is_none(), "{back}");
    other.end();
    scene.end();
    assert!(there.await.is_ok() && first.await.is_ok());
}
