//! HTTP itself: limits, ambiguous requests, HTTP/2, slow clients, too many streams.

mod support;

use std::time::Duration;

use bytes::Bytes;
use chancery_sdk::{ErrorCode, Outcome, ServerLimits, Turn};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#;

/// A JSON-RPC call as text; the lines stand between the request line and the body.
fn post(lines: &str, body: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\nConnection: close\r\n{lines}\r\n{body}"
    )
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn requests_that_could_be_read_in_two_ways_are_refused() {
    let site = serve(echo()).await;
    let length = format!("Content-Length: {}\r\n", LIST.len());
    let chunked = format!("{:x}\r\n{LIST}\r\n0\r\n\r\n", LIST.len());
    let good = post(&format!("Host: localhost\r\n{length}"), LIST);
    assert_eq!(status(&raw(site.address, good.as_bytes()).await), "200");
    let good = post("Host: localhost\r\nTransfer-Encoding: chunked\r\n", &chunked);
    assert_eq!(status(&raw(site.address, good.as_bytes()).await), "200");
    for (name, request) in [
        ("no host", post(&length, LIST)),
        ("two hosts", post(&format!("Host: localhost\r\nHost: localhost\r\n{length}"), LIST)),
        ("two other hosts", post(&format!("Host: localhost\r\nHost: b\r\n{length}"), LIST)),
        ("two lengths", post(&format!("Host: localhost\r\nContent-Length: 3\r\n{length}"), LIST)),
        ("unknown encoding", post("Host: localhost\r\nTransfer-Encoding: gzip\r\n", &chunked)),
        ("a space before the colon", post(&format!("Host : localhost\r\n{length}"), LIST)),
        ("no HTTP", "nonsense\r\n\r\n".to_owned()),
        ("another target", good_target(&length)),
    ] {
        let answer = raw(site.address, request.as_bytes()).await;
        assert_eq!(status(&answer), "400", "{name}: {answer}");
        assert!(!answer.contains("result"), "{name}: {answer}");
    }
}

fn good_target(length: &str) -> String {
    post(&format!("Host: localhost\r\n{length}"), LIST).replace("POST / ", "POST http://b/ ")
}

#[tokio::test]
async fn a_length_beside_an_encoding_smuggles_nothing() {
    let site = serve(echo()).await;
    let chunked = format!("{:x}\r\n{LIST}\r\n0\r\n\r\n", LIST.len());
    let hidden = post(&format!("Host: localhost\r\nContent-Length: {}\r\n", LIST.len()), LIST);
    for lines in [
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Host: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    ] {
        // It is refused, and the connection ends there: what follows is never read as a request.
        let request = post(lines, &chunked).replace("Connection: close\r\n", "") + &hidden;
        let answer = raw(site.address, request.as_bytes()).await;
        assert_eq!((answer.matches("HTTP/1.1").count(), status(&answer)), (1, "400"), "{answer}");
        assert!(answer.contains("not both"), "{answer}");
        // So it is after others on the same connection.
        let first =
            post("Host: a\r\nTransfer-Encoding: chunked\r\n", &chunked).replace("Connection: close\r\n", "");
        let answer = raw(site.address, (first + &post(lines, &chunked)).as_bytes()).await;
        assert!(answer.contains("not both"), "{answer}");
    }
    for encoding in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
        let request = post(&format!("Host: a\r\nTransfer-Encoding: {encoding}\r\n"), &chunked);
        let answer = raw(site.address, request.as_bytes()).await;
        assert_eq!(status(&answer), "400", "{encoding}: {answer}");
    }
    let twice = post("Host: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", &chunked);
    assert_eq!(status(&raw(site.address, twice.as_bytes()).await), "400");
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let site = serve(echo()).await;
    let many = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    let length = format!("Host: localhost\r\nContent-Length: {}\r\n", LIST.len());
    assert_eq!(status(&raw(site.address, post(&(length.clone() + &many(90)), LIST).as_bytes()).await), "200");
    for lines in [many(101), format!("X-Large: {}\r\n", "y".repeat(20 << 10))] {
        let answer = raw(site.address, post(&(length.clone() + &lines), LIST).as_bytes()).await;
        assert_eq!(status(&answer), "431", "{answer}");
    }
    let path =
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "y".repeat(80 << 10));
    let answer = raw(site.address, path.as_bytes()).await;
    assert!(["414", "431", "400"].contains(&status(&answer)), "{answer}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_413() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let answer = client.send(message(&"x".repeat(1 << 20))).await;
        assert_eq!(answer.status, 413, "{answer:?}");
        let json = answer.json();
        let details = json["error"].get("data").or(json["error"].get("details")).expect("details");
        assert_eq!(details[0]["reason"], "INVALID_REQUEST");
        assert_eq!(state(&client.say(&"x".repeat(1_000_000)).await), COMPLETED);
    }
    // One that does not say how long it is, too.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let request = post("Host: localhost\r\nTransfer-Encoding: chunked\r\n", &chunk.repeat(17));
    let answer = raw(site.address, request.as_bytes()).await;
    assert_eq!(status(&answer), "413", "{answer}");
}

