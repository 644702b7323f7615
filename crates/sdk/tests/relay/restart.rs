//! A relay that ends in the middle of a task, and another that goes on with it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use chancery_sdk::{Outcome, TaskState, Turn};
use tokio::sync::Semaphore;

use crate::pair::*;
use crate::streams::{count_to, pieces, texts};
use crate::support::*;

/// Tells the child which agent to relay to, and where to keep its tasks.
const CHILD: &str = "CHANCERY_TEST_RELAY";
const NAME: &str = "restart::a_killed_relay_goes_on_where_it_was";

#[tokio::test]
async fn a_stopped_relay_goes_on_where_it_was() {
    for wire in WIRES {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("relay.db");
        let gate = Arc::new(Semaphore::new(2));
        let agent = serve(pieces(&gate)).await;
        let url = format!("http://{}", agent.address);
        let first = serve_on_file(&path, relay(&url, wire).await).await;
        let mut events = first.site.rest().stream(message("5")).await;
        let mut seen = events.through(|event| texts(std::slice::from_ref(event)) == ["1"]).await;
        let task = id(&seen[0].payload()["task"]);
        drop(events);
        first.stop().await;
        // It goes on while nobody looks.
        gate.add_permits(1);
        let there = newest(&agent).await;
        let done =
            || async { agent.rest().get(&there).await["artifacts"][0]["parts"].as_array().map(Vec::len) };
        until("the third piece", || async { done().await == Some(3) }).await;
        let second = serve_on_file(&path, relay(&url, wire).await).await;
        let client = second.site.jsonrpc();
        let mut events = client.resume(&task, seen.last().expect("an event").id.expect("a number")).await;
        gate.add_permits(2);
        let rest = events.rest().await;
        assert_eq!(rest[0].id, seen.last().expect("an event").id.map(|id| id + 1));
        seen.truncate(0);
        assert_eq!(texts(&rest), ["2", "3", "4"]);
        assert!(rest.last().expect("an end").is(COMPLETED));
        assert_eq!(client.get(&task).await["artifacts"], agent.rest().get(&there).await["artifacts"]);
        second.stop().await;
    }
}

#[tokio::test]
async fn a_question_that_was_answered_elsewhere_is_found_out_by_a_look() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let spec = agent(|turn: Turn| async move {
        Ok(match turn.task() {
            None => turn.ask("Which one?"),
            Some(_) => Outcome::text(turn.text()),
        })
    });
    let agent = serve(spec).await;
    let url = format!("http://{}", agent.address);
    let first = serve_on_file(&path, relay(&url, Wire::JsonRpc).await).await;
    let task = id(&first.site.rest().say("one of them").await);
    first.stop().await;
    // As if the first had been killed after it had sent the answer, and before it had written that.
    let there = newest(&agent).await;
    agent.rest().send(follow_up(&there, "this one")).await.task();
    let second = serve_on_file(&path, relay(&url, Wire::JsonRpc).await).await;
    let found = second.site.rest().get(&task).await;
    assert_eq!(found["artifacts"], agent.rest().get(&there).await["artifacts"]);
    assert_eq!(state(&found), COMPLETED);
    second.stop().await;
}

/// Receivers of notifications hear of tasks that nobody looks at.
#[tokio::test]
async fn what_waited_when_the_relay_ended_is_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let spec = agent(|turn: Turn| async move {
        Ok(match turn.task() {
            None if turn.text() == "ask" => turn.ask("Which one?"),
            None => turn.ask_for_auth("Let me in"),
            Some(_) => Outcome::text(turn.text()),
        })
    });
    let agent = serve(spec).await;
    let url = format!("http://{}", agent.address);
    let first = serve_on_file(&path, relay(&url, Wire::JsonRpc).await).await;
    let tasks = [id(&first.site.rest().say("ask").await), id(&first.site.rest().say("let me").await)];
    let waiting = async |site: &Site| {
        let count = async |state| site.store.waiting("relayed", state, None, 10).await.expect("a list").len();
        (count(TaskState::InputRequired).await, count(TaskState::AuthRequired).await)
    };
    assert_eq!(waiting(&first.site).await, (1, 1));
    first.stop().await;
    // As if the first had been killed after it had sent the answers, and before it had written that.
    let listed = agent.rest().call("ListTasks", serde_json::json!({})).await.result();
    let there: Vec<_> = listed["tasks"].as_array().expect("tasks").iter().map(id).collect();
    assert_eq!(there.len(), tasks.len());
    for task in &there {
        agent.rest().send(follow_up(task, "this one")).await.task();
    }
    let second = serve_on_file(&path, relay(&url, Wire::JsonRpc).await).await;
    until("a look at what waited", || async { waiting(&second.site).await == (0, 0) }).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_relay_goes_on_where_it_was() {
    if let Ok(told) = std::env::var(CHILD) {
        let (url, path) = told.split_once(' ').expect("a URL and a path");
        serve_until_killed(url, path.as_ref()).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let gate = Arc::new(Semaphore::new(0));
    let agent = serve(pieces(&gate)).await;
    let (mut child, address) = spawn(&format!("http://{}", agent.address), &path);
    let mut events = Client::new(address, Wire::JsonRpc).stream(message("60")).await;
    let mut seen = vec![events.one().await];
    let task = id(&seen[0].payload()["task"]);
    for round in 0..5 {
        gate.add_permits(10);
        // It is killed in the middle of something.
        while texts(&seen).len() < 10 * round + 5 {
            seen.push(events.one().await);
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        let (next, address) = spawn(&format!("http://{}", agent.address), &path);
        child = next;
        let last = seen.last().and_then(|event| event.id).expect("a number");
        events = Client::new(address, Wire::JsonRpc).resume(&task, last).await;
    }
    gate.add_permits(10);
    seen.extend(events.rest().await);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert_eq!(texts(&seen), count_to(60));
    assert!(seen.last().expect("an end").is(COMPLETED));
    let numbers: Vec<_> = seen.iter().filter_map(|event| event.id).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
}

/// A process of this very test that serves a relay.
fn spawn(url: &str, path: &Path) -> (Child, std::net::SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, format!("{url} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut addresses = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("at ")?.parse().ok());
    let address = addresses.next().expect("it says where it is");
    (child, address)
}

async fn serve_until_killed(url: &str, path: &Path) -> ! {
    let served = serve_on_file(path, relay(url, Wire::Rest).await).await;
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nat {}", served.site.address).and_then(|()| out.flush()).expect("it can be told");
    drop(out);
    std::future::pending().await
}
