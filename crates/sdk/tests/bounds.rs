//! What one caller or one source may have of a server: answers that it does not read, streams, connections, wrong credentials.

mod support;

use std::time::Duration;

use bytes::Bytes;
use chancery_sdk::{AgentSpec, ErrorCode, Outcome, ServerLimits, Turn};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::json;
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// More than the operating system takes for somebody who does not read.
const LARGE: usize = 24 << 20;

/// Answers with so many bytes as it is told.
fn wordy() -> AgentSpec {
    agent(|turn: Turn| async move { Ok(Outcome::text("x".repeat(turn.text().parse().unwrap_or(1)))) })
}

fn get(task: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task}}).to_string()
}

fn head(more: &str, length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n{more}Content-Length: {length}\r\n\r\n"
    )
}

/// Asks for a task over HTTP/1.1 and reads no more than the first byte of the answer.
async fn asked(site: &Site, who: &str, task: &str) -> TcpStream {
    let mut stream = TcpStream::connect(site.address).await.expect("a connection");
    let body = get(task);
    let request = head(&format!("Authorization: Bearer {who}\r\n"), body.len()) + &body;
    stream.write_all(request.as_bytes()).await.expect("sent");
    within("an answer", stream.read_u8()).await.expect("the beginning of an answer");
    stream
}

/// A connection of HTTP/2 whose other end may send so much of an answer until more is asked for.
async fn http_2(site: &Site, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(site.address).await.expect("a connection");
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(window)
        .initial_connection_window_size(64 << 20)
        .handshake(TokioIo::new(stream))
        .await
        .expect("h2");
    tokio::spawn(connection);
    sender
}

fn request(site: &Site, body: String, content_type: &str) -> Request<Full<Bytes>> {
    Request::post(format!("http://{}/", site.address))
        .header("a2a-version", "1.0")
        .header(CONTENT_TYPE, content_type)
        .body(Full::new(Bytes::from(body)))
        .expect("a request")
}

/// One connection at a time, so that the next is only served when the one before it is gone.
fn one_at_a_time() -> ServerLimits {
    let (short, hour) = (Duration::from_millis(100), Duration::from_secs(3600));
    ServerLimits { connections: 1, write_timeout: short, header_timeout: hour, ..ServerLimits::default() }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let site = serve_with(|server| server.agent(wordy()).limits(one_at_a_time())).await;
    let ann = site.rest().by("r", "ann");
    let task = id(&ann.say(&LARGE.to_string()).await);
    let mut unread = asked(&site, "r/ann", &task).await;
    assert_eq!(state(&ann.say("1").await), COMPLETED);
    // What it was sent is all that it gets.
    let mut answer = Vec::new();
    let _ = within("the end of the connection", unread.read_to_end(&mut answer)).await;
    assert!(answer.len() < LARGE, "{}", answer.len());
}

#[tokio::test]
async fn an_answer_that_is_not_taken_over_http_2_ends_the_connection() {
    let site = serve_with(|server| server.agent(wordy()).limits(one_at_a_time())).await;
    let (small, large) = (id(&site.rest().say("10").await), id(&site.rest().say("200000").await));
    // Nothing of the answer is taken, a little, and all but its end.
    for (window, task) in [(0, &small), (10, &large), (150_000, &large)] {
        let mut sender = http_2(&site, window).await;
        let unread = sender.send_request(request(&site, get(task), "application/json"));
        let unread = within("an answer", unread).await.expect("its head");
        assert_eq!(state(&site.rest().say("1").await), COMPLETED, "{window}");
        drop((unread, sender));
    }
    let mut stream = http_2(&site, 10).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message("200000")}});
    let unread = stream.send_request(request(&site, call.to_string(), "application/json"));
    let unread = within("an answer", unread).await.expect("its head");
    assert_eq!(state(&site.rest().say("1").await), COMPLETED);
    drop(unread);
}