#[tokio::test]
async fn an_answer_says_whether_the_connection_goes_on() {
    let site = serve(echo()).await;
    for (path, expected) in [("/nobody/", "404"), ("/", "200"), ("/.well-known/agent-card.json", "405")] {
        let mut stream = TcpStream::connect(site.address).await.expect("a connection");
        for _ in 0..2 {
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                LIST.len()
            );
            // The head alone: whoever answers it has not read what comes later.
            stream.write_all(head.as_bytes()).await.expect("it is there");
            if expected == "200" {
                stream.write_all(LIST.as_bytes()).await.expect("it is there");
            }
            let mut answer = vec![0; 16 << 10];
            let length = within("an answer", stream.read(&mut answer)).await.expect("an answer");
            let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
            assert_eq!(status(&answer), expected, "{path}: {answer}");
            assert_eq!(answer.contains("connection: close"), expected != "200", "{path}: {answer}");
            if expected != "200" {
                break;
            }
        }
    }
}

#[tokio::test]
async fn limits_can_be_set() {
    let limits = ServerLimits { body_bytes: 500, headers: 8, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(echo()).limits(limits)).await;
    assert_eq!(site.rest().send(message(&"x".repeat(500))).await.status, 413);
    assert_eq!(state(&site.rest().say("x").await), COMPLETED);
    let lines: String = (0..9).map(|n| format!("X-{n}: y\r\n")).collect();
    let request = post(&format!("Host: localhost\r\nContent-Length: {}\r\n{lines}", LIST.len()), LIST);
    assert_eq!(status(&raw(site.address, request.as_bytes()).await), "431");
}

#[tokio::test]
async fn a_client_that_dawdles_is_cut_off() {
    let short = Duration::from_millis(100);
    let limits = ServerLimits { header_timeout: short, body_timeout: short, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(echo()).limits(limits)).await;
    // Half a head, then nothing: the server closes, for `raw` reads to the end.
    let answer = raw(site.address, b"POST / HTTP/1.1\r\nHost: localhost\r\n").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    // Nothing at all.
    assert_eq!(raw(site.address, b"").await, "");
    // Half a body.
    let answer = raw(site.address, post("Host: localhost\r\nContent-Length: 100\r\n", "{").as_bytes()).await;
    assert_eq!(status(&answer), "408", "{answer}");
    assert_eq!(state(&site.rest().say("still there").await), COMPLETED);
}

#[tokio::test]
async fn a_body_that_ends_early_runs_nothing() {
    let site = serve(echo()).await;
    let body = json!({"message": message("hi")}).to_string();
    let mut stream = TcpStream::connect(site.address).await.expect("a connection");
    let head = "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len() + 10);
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream.shutdown().await.expect("half closed");
    let mut answer = String::new();
    // The server may answer or just close.
    let _ = stream.read_to_string(&mut answer).await;
    assert!(!answer.contains("200 OK"), "{answer}");
    assert_eq!(site.rest().call("ListTasks", json!({})).await.result()["totalSize"], 0);
}

