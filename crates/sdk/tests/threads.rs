//! A server with threads of its own: a connection stays on one of them, and what happens there is seen from everywhere else.

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use chancery_sdk::{AgentSpec, Outcome, Relay, Server, ServerBuilder, Turn};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use support::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Serves on two threads until told to stop.
async fn serve_on_two(server: ServerBuilder) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let server = server.bind("127.0.0.1:0").await.expect("it binds").on_threads(2).expect("threads");
    let address = server.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.run_until(async move {
        // A test that does not stop it lets it run to the end.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    (address, stop, served)
}

fn name_of_thread() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// Says on which thread it ran.
fn teller() -> AgentSpec {
    agent(|_| async { Ok(Outcome::text(name_of_thread())) })
}

fn request() -> Request<Full<Bytes>> {
    let body = json!({"message": message("where")}).to_string();
    let request = Request::post("/message:send").header("host", "localhost").header("a2a-version", "1.0");
    request.header("content-type", "application/json").body(Full::from(body)).expect("a request")
}

/// A connection by HTTP/1.1 that is kept, and what the agent says to each call over it.
struct Kept(http1::SendRequest<Full<Bytes>>);

impl Kept {
    async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("the server accepts")).await
    }

    async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        Self(sender)
    }

    async fn ask(&mut self) -> String {
        let answer = within("an answer", self.0.send_request(request())).await.expect("an answer");
        said(answer.into_body()).await
    }
}

/// Connections, and where each is.
async fn kept_at(address: SocketAddr, count: usize) -> Vec<(Kept, String)> {
    let mut kept = Vec::new();
    for _ in 0..count {
        let mut connection = Kept::to(address).await;
        let place = connection.ask().await;
        kept.push((connection, place));
    }
    kept
}

async fn said(body: hyper::body::Incoming) -> String {
    let body = within("a body", body.collect()).await.expect("a whole body").to_bytes();
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    text(&answer["task"]["artifacts"][0]).to_owned()
}

#[tokio::test]
async fn a_connection_stays_on_one_thread_and_connections_are_spread() {
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(teller())).await;
    let mut kept = kept_at(address, 4).await;
    for (connection, place) in &mut kept {
        for _ in 0..3 {
            assert_eq!(connection.ask().await, *place);
        }
    }
    let mut places: Vec<_> = kept.iter().map(|(_, place)| place.as_str()).collect();
    places.sort_unstable();
    assert_eq!(places, ["connections-0", "connections-0", "connections-1", "connections-1"]);
}

#[tokio::test]
async fn connections_that_are_closed_make_room_for_others() {
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(teller())).await;
    let mut kept = kept_at(address, 6).await;
    kept.retain(|(_, place)| place == "connections-0");
    assert_eq!(kept.len(), 3);
    // Once the server has seen that the others are gone.
    until("three connections in their place", || async {
        kept_at(address, 3).await.iter().all(|(_, place)| place == "connections-1")
    })
    .await;
}

#[tokio::test]
async fn calls_by_http2_are_left_to_the_runtime() {
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(teller())).await;
    let stream = TcpStream::connect(address).await.expect("the server accepts");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let answer = within("an answer", sender.send_request(request())).await.expect("an answer");
    // The runtime of a test has one thread, which is that of the test.
    assert_eq!(said(answer.into_body()).await, name_of_thread());
}

#[tokio::test]
async fn without_threads_everything_is_left_to_the_runtime() {
    let server = Server::builder().agent(teller()).bind("127.0.0.1:0").await.expect("it binds");
    let server = server.on_threads(0).expect("none");
    let address = server.local_addr().expect("an address");
    tokio::spawn(server.run_until(std::future::pending()));
    assert_eq!(Kept::to(address).await.ask().await, name_of_thread());
}

#[cfg(unix)]
#[tokio::test]
async fn connections_to_a_socket_in_the_file_system_are_spread_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let server = Server::builder().agent(teller()).public_url("http://agents.example");
    let server = server.bind_unix(&path, 0o600).await.expect("it binds").on_threads(2).expect("threads");
    tokio::spawn(server.run_until(std::future::pending()));
    let mut kept = Vec::new();
    for _ in 0..2 {
        let stream = tokio::net::UnixStream::connect(&path).await.expect("the server accepts");
        kept.push(Kept::over(stream).await);
    }
    let mut places = BTreeSet::new();
    for connection in &mut kept {
        places.insert(connection.ask().await);
    }
    assert_eq!(Vec::from_iter(places), ["connections-0", "connections-1"]);
}

