//! What is mounted changes while it is served: no call fails, and what has begun goes on.
#![cfg(feature = "testing")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_sdk::testing::spawn;
use chancery_sdk::{
    AgentSpec, Body, Change, Offer, Outcome, Relay, Routes, ServerLimits, Service, Turn, Way,
};
use http::Method;
use http::request::Parts;
use support::*;
use tokio::sync::Semaphore;

/// Says which one it is.
fn named(name: &str, says: &'static str) -> AgentSpec {
    AgentSpec::new(name, script(move |_: Turn| async move { Ok(Outcome::text(says)) }))
}

/// Works until it is let go, then says which one it is.
fn patient(name: &str, says: &'static str, go: &Arc<Semaphore>) -> AgentSpec {
    let go = go.clone();
    AgentSpec::new(
        name,
        script(move |turn: Turn| {
            let go = go.clone();
            async move {
                turn.working("waiting").await?;
                go.acquire().await.expect("it is never closed").forget();
                Ok(Outcome::text(says))
            }
        }),
    )
}

fn service(site: &Site) -> &Service {
    site.service.as_ref().expect("a service")
}

fn answer(task: &serde_json::Value) -> String {
    text(&task["artifacts"][0]).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_change_under_traffic_and_no_call_fails() {
    let site = serve_with(|server| server.offer(named("a", "old")).offer(named("b", "b"))).await;
    let over = Arc::new(AtomicBool::new(false));
    let callers = WIRES.map(|wire| {
        let (client, over) = (site.client(wire).at("/agents/a"), over.clone());
        tokio::spawn(async move {
            let mut heard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                heard.push(answer(&client.say("hello").await));
            }
            heard
        })
    });
    for round in 0..50 {
        let says = if round % 2 == 0 { "new" } else { "old" };
        let extra = format!("extra-{round}");
        let put = vec![named("a", says).into(), named(&extra, "extra").into()];
        let before = format!("extra-{}", round - 1);
        service(&site)
            .change(Change { put, remove: vec![before.clone()], ..Change::default() })
            .await
            .expect("they are put");
        let client = site.rest().at(&format!("/agents/{extra}"));
        assert_eq!(answer(&client.say("hello").await), "extra");
        let gone = site.rest().at(&format!("/agents/{before}")).send(message("hello")).await;
        assert_eq!(gone.status, 404);
    }
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        let heard = caller.await.expect("no call fails");
        assert!(heard.iter().any(|said| said == "new") && heard.iter().any(|said| said == "old"));
    }
}

#[tokio::test]
async fn a_task_is_watched_and_canceled_across_a_change_of_its_agent() {
    let go = Arc::new(Semaphore::new(0));
    let site = serve_with(|server| server.offer(patient("a", "old", &go)).offer(named("b", "b"))).await;
    for wire in WIRES {
        let client = site.client(wire).at("/agents/a");
        let (first, second) = (id(&client.start("one").await), id(&client.start("two").await));
        client.wait_for(&first, WORKING).await;
        let mut watched = client.subscribe(&first).await;
        service(&site).put(named("a", "new")).await.expect("it is put");
        assert_eq!(answer(&client.say("three").await), "new", "new turns are the new agent's");
        let mut later = client.subscribe(&first).await;
        assert_eq!(state(&client.cancel(&second).await.task()), CANCELED);
        go.add_permits(1);
        for events in [&mut watched, &mut later] {
            let states: Vec<_> = events.rest().await.iter().filter_map(|event| event.state()).collect();
            assert_eq!(states.last().map(String::as_str), Some(COMPLETED));
        }
        assert_eq!(answer(&client.get(&first).await), "old", "it is finished by the agent that began it");
        service(&site).put(patient("a", "old", &go)).await.expect("it is put");
    }
}

#[tokio::test]
async fn a_message_that_waits_for_a_turn_is_for_the_agent_that_took_it() {
    let go = Arc::new(Semaphore::new(0));
    let asks = |says: &'static str| {
        let go = go.clone();
        let run = move |turn: Turn| {
            let go = go.clone();
            async move {
                turn.working("waiting").await?;
                go.acquire().await.expect("it is never closed").forget();
                Ok(turn.ask(says))
            }
        };
        AgentSpec::new("a", script(run))
    };
    let site = serve_with(|server| server.offer(asks("old"))).await;
    let client = site.rest().at("/agents/a");
    let task = id(&client.start("one").await);
    client.wait_for(&task, WORKING).await;
    service(&site).put(asks("new")).await.expect("it is put");
    let (waiting, text_of) = (client.clone(), task.clone());
    let second = tokio::spawn(async move { waiting.send(follow_up(&text_of, "two")).await.task() });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    go.add_permits(2);
    let second = within("the second turn", second).await.expect("it is answered");
    assert_eq!(text(&second["status"]["message"]), "new");
    assert!(second.to_string().contains("old"), "the first turn was the old agent's: {second}");
}