#[tokio::test]
async fn http_2_with_prior_knowledge_is_served() {
    let site = serve(echo()).await;
    let stream = TcpStream::connect(site.address).await.expect("a connection");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("h2");
    tokio::spawn(connection);
    let calls = (0..20).map(|number| {
        let mut sender = sender.clone();
        async move {
            let streams = number % 2 == 0;
            let path = if streams { "/message:stream" } else { "/message:send" };
            let request = Request::post(format!("http://{}{path}", site.address))
                .header("a2a-version", "1.0")
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(json!({"message": message(&number.to_string())}).to_string())))
                .expect("a request");
            let response = sender.send_request(request).await.expect("an answer");
            assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let body = String::from_utf8(body.to_vec()).expect("a text");
            assert!(
                body.contains(COMPLETED) && body.contains(&format!(r#"{{"text":"{number}"}}"#)),
                "{body}"
            );
            assert_eq!(body.contains("id: 1\n"), streams);
        }
    });
    within("twenty calls on one connection", futures_util::future::join_all(calls)).await;
}

#[tokio::test]
async fn streams_over_the_limit_are_refused_before_anything_runs() {
    let runs = Counter::default();
    let spec = agent({
        let runs = runs.clone();
        move |turn: Turn| {
            runs.add();
            async move {
                turn.working("on").await?;
                if turn.text() == "hold" {
                    std::future::pending::<()>().await;
                }
                Ok(Outcome::completed())
            }
        }
    });
    let limits = ServerLimits { streams: 1, ..ServerLimits::default() };
    let site = serve_with(|server| server.agent(spec).limits(limits)).await;
    let mut held = site.rest().stream(message("hold")).await;
    let task = id(&held.one().await.payload()["task"]);
    for wire in WIRES {
        let client = site.client(wire);
        let params = json!({"message": message("go")}).to_string();
        let subscribe = json!({"id": task}).to_string();
        for (method, params) in [("SendStreamingMessage", &params), ("SubscribeToTask", &subscribe)] {
            let answer = client.try_open(method, params).await.err().expect("no stream");
            assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
            answer.refused(ErrorCode::Unavailable);
        }
    }
    // Whoever is told to try again must not have been served already.
    assert_eq!(site.rest().call("ListTasks", json!({})).await.result()["totalSize"], 1);
    assert_eq!(state(&site.rest().say("unary calls need no place").await), COMPLETED);
    assert_eq!(runs.get(), 2);
    drop(held);
    until("the place to be free", || async {
        let params = json!({"message": message("go")}).to_string();
        site.rest().try_open("SendStreamingMessage", &params).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn the_card_is_served_with_everything_a_cache_wants() {
    let site = serve(echo().description("Says what it is told")).await;
    let client = site.rest().without("a2a-version");
    let path = chancery_sdk::WELL_KNOWN_CARD;
    let card = client.fetch(Method::GET, path, String::new()).await;
    assert_eq!((card.status, &card.json()["description"]), (200, &json!("Says what it is told")));
    let interfaces = card.json()["supportedInterfaces"].clone();
    let url = format!("http://{}", site.address);
    assert_eq!((&interfaces[0]["url"], &interfaces[0]["protocolBinding"]), (&json!(url), &json!("JSONRPC")));
    assert!(!card.header("cache-control").is_empty() && !card.header("last-modified").is_empty());
    let known = client.clone().with("if-none-match", card.header("etag"));
    let again = known.fetch(Method::GET, path, String::new()).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other =
        client.clone().with("if-none-match", "\"other\"").fetch(Method::GET, path, String::new()).await;
    assert_eq!(other.body, card.body);
    let since = client.with("if-modified-since", card.header("last-modified"));
    assert_eq!(since.fetch(Method::GET, path, String::new()).await.status, 304);
}
