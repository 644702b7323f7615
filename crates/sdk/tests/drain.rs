//! A server that is told to stop lets calls finish, takes no more, and returns.

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::{AgentSpec, Outcome, Server, ServerLimits, Turn};
use serde_json::json;
use support::*;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

struct Stoppable {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

async fn serve_until_stopped(spec: AgentSpec, limits: ServerLimits) -> Stoppable {
    let server = Server::builder().agent(spec).limits(limits).bind("127.0.0.1:0").await.expect("it binds");
    let address = server.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.run_until(async move {
        stopped.await.expect("a signal");
    }));
    Stoppable { address, stop, served }
}

/// So patient that only what ends by itself lets the server return.
fn patient() -> ServerLimits {
    let hour = Duration::from_secs(60 * 60);
    ServerLimits { drain: hour, header_timeout: hour, ..ServerLimits::default() }
}

/// Ends when there is a permit.
fn gated(permits: &Arc<Semaphore>) -> AgentSpec {
    let permits = permits.clone();
    agent(move |turn: Turn| {
        let permits = permits.clone();
        async move {
            turn.working("on").await?;
            permits.acquire().await?.forget();
            Ok(Outcome::text("done"))
        }
    })
}

async fn refuses_connections(address: SocketAddr) -> bool {
    TcpStream::connect(address).await.is_err()
}

#[tokio::test]
async fn open_calls_finish_and_new_ones_are_refused() {
    let permits = Arc::new(Semaphore::new(0));
    let Stoppable { address, stop, served } = serve_until_stopped(gated(&permits), patient()).await;
    let client = Client::new(address, Wire::Rest);
    let sends: Vec<_> = WIRES
        .map(|wire| tokio::spawn(async move { Client::new(address, wire).say("hi").await }))
        .into_iter()
        .collect();
    let mut stream = client.stream(message("hi")).await;
    stream.through(|event| event.is(WORKING)).await;
    until("the calls to be worked on", || async {
        client.call("ListTasks", json!({"status": WORKING})).await.result()["totalSize"] == 3
    })
    .await;
    stop.send(()).expect("it runs");
    until("connections to be refused", || refuses_connections(address)).await;
    assert!(!served.is_finished(), "calls are still open");
    permits.add_permits(3);
    for send in sends {
        let task = within("an open send", send).await.expect("an answer");
        assert_eq!((state(&task), text(&task["artifacts"][0])), (COMPLETED, "done"));
    }
    assert!(stream.rest().await.pop().expect("a last event").is(COMPLETED));
    within("the server to return", served).await.expect("it returns");
}

#[tokio::test]
async fn an_idle_server_stops_at_once_even_with_open_connections() {
    let Stoppable { address, stop, served } = serve_until_stopped(echo(), patient()).await;
    let _idle = TcpStream::connect(address).await.expect("a connection");
    assert_eq!(state(&Client::new(address, Wire::JsonRpc).say("hi").await), COMPLETED);
    stop.send(()).expect("it runs");
    within("the server to return", served).await.expect("it returns");
    assert!(refuses_connections(address).await);
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_hold_up_the_stop_for_ever() {
    let limits = ServerLimits { drain: Duration::from_millis(50), ..ServerLimits::default() };
    let Stoppable { address, stop, served } = serve_until_stopped(sleeper(), limits).await;
    let mut stream = Client::new(address, Wire::JsonRpc).stream(message("hi")).await;
    stream.through(|event| event.is(WORKING)).await;
    stop.send(()).expect("it runs");
    within("the server to return", served).await.expect("it returns");
}

#[tokio::test]
async fn a_connection_that_is_kept_alive_is_closed_after_its_call() {
    let permits = Arc::new(Semaphore::new(0));
    let Stoppable { address, stop, served } = serve_until_stopped(gated(&permits), patient()).await;
    let body = json!({"message": message("hi")}).to_string();
    let head = "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    // It reads until the server closes.
    let answer = tokio::spawn(async move { raw(address, request.as_bytes()).await });
    let client = Client::new(address, Wire::Rest);
    until("the call to be worked on", || async {
        client.call("ListTasks", json!({"status": WORKING})).await.result()["totalSize"] == 1
    })
    .await;
    stop.send(()).expect("it runs");
    until("connections to be refused", || refuses_connections(address)).await;
    permits.add_permits(1);
    let answer = within("the answer", answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(COMPLETED), "{answer}");
    within("the server to return", served).await.expect("it returns");
}
