//! Peers that fail, lie or dawdle: what the client makes of it, and how often it tries.

mod support;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_sdk as sdk;
use chancery_sdk::protocol::{ALL_ERROR_CODES, Operation, ProtocolBinding, SecurityScheme};
use chancery_sdk::{ClientError, Error, ErrorCode, Interceptor, Principal, Server};
use http::HeaderValue;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const BINDINGS: [ProtocolBinding; 2] = [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson];

fn done() -> Value {
    json!({"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}})
}

/// A peer that cuts the connection after it has read each of the first calls.
async fn shaky(idempotent: bool, cuts: usize) -> Peer {
    Peer::agent("JSONRPC", idempotent, move |at, heard| match at {
        at if at < cuts => Reply::Raw(Vec::new()),
        _ if heard.json()["method"] == "SendMessage" => heard.result(&json!({"task": done()})),
        _ => heard.result(&done()),
    })
    .await
}

#[tokio::test]
async fn a_read_is_tried_four_times_and_no_more() {
    let peer = shaky(false, 3).await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    client.get("t").await.expect("the fourth time");
    assert_eq!(peer.calls().len(), 4);

    let peer = shaky(false, 100).await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    let cut = client.get("t").await.expect_err("never");
    assert!(matches!(cut, ClientError::Cut { .. }) && cut.is_retryable() && !cut.was_never_sent(), "{cut}");
    assert_eq!(peer.calls().len(), 4);
    // Canceling twice is canceling once.
    assert!(client.cancel("t").await.is_err());
    assert_eq!(peer.calls().len(), 8);
}

#[tokio::test]
async fn a_send_that_may_have_arrived_is_repeated_only_with_a_key() {
    let peer = shaky(false, 1).await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    let cut = client.send("x").await.expect_err("cut");
    assert!(matches!(cut, ClientError::Cut { .. }), "{cut}");
    assert_eq!(peer.calls().len(), 1);

    let peer = shaky(true, 3).await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    client.send("x").await.expect("the fourth time");
    let keys: Vec<_> =
        peer.calls().iter().map(|call| call.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 4 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    client.send("x").await.expect("an answer");
    assert_ne!(peer.calls()[4].header("idempotency-key"), keys[0].as_deref());
}

#[tokio::test]
async fn a_send_that_never_left_is_repeated() {
    let peer = shaky(false, 0).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let elsewhere = peer.url.clone();
    // The first interface is not there; the second one is.
    let guide = Peer::start(move |_, _| {
        let mut card = card(&nobody, "JSONRPC", false);
        let second = json!({"url": elsewhere, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
        card["supportedInterfaces"].as_array_mut().expect("interfaces").push(second);
        Reply::json(200, &card)
    })
    .await;
    let egress = sdk::egress::Egress::default().allow("127.0.0.1/32".parse().expect("a range"));
    let client = sdk::Client::builder().egress(egress).connect(&guide.url).await.expect("a card");
    client.send("x").await.expect("an answer by the other interface");
    assert_eq!(peer.calls().len(), 1);
}

#[tokio::test]
async fn a_send_that_may_have_arrived_may_have_arrived_also_if_the_peer_is_gone_then() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let shown = card(&url, "JSONRPC", true).to_string();
    let peer = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut heard = [0; 4096];
            let length = stream.read(&mut heard).await.expect("a request");
            if !heard[..length].starts_with(b"GET ") {
                // The work is done, and nobody listens any more when it is sent again.
                return drop((listener, stream));
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{shown}", shown.len());
            stream.write_all(answer.as_bytes()).await.expect("an answer");
        }
    });
    let client = sdk::Client::connect(&url).await.expect("a card");
    let lost = client.send("x").await.expect_err("nobody answers");
    peer.await.expect("it has heard of it");
    assert!(!lost.was_never_sent(), "{lost}");
}

#[tokio::test]
async fn a_busy_peer_is_asked_again_when_it_says() {
    let peer = Peer::agent("JSONRPC", false, |at, heard| match at {
        0 => Reply::Whole(503, vec![("retry-after", "1".to_owned())], "busy".to_owned()),
        _ => heard.result(&done()),
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    let started = Instant::now();
    client.get("t").await.expect("the second time");
    assert!(started.elapsed() >= Duration::from_secs(1));

    let peer = Peer::agent("JSONRPC", false, |_, _| {
        Reply::Whole(429, vec![("retry-after", "3600".to_owned())], "go \u{7}away".to_owned())
    })
    .await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    let busy = client.get("t").await.expect_err("busy");
    assert_eq!((busy.retry_after(), peer.calls().len()), (Some(Duration::from_secs(3600)), 1));
    assert!(busy.to_string().ends_with("429 Too Many Requests and no A2A answer: go away"), "{busy}");
    assert_eq!(Error::from(busy).code(), ErrorCode::ResourceExhausted);
}

#[tokio::test]
async fn an_answer_that_is_none_is_refused() {
    type Script = fn(&Heard) -> Reply;
    let scripts: [(Script, &str); 9] = [
        (|_| Reply::json(200, &json!({"jsonrpc": "2.0", "id": 99, "result": done()})), "`id` is not that"),
        (|_| Reply::json(200, &json!({"jsonrpc": "2.0", "id": "1", "result": done()})), "`id` is not that"),
        (
            |_| Reply::Whole(200, vec![("content-type", "text/html".to_owned())], "<p>".to_owned()),
            "`text/html`",
        ),
        (|_| Reply::Whole(200, Vec::new(), "{}".to_owned()), "`none`"),
        (|heard| heard.result(&json!({"id": "t"})), "status: is required"),
        (|_| Reply::json(200, &json!([])), "not a JSON-RPC response"),
        (|_| Reply::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()), "not HTTP"),
        (
            |_| Reply::Whole(302, vec![("location", "http://a.example".to_owned())], String::new()),
            "not followed",
        ),
        (|heard| heard.result(&json!({"x": "y".repeat(5000)})), "larger than the 4096 bytes"),
    ];
    for (script, expected) in scripts {
        let peer = Peer::agent("JSONRPC", false, move |_, heard| script(heard)).await;
        let client =
            sdk::Client::builder().max_response_bytes(4096).connect(&peer.url).await.expect("a peer");
        let bad = client.get("t").await.expect_err(expected);
        assert!(bad.to_string().contains(expected), "{bad}");
        assert!(!bad.is_retryable());
        assert_eq!(peer.calls().len(), 1, "{expected}");
    }
}

#[tokio::test]
async fn floods_are_cut_short() {
    let head = |extra: String| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{extra}\r\n").into_bytes()
    };
    let large_header = head(format!("x: {}\r\n", "y".repeat(1 << 20)));
    let many_headers = head((0..500).map(|i| format!("x-{i}: y\r\n")).collect());
    let announced = head("content-length: 999999999999\r\n".to_owned());
    let mut endless = head("transfer-encoding: chunked\r\n".to_owned());
    for _ in 0..64 {
        endless.extend_from_slice(format!("1000\r\n{}\r\n", " ".repeat(4096)).as_bytes());
    }
    for bytes in [large_header, many_headers, announced, endless] {
        let begins = String::from_utf8_lossy(&bytes[..80]).into_owned();
        let peer = Peer::agent("JSONRPC", false, move |_, _| Reply::Hang(bytes.clone())).await;
        let client =
            sdk::Client::builder().max_response_bytes(100_000).connect(&peer.url).await.expect("a peer");
        let flooded = within("an end", client.get("t")).await.expect_err("too much");
        assert!(matches!(flooded, ClientError::TooLarge { .. }), "{begins}: {flooded:?}");
    }
}

#[tokio::test]
async fn a_peer_that_dawdles_is_left() {
    let drip = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{".to_vec();
    for bytes in [Vec::new(), drip] {
        let peer = Peer::agent("JSONRPC", true, move |_, _| Reply::Hang(bytes.clone())).await;
        let limit = Duration::from_secs(1);
        let client = sdk::Client::builder().request_timeout(limit).connect(&peer.url).await.expect("a peer");
        let late = client.get("t").await.expect_err("late");
        assert!(matches!(late, ClientError::TimedOut { after, .. } if after == limit), "{late}");
        assert!(late.to_string().contains("GetTask took longer than 1000 ms"), "{late}");
        // The time is for the call as a whole, so there is none left to try again.
        assert_eq!(peer.calls().len(), 1);
        assert!(client.send("x").await.expect_err("late").is_retryable());
    }
}

#[tokio::test]
async fn nobody_at_home_is_said_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let gone = sdk::Client::connect(format!("http://{address}")).await.expect_err("nobody");
    assert!(gone.was_never_sent() && gone.is_retryable(), "{gone}");
    assert!(gone.to_string().starts_with(&format!("cannot connect to http://{address};")), "{gone}");
    assert!(gone.source().is_some());
    for url in ["", "a.example", "ftp://a.example", "http://me:hush@a.example/", "http://a b/"] {
        let wrong = sdk::Client::connect(url).await.expect_err("no URL");
        assert!(matches!(wrong, ClientError::Configuration(_)), "{url}: {wrong}");
    }
}

/// Makes the server fail as told.
struct FailAs(Arc<Mutex<usize>>);

impl Interceptor for FailAs {
    fn before(&self, _: Option<Operation>, head: &mut Parts) -> Result<(), Box<dyn StdError + Send + Sync>> {
        head.headers.insert("x-fail", HeaderValue::from(*self.0.lock()));
        Ok(())
    }
}

fn failure(nth: usize) -> Error {
    let error = Error::with_message(ALL_ERROR_CODES[nth], format!("failure {nth}: café"));
    let error = error.about("taskId", "t").about("a", "\"b\"").retry_after(Duration::from_millis(2500));
    // A reason of our own hides the protocol's, so that the status has to tell.
    let is_told = matches!(error.code(), ErrorCode::PermissionDenied | ErrorCode::ResourceExhausted);
    if is_told { error.because("SOMETHING_OF_OURS") } else { error }
}

#[tokio::test]
async fn every_error_comes_back_as_it_was_by_both_bindings() {
    let authenticate = |head: &Parts| -> Result<Principal, Error> {
        let nth = head.headers["x-fail"].to_str().expect("a text").parse().expect("a number");
        Err(failure(nth))
    };
    let server = Server::builder()
        .agent(echo())
        .authenticate(authenticate)
        .security_scheme("any", SecurityScheme::bearer())
        .bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    tokio::spawn(server.run_until(std::future::pending()));
    for binding in BINDINGS {
        let nth = Arc::new(Mutex::new(0));
        let client = sdk::Client::builder()
            .prefer([binding.clone()])
            .retries(0)
            .interceptor(FailAs(nth.clone()))
            .connect(&url)
            .await
            .expect("the server");
        for (at, code) in ALL_ERROR_CODES.into_iter().enumerate() {
            *nth.lock() = at;
            for failed in [
                client.get("t").await.expect_err("a failure"),
                client.stream("x").await.expect_err("a failure"),
            ] {
                let ClientError::Peer(error) = failed else { panic!("{code:?} is {failed}") };
                let sent = failure(at);
                assert_eq!(error.code(), code, "{binding}");
                assert_eq!((error.message(), error.reason()), (sent.message(), sent.reason()));
                assert_eq!(
                    (error.fact("a"), error.wait()),
                    (Some("\"b\""), Some(Duration::from_millis(2500)))
                );
            }
        }
    }
}

#[tokio::test]
async fn only_so_many_calls_are_under_way_at_a_time() {
    let running: Arc<Mutex<(usize, usize)>> = Arc::default();
    let noted = running.clone();
    let site = serve(agent(move |_| {
        let running = noted.clone();
        async move {
            {
                let mut running = running.lock();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            running.lock().0 -= 1;
            Ok(sdk::Outcome::completed())
        }
    }))
    .await;
    let url = format!("http://{}", site.address);
    let client = sdk::Client::builder().max_concurrent_calls(3).connect(url).await.expect("the server");
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.send("x").await.map(|_| ()) })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic").expect("an answer");
    }
    assert_eq!(*running.lock(), (0, 3));
}