#[tokio::test]
async fn what_runs_on_one_thread_is_watched_and_canceled_from_the_other() {
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(sleeper())).await;
    let client = Client::new(address, Wire::JsonRpc);
    let mut sent = client.stream(message("go")).await;
    let first = sent.through(|event| event.is(WORKING)).await;
    let task = id(&first[0].payload()["task"]);
    // The thread of the stream has one connection more, so this is on the other.
    let mut watched = client.subscribe(&task).await;
    client.cancel(&task).await.task();
    for events in [&mut sent, &mut watched] {
        events.through(|event| event.is(CANCELED)).await;
        assert!(within("the end of a stream", events.next()).await.is_none());
    }
}

#[tokio::test]
async fn a_turn_outlives_its_connection_on_its_thread() {
    let (go_on, waiting) = oneshot::channel();
    let waiting = Arc::new(std::sync::Mutex::new(Some(waiting)));
    let spec = agent(move |turn: Turn| {
        let waiting = waiting.lock().expect("no panic").take();
        async move {
            turn.working("on").await?;
            waiting.expect("one turn").await?;
            Ok(Outcome::text(name_of_thread()))
        }
    });
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(spec)).await;
    let client = Client::new(address, Wire::Rest);
    let mut sent = client.stream(message("go")).await;
    let first = sent.through(|event| event.is(WORKING)).await;
    let task = id(&first[0].payload()["task"]);
    drop(sent);
    client.get(&task).await;
    go_on.send(()).expect("it waits");
    let ended = client.wait_for(&task, COMPLETED).await;
    assert!(text(&ended["artifacts"][0]).starts_with("connections-"), "{ended}");
}

#[tokio::test]
async fn a_panic_ends_the_task_and_not_the_thread() {
    let spec = agent(|turn: Turn| async move {
        assert!(turn.text() != "panic", "as asked");
        Ok(Outcome::text("fine"))
    });
    let (address, _stop, _served) = serve_on_two(Server::builder().agent(spec)).await;
    let client = Client::new(address, Wire::JsonRpc);
    for _ in 0..4 {
        assert_eq!(state(&client.say("panic").await), FAILED);
        assert_eq!(state(&client.say("go").await), COMPLETED);
    }
}

#[tokio::test]
async fn a_server_that_stops_lets_calls_finish_and_ends_its_threads() {
    let (began, begun) = oneshot::channel();
    let (go_on, waiting) = oneshot::channel::<()>();
    let left_over = Counter::default();
    let once = Arc::new(std::sync::Mutex::new(Some((began, waiting, OnDrop(left_over.clone())))));
    let spec = agent(move |_| {
        let (began, waiting, guard) = once.lock().expect("no panic").take().expect("one turn");
        async move {
            // What runs beside the call is not waited for.
            tokio::spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            let _ = began.send(());
            waiting.await?;
            Ok(Outcome::text("done"))
        }
    });
    let (address, stop, served) = serve_on_two(Server::builder().agent(spec)).await;
    let call = tokio::spawn(async move { Client::new(address, Wire::Rest).say("go").await });
    within("the call", begun).await.expect("it has begun");
    stop.send(()).expect("it runs");
    until("no more connections", || async { TcpStream::connect(address).await.is_err() }).await;
    assert!(!served.is_finished() && left_over.get() == 0);
    go_on.send(()).expect("it waits");
    assert_eq!(state(&within("the answer", call).await.expect("an answer")), COMPLETED);
    within("the server", served).await.expect("it returns");
    until("the end of the threads", || async { left_over.get() == 1 }).await;
}

/// A connection to the agent comes to one of the agent's threads, so that what it says tells connections apart.
#[tokio::test]
async fn each_thread_of_a_relay_has_its_own_connections_to_the_agent() {
    let (there, _stop_there, _served_there) = serve_on_two(Server::builder().agent(teller())).await;
    let relay = Relay::connect(format!("http://{there}")).await.expect("it is there");
    let (here, _stop, _served) = serve_on_two(Server::builder().relay_at("", relay)).await;
    let (mut one, mut other) = (Kept::to(here).await, Kept::to(here).await);
    let places = (one.ask().await, other.ask().await);
    assert_ne!(places.0, places.1);
    for _ in 0..5 {
        assert_eq!((one.ask().await, other.ask().await), places);
    }
}