#[tokio::test]
async fn what_is_taken_away_is_not_found_and_what_it_has_begun_ends_well() {
    let go = Arc::new(Semaphore::new(0));
    let site = serve_with(|server| server.offer(patient("a", "old", &go)).offer(named("b", "b"))).await;
    let client = site.rest().at("/agents/a");
    let mut events = client.stream(message("one")).await;
    let task = events.one().await.payload()["task"]["id"].as_str().expect("an id").to_owned();
    assert!(service(&site).remove("a").await);
    assert!(!service(&site).remove("a").await);
    assert_eq!(client.call("GetTask", serde_json::json!({"id": task})).await.status, 404);
    // One of the same name knows that somebody works on the task: it has not been left behind by anybody.
    service(&site).put(named("a", "new")).await.expect("it is put");
    assert_eq!(state(&client.get(&task).await), WORKING);
    go.add_permits(1);
    let states: Vec<_> = events.rest().await.iter().filter_map(|event| event.state()).collect();
    assert_eq!(states.last().map(String::as_str), Some(COMPLETED));
    assert_eq!(answer(&client.get(&task).await), "old");
}

#[tokio::test]
async fn an_agent_may_move_elsewhere_and_back_while_it_works() {
    let go = Arc::new(Semaphore::new(0));
    let elsewhere = spawn(patient("far", "far", &go)).await;
    let site = serve_with(|server| server.offer(patient("a", "near", &go)).offer(named("b", "b"))).await;
    let client = site.rest().at("/agents/a");
    let near = id(&client.start("one").await);
    client.wait_for(&near, WORKING).await;
    let relay = Relay::connect(elsewhere.url()).await.expect("it is there").name("a");
    service(&site).put(relay).await.expect("it is put");
    let far = id(&client.start("two").await);
    client.wait_for(&far, WORKING).await;
    let mut watched = client.subscribe(&near).await;
    service(&site).put(named("a", "back")).await.expect("it is put");
    let mut others = client.subscribe(&far).await;
    assert_eq!(answer(&client.say("three").await), "back");
    go.add_permits(2);
    for (events, task, says) in [(&mut watched, near, "near"), (&mut others, far, "far")] {
        let states: Vec<_> = events.rest().await.iter().filter_map(|event| event.state()).collect();
        assert_eq!(states.last().map(String::as_str), Some(COMPLETED), "{says}");
        assert_eq!(answer(&client.get(&task).await), says);
    }
}

#[tokio::test]
async fn what_cannot_be_put_changes_nothing() {
    let site = serve_with(|server| server.offer(named("a", "a"))).await;
    let put = vec![named("c", "c").into(), Offer::from(named("d", "d")).at("/agents/a")];
    let refused = service(&site)
        .change(Change { put, ..Change::default() })
        .await
        .expect_err("two at one path")
        .to_string();
    assert!(refused.contains("two agents are mounted at `/agents/a`"), "{refused}");
    assert!(service(&site).put(named("No Name", "x")).await.is_err());
    assert_eq!(service(&site).agents(), ["a".into()]);
}

/// Three ways that lead elsewhere than the paths do.
struct Ways;

impl Routes for Ways {
    fn find(&self, head: &Parts) -> Option<Way> {
        match head.uri.path() {
            "/hidden/agents/a" | "/agents/hidden/" => Some(Way::Nowhere),
            "/who" => Some(Way::answer(|visitor| async move {
                let caller = visitor.caller()?;
                let said = visitor.body(&["application/json"]).await?;
                let text = format!("{} said {} bytes", caller.principal.id, said.len());
                Ok(http::Response::new(Body::from(text)))
            })),
            path => path.strip_prefix("/short/a").map(|below| Way::Agent {
                name: "a".into(),
                below: below.to_owned(),
                skill: Some("s".into()),
                plain: true,
            }),
        }
    }
}

#[tokio::test]
async fn routes_of_ones_own_come_before_the_paths_of_agents() {
    let skilled = AgentSpec::new(
        "a",
        script(|turn: Turn| async move { Ok(Outcome::text(turn.skill().unwrap_or("none").to_owned())) }),
    );
    let limits = ServerLimits { body_bytes: 1000, ..ServerLimits::default() };
    let site = serve_with(|server| {
        server.offer(skilled).offer(named("hidden", "hidden")).routes(Arc::new(Ways)).limits(limits)
    })
    .await;
    let client = site.rest();
    let who = client.clone().by("r", "anna").fetch(Method::POST, "/who", "x".repeat(10)).await;
    assert_eq!((who.status, who.body.as_str()), (200, "anna said 10 bytes"));
    assert_eq!(client.fetch(Method::POST, "/who", "x".repeat(1001)).await.status, 413);
    let stranger = client.clone().with("authorization", "nonsense");
    assert_eq!(stranger.fetch(Method::GET, "/who", String::new()).await.status, 401);
    let plain = site.rest().without("a2a-version").at("/short/a");
    assert_eq!(answer(&plain.say("hello").await), "s", "no version needs to be said");
    for wire in WIRES {
        let client = site.client(wire);
        assert_eq!(answer(&client.clone().at("/short/a").say("hello").await), "s");
        assert_eq!(answer(&client.at("/agents/a").say("hello").await), "none");
    }
    let card = client.fetch(Method::GET, "/short/a/.well-known/agent-card.json", String::new()).await;
    assert!(card.status == 200 && card.body.contains("/agents/a"), "{}", card.body);
    let hidden = client.fetch(Method::POST, "/agents/hidden/", String::new()).await;
    let nothing = client.fetch(Method::POST, "/agents/nothing/", String::new()).await;
    assert_eq!((hidden.status, hidden.body), (404, nothing.body));
}