#[tokio::test]
async fn the_rate_is_kept() {
    let peer = shaky(false, 0).await;
    let client = sdk::Client::builder().rate_limit(50, 1).connect(&peer.url).await.expect("a peer");
    let started = Instant::now();
    for _ in 0..10 {
        client.get("t").await.expect("a task");
    }
    // Eleven with the look at the card, of which the first one is free.
    assert!(started.elapsed() >= Duration::from_millis(180), "{:?}", started.elapsed());
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let peer = shaky(false, 0).await;
    let client = sdk::Client::connect(&peer.url).await.expect("a peer");
    for _ in 0..20 {
        client.get("t").await.expect("a task");
    }
    let connections: Vec<_> = peer.heard().iter().map(|heard| heard.connection).collect();
    assert_eq!(connections, vec![0; 21]);
}

#[tokio::test]
async fn an_answer_may_come_before_the_message_has_been_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let card = card(&url, "JSONRPC", false).to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut begins = [0; 10];
            stream.read_exact(&mut begins).await.expect("the beginning of a request");
            let (status, body) = if begins.starts_with(b"GET") { (200, &*card) } else { (413, "no!") };
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
            let answer = format!("{head}content-type: application/json\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.expect("somebody who reads");
            open.push(stream);
        }
    });
    let client = sdk::Client::connect(&url).await.expect("a peer");
    for _ in 0..2 {
        let refused = within("an answer", client.send("x".repeat(32 << 20))).await.expect_err("too much");
        assert!(
            matches!(&refused, ClientError::Status { status, .. } if status.as_u16() == 413),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_an_answer_says_of_its_connection_is_heeded() {
    let heads = [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: LENGTH",
        "HTTP/1.0 200 OK\r\ncontent-length: LENGTH",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked",
    ];
    for head in heads {
        let peer = Peer::agent("HTTP+JSON", false, move |_, _| {
            let body = done().to_string();
            let head = head.replace("LENGTH", &body.len().to_string());
            let head = format!("{head}\r\ncontent-type: application/json\r\n\r\n");
            match head.contains("chunked") {
                true => {
                    Reply::Raw(format!("{head}{:X};x=y\r\n{body}\r\n0\r\nx: y\r\n\r\n", body.len()).into())
                }
                false => Reply::Raw(format!("{head}{body}").into()),
            }
        })
        .await;
        let client = sdk::Client::connect(&peer.url).await.expect("a peer");
        for _ in 0..3 {
            client.get("t").await.expect(head);
        }
        assert_eq!(peer.calls().len(), 3, "{head}");
    }
}

/// What a client makes of an answer with these headers and this body, after which the connection is cut.
async fn answered_with(head: &str, body: &str) -> Result<(), ClientError> {
    let answer = format!("{head}\r\ncontent-type: application/json\r\n\r\n{body}");
    let peer = Peer::agent("HTTP+JSON", false, move |_, _| Reply::Raw(answer.clone().into())).await;
    let client = sdk::Client::builder().retries(0).connect(&peer.url).await.expect("a peer");
    within("an end", client.get("t")).await.map(|_| ())
}

#[tokio::test]
async fn answers_that_are_cut_short_or_contradict_themselves_are_errors() {
    let body = done().to_string();
    let (length, size) = (body.len(), format!("{:x}", body.len()));
    for (head, body) in [
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {}", length + 1), body.clone()),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked".to_owned(), format!("{size}\r\n{body}\r\n")),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked".to_owned(),
            format!("{size}x\r\n{body}\r\n0\r\n\r\n"),
        ),
    ] {
        let cut = answered_with(&head, &body).await.expect_err(&head);
        assert!(matches!(cut, ClientError::Cut { .. }) && !cut.was_never_sent(), "{head}: {cut:?}");
    }
    for head in [
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-length: {}", length - 1),
        format!("HTTP/1.1 200 OK\r\ncontent-length: +{length}"),
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999".to_owned(),
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked".to_owned(),
    ] {
        let bad = answered_with(&head, &body).await.expect_err(&head);
        assert!(matches!(bad, ClientError::BadAnswer(_)), "{head}: {bad:?}");
    }
    // RFC 9112: chunks override a length.
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked";
    answered_with(head, &format!("{size}\r\n{body}\r\n0\r\n\r\n")).await.expect("an answer");
}