#[tokio::test]
async fn a_quiet_stream_and_a_slow_agent_are_not_taken_for_clients_that_do_not_read() {
    let spec = agent(|turn: Turn| async move {
        turn.working("on").await?;
        tokio::time::sleep(Duration::from_millis(600)).await;
        Ok(Outcome::text("done"))
    });
    let limits = ServerLimits { write_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(spec).limits(limits)).await;
    let mut sender = http_2(&site, 1 << 20).await;
    for method in ["SendMessage", "SendStreamingMessage"] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message("hi")}});
        let answer = sender.send_request(request(&site, call.to_string(), "application/json"));
        let answer = within("an answer", answer).await.expect("an answer").into_body();
        let body = http_body_util::BodyExt::collect(answer).await.expect("all of it").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(COMPLETED), "{method}");
    }
}

#[tokio::test]
async fn an_idle_connection_of_http_2_is_closed_and_a_busy_one_is_not() {
    let limits = ServerLimits {
        connections: 1,
        header_timeout: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let site = serve_with(|server| server.agent(sleeper()).limits(limits)).await;
    let mut sender = http_2(&site, 1 << 20).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message("hi")}});
    let stream = sender.send_request(request(&site, call.to_string(), "application/json")).await;
    let stream = stream.expect("an answer").into_body();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = sender.send_request(request(&site, get("none"), "application/json")).await;
    assert_eq!(again.expect("it is open").status(), 200);
    drop(stream);
    // While the sender is there, only the server closes it.
    within("a place", asked(&site, "r/ann", "none")).await;
    drop(sender);
}

#[tokio::test]
async fn the_beginning_of_a_preface_is_waited_for_and_only_for_so_long() {
    let limits = ServerLimits {
        connections: 1,
        header_timeout: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let site = serve_with(|server| server.agent(echo()).limits(limits)).await;
    let mut stream = TcpStream::connect(site.address).await.expect("a connection");
    stream.write_all(b"P").await.expect("sent");
    tokio::task::yield_now().await;
    let body = get("none");
    let request = head("Connection: close\r\n", body.len()) + &body;
    stream.write_all(&request.as_bytes()[1..]).await.expect("sent");
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut one = TcpStream::connect(site.address).await.expect("a connection");
    one.write_all(b"P").await.expect("sent");
    assert_eq!(state(&site.rest().say("hi").await), COMPLETED);
    drop(one);
}

#[tokio::test]
async fn one_owner_has_only_so_many_bytes_unread_and_others_have_their_own() {
    let limits = ServerLimits { unread_bytes_per_owner: LARGE + LARGE / 2, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(wordy()).limits(limits)).await;
    let (ann, bob) = (site.rest().by("r", "ann"), site.rest().by("r", "bob"));
    let large = id(&ann.say(&LARGE.to_string()).await);
    let small = id(&ann.say("10").await);
    let bobs = id(&bob.say(&LARGE.to_string()).await);
    let unread = asked(&site, "r/ann", &large).await;
    for wire in WIRES {
        let ann = site.client(wire).by("r", "ann");
        for (method, params) in
            [("GetTask", json!({"id": large})), ("ListTasks", json!({"includeArtifacts": true}))]
        {
            let refused = ann.call(method, params).await;
            assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{method}");
            refused.refused(ErrorCode::ResourceExhausted);
        }
        assert_eq!(state(&ann.call("GetTask", json!({"id": small})).await.result()), COMPLETED);
        let bob = site.client(wire).by("r", "bob");
        assert_eq!(state(&bob.call("GetTask", json!({"id": bobs})).await.result()), COMPLETED);
    }
    drop(unread);
    until("the room to be free again", || async {
        ann.call("GetTask", json!({"id": large})).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_a_large_task_is_counted_before_it_is_read() {
    let spec = agent(|turn: Turn| async move {
        turn.working(&"x".repeat(LARGE)).await?;
        std::future::pending().await
    });
    let limits = ServerLimits { unread_bytes_per_owner: LARGE + LARGE / 2, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(spec).limits(limits)).await;
    let task = id(&site.rest().start("hi").await);
    let mut sender = http_2(&site, 0).await;
    let subscribe = || {
        json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}).to_string()
    };
    let watch = |request| within("an answer", request);
    let unread = watch(sender.send_request(request(&site, subscribe(), "application/json"))).await;
    assert_eq!(unread.as_ref().expect("a stream").status(), 200);
    let refused = watch(sender.send_request(request(&site, subscribe(), "application/json"))).await;
    assert_eq!(refused.expect("an answer").status(), 429);
    drop(unread);
    until("the room to be free again", || async {
        site.jsonrpc().try_open("SubscribeToTask", &json!({"id": task}).to_string()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn one_owner_has_only_so_many_streams_and_others_have_their_own() {
    let limits = ServerLimits { streams_per_owner: 1, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(sleeper()).limits(limits)).await;
    let (ann, bob) = (site.rest().by("r", "ann"), site.rest().by("r", "bob"));
    let _held = ann.stream(message("hold")).await;
    for wire in WIRES {
        let params = json!({"message": message("go")}).to_string();
        let refused = site.client(wire).by("r", "ann").try_open("SendStreamingMessage", &params).await;
        let refused = refused.err().expect("no stream");
        assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
        refused.refused(ErrorCode::ResourceExhausted);
    }
    let _bobs = bob.stream(message("hold")).await;
    assert_eq!(ann.call("ListTasks", json!({})).await.result()["totalSize"], 1);
}

#[tokio::test]
async fn one_source_has_only_so_many_connections() {
    let limits = ServerLimits { connections_per_source: 2, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(echo()).limits(limits)).await;
    let service = site.service.clone().expect("a service");
    let mut first = asked(&site, "r/ann", "none").await;
    let _second = asked(&site, "r/ann", "none").await;
    let mut third = TcpStream::connect(site.address).await.expect("the kernel takes it");
    let mut nothing = Vec::new();
    let _ = within("the end of it", third.read_to_end(&mut nothing)).await;
    assert!(nothing.is_empty());
    assert_eq!(service.refused_connections(), 1);
    first.shutdown().await.expect("shut");
    drop(first);
    until("a place", || async {
        let mut stream = TcpStream::connect(site.address).await.expect("a connection");
        let body = get("none");
        let sent = stream.write_all((head("", body.len()) + &body).as_bytes()).await;
        sent.is_ok() && stream.read_u8().await.is_ok()
    })
    .await;
    // A proxy stands for many.
    let proxied = serve_with(|server| {
        let loopback = "127.0.0.0/8".parse().expect("a range");
        server.agent(echo()).limits(limits).trust_proxies([loopback], chancery_sdk::ForwardedBy::default())
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(asked(&proxied, "r/ann", "none").await);
    }
}

#[tokio::test]
async fn who_shows_many_wrong_credentials_is_refused_before_the_next_is_looked_at() {
    let limits = ServerLimits { refused_credentials: 3, ..ServerLimits::default() };
    let looked_at = Counter::default();
    let count = looked_at.clone();
    let site = serve_with(|server| {
        let loopback = "127.0.0.0/8".parse().expect("a range");
        let server = server.trust_proxies([loopback], chancery_sdk::ForwardedBy::default());
        server.agent(echo()).limits(limits).authenticate(move |head| {
            count.add();
            match head.headers.get("authorization").map(http::HeaderValue::as_bytes) {
                None => Ok(chancery_sdk::Principal::anonymous()),
                Some(b"Bearer right") => Ok(chancery_sdk::Principal::new("r", "ann")),
                Some(_) => Err(chancery_sdk::Error::new(ErrorCode::Unauthenticated)),
            }
        })
    })
    .await;
    let from = |address: &str| site.rest().with("x-forwarded-for", address);
    let (here, there) = (from("192.0.2.1"), from("192.0.2.2"));
    let wrong = |client: &Client| client.clone().with("authorization", "Bearer wrong");
    let right = |client: &Client| client.clone().with("authorization", "Bearer right");
    assert_eq!(right(&here).send(message("hi")).await.status, 200);
    for _ in 0..3 {
        assert_eq!(wrong(&here).send(message("hi")).await.status, 401);
    }
    let before = looked_at.get();
    for client in [wrong(&here), right(&here)] {
        for wire in WIRES {
            let mut client = client.clone();
            client.wire = wire;
            let answer = client.send(message("hi")).await;
            assert_eq!(answer.status, 429);
            assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
            answer.refused(ErrorCode::ResourceExhausted);
        }
    }
    assert_eq!(looked_at.get(), before, "none is looked at");
    assert_eq!(site.service.as_ref().expect("a service").refused_credentials(), 3);
    // Nobody else is kept out, and who shows nothing was not counted.
    assert_eq!(right(&there).send(message("hi")).await.status, 200);
    assert_eq!(here.send(message("hi")).await.status, 200);
}