#[tokio::test]
async fn endless_interim_answers_end_with_the_time_for_the_call() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let card = card(&url, "JSONRPC", false).to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let card = card.clone();
            tokio::spawn(async move {
                let mut begins = [0; 10];
                stream.read_exact(&mut begins).await.expect("the beginning of a request");
                if begins.starts_with(b"GET") {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", card.len());
                    let answer = format!("{head}content-type: application/json\r\n\r\n{card}");
                    stream.write_all(answer.as_bytes()).await.expect("somebody who reads");
                } else {
                    while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {}
                }
            });
        }
    });
    let limit = Duration::from_millis(500);
    let client = sdk::Client::builder().request_timeout(limit).connect(&url).await.expect("a peer");
    let late = within("an end", client.get("t")).await.expect_err("no answer");
    assert!(matches!(late, ClientError::TimedOut { after, .. } if after == limit), "{late}");
}

#[test]
fn a_client_outlives_a_runtime_that_called() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (site, first) = (tokio::runtime::Runtime::new().expect("a runtime"), runtime());
    let peer = site.block_on(shaky(false, 0));
    let client = first.block_on(sdk::Client::connect(&peer.url)).expect("a peer");
    first.block_on(client.get("t")).expect("a task");
    drop(first);
    let second = runtime();
    second.block_on(client.send("x")).expect("a task");
    drop(second);
    runtime().block_on(client.send("x")).expect("a task");
    assert_eq!(peer.calls().len(), 3);
}

/// Frames of HTTP/2: length, kind, flags, stream, payload.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    [&[0, 0, length, kind, 0, 0, 0, 0, stream], payload].concat()
}

/// An agent by gRPC that answers the first request of each connection with these frames.
async fn answers_with_frames(frames: Vec<u8>) -> String {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let url = format!("http://{address}");
    let card = card(&url, "GRPC", false).to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (card, frames) = (card.clone(), frames.clone());
            tokio::spawn(async move {
                let mut begins = [0; 24];
                stream.read_exact(&mut begins).await.expect("the beginning of a request");
                if begins.starts_with(b"GET") {
                    let head =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n", card.len());
                    let answer = format!("{head}content-type: application/json\r\n\r\n{card}");
                    return stream.write_all(answer.as_bytes()).await.expect("somebody who reads");
                }
                stream.write_all(&frame(SETTINGS, 0, &[])).await.expect("somebody who reads");
                let mut head = [0; 9];
                while stream.read_exact(&mut head).await.is_ok() {
                    let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                    stream.read_exact(&mut vec![0; length]).await.expect("the rest of the frame");
                    if head[3] == HEADERS {
                        stream.write_all(&frames).await.expect("somebody who reads");
                    }
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn what_a_peer_by_http2_refuses_was_never_sent() {
    const RST_STREAM: u8 = 3;
    const GOAWAY: u8 = 7;
    let refused = frame(RST_STREAM, 1, &[0, 0, 0, 7]);
    let internal = frame(RST_STREAM, 1, &[0, 0, 0, 2]);
    let goes_away = frame(GOAWAY, 0, &[0; 8]);
    for (frames, never_sent) in [(refused, true), (goes_away, true), (internal, false)] {
        let url = answers_with_frames(frames).await;
        let client = sdk::Client::builder().retries(0).connect(&url).await.expect("a peer");
        let error = within("an answer", client.send("hello")).await.expect_err("nobody answers");
        assert_eq!(error.was_never_sent(), never_sent, "{error:?}");
    }
}
