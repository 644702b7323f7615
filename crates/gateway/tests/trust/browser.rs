//! What a web page sends through the browser of somebody who reaches the gateway.

use std::path::Path;

use ::http::{Method, Request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::gateway::{Gateway, chancery, folder};
use crate::http::{get, post, request};
use crate::{ECHO, V1, message, started};

const SEND: &str = r#"{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]}}"#;
/// Every path that takes a body, by its address and what is sent there.
const POSTED: [(&str, &str); 10] = [
    ("/agents/echo/", r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#),
    ("/agents/echo/rpc", r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#),
    ("/agents/echo/message:send", SEND),
    ("/agents/echo/v1/message:send", SEND),
    ("/agents/echo/tasks/none:cancel", "{}"),
    ("/agents/echo/invoke", "{}"),
    ("/negotiate", "{}"),
    ("/a2a/tasks", SEND),
    ("/a2a/echo/message:send", SEND),
    ("/lf.a2a.v1.A2AService/SendMessage", "x"),
];

#[tokio::test]
async fn a_body_says_what_it_is_and_a_page_cannot_lie_about_it() {
    let gateway = Gateway::start(ECHO);
    for (path, body) in POSTED {
        let url = format!("{}{path}", gateway.url());
        // What a page can send without asking first.
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
        {
            let headers = [V1, ("x-request-id", "1"), ("content-type", kind)];
            let answer = request(Method::POST, &url, &headers, body).await;
            assert_eq!(answer.status, 415, "{path} `{kind}`: {answer:?}");
            assert!(answer.json().get("error").is_some(), "{path} `{kind}`: {answer:?}");
        }
    }
    assert_eq!(tasks(&gateway).await, 0, "nothing was done");
}

/// How many tasks there are.
async fn tasks(gateway: &Gateway) -> u64 {
    let listed = get(&format!("{}/tasks", gateway.agent("echo")), &[V1]).await;
    listed.json()["totalSize"].as_u64().unwrap_or_else(|| panic!("{listed:?}"))
}

#[tokio::test]
async fn a_page_that_points_its_own_name_here_is_refused() {
    let config = format!(
        "[server]\npublic_url = \"https://agents.example\"\nhosts = [\"agents.internal\"]\nprobes = true\n{ECHO}"
    );
    for with_key in [false, true] {
        let (folder, place) = (folder(&config), free());
        let mut key = String::new();
        let mut command = chancery(folder.path());
        command.args(["serve", "--listen", &place]);
        if with_key {
            let made = chancery(folder.path()).args(["key", "create", "--caller", "alice"]).output();
            key = String::from_utf8(made.expect("it runs").stdout).expect("a key is text").trim().to_owned();
        } else {
            command.env("CHANCERY__SERVER__ANONYMOUS", "true");
        }
        let (_running, _) = started(command);
        let called = async |host: &str, path: &str| {
            let mut asked = Request::post(path).header("host", host).header("a2a-version", "1.0");
            if with_key {
                asked = asked.header("x-api-key", &key);
            }
            let asked = asked.header("content-type", "application/json").header("x-request-id", "1");
            exchange(&place, asked.body(Full::from(SEND)).expect("a request"), false).await
        };
        let path = "/agents/echo/message:send";
        for own in
            ["127.0.0.1", "10.0.0.1:80", "[::1]:9", "localhost:8080", "agents.internal", "agents.example:443"]
        {
            assert_eq!(called(own, path).await.0, 200, "{own}");
        }
        for (other, path) in [
            ("evil.example", path),
            ("evil.example", "/agents/echo/"),
            ("evil.example", "/agents/echo/invoke"),
            ("localhost.evil.example", path),
            ("evil.example", "/agents/echo/healthz"),
        ] {
            let (status, text) = called(other, path).await;
            assert_eq!(status, 421, "{other} {path}: {text}");
            let said: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(said["error"].to_string().contains("`server.hosts`"), "{text}");
        }
        for path in [
            "/agents/echo/healthz",
            "/agents/",
            "/.well-known/agent-card.json",
            "/.well-known/jwks.json",
            "/schemas",
            "/none",
        ] {
            assert_eq!(seen(&place, "evil.example", path).await, 421, "{path}");
        }
        for probe in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(seen(&place, "probe.example", probe).await, 200, "{probe}");
        }
    }
}

#[tokio::test]
async fn the_authority_of_http_2_and_grpc_is_looked_at_too() {
    let gateway = Gateway::start(ECHO);
    let place = gateway.place();
    let asked = |authority: &str, path: &str, kind: &str| {
        let request = Request::post(format!("http://{authority}{path}")).header("content-type", kind);
        request.header("a2a-version", "1.0").body(Full::from(SEND)).expect("a request")
    };
    let path = "/agents/echo/message:send";
    let json = "application/json";
    assert_eq!(exchange(place, asked("localhost", path, json), true).await.0, 200);
    assert_eq!(exchange(place, asked("evil.example", path, json), true).await.0, 421);
    let grpc = "application/grpc";
    let refused = trailers(place, asked("evil.example", "/lf.a2a.v1.A2AService/GetTask", grpc)).await;
    assert_eq!(refused, "7", "PERMISSION_DENIED");
    let health = "/grpc.health.v1.Health/Check";
    let request = Request::post(format!("http://probe.example{health}")).header("content-type", grpc);
    let empty = request.body(Full::from(&[0_u8; 5][..])).expect("a request");
    assert_eq!(trailers(place, empty).await, "0", "a probe calls it by any name");
}

#[tokio::test]
async fn a_request_says_by_a_good_name_whom_it_calls() {
    let gateway = Gateway::start(ECHO);
    let place = gateway.place();
    let get = |lines: &str, version: &str| {
        format!(
            "GET /agents/echo/tasks HTTP/{version}\r\nA2A-Version: 1.0\r\nConnection: close\r\n{lines}\r\n"
        )
    };
    for version in ["1.0", "1.1"] {
        let answer = raw(place, get("Host: localhost\r\n", version).as_bytes()).await;
        assert_eq!(answer.get(9..12), Some(&b"200"[..]), "{version}");
        for lines in [
            "",
            "Host: \r\n",
            "Host: 127.0.0.1:28100,evil.example\r\n",
            "Host: [::1\r\n",
            "Host: localhost:abc\r\n",
            "Host: user@localhost\r\n",
            "Host: localhost:65536\r\n",
        ] {
            let answer = raw(place, get(lines, version).as_bytes()).await;
            assert_eq!(
                answer.get(9..12),
                Some(&b"400"[..]),
                "{version} {lines}: {}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
    // The head of GET /agents by HTTP/2 in the fields of its static table: with no :authority, and with one.
    let head = [&[0x82, 0x86, 0x04, 7][..], b"/agents"].concat();
    let named = [&head[..], &[0x01, 9], b"localhost"].concat();
    for (head, status) in [(&head, 0x8C), (&named, 0x88)] {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let frame = [&[0, 0, head.len() as u8, 1, 5, 0, 0, 0, 1][..], head].concat();
        let sent = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &frame].concat();
        assert_eq!(status_of_frames(place, &sent).await, status, "400, and 200 for who says it");
    }
}

/// All that comes back to these bytes.
async fn raw(place: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(place).await.expect("it listens");
    stream.write_all(bytes).await.expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it is read");
    answer
}

/// The first byte of the head that comes back by HTTP/2, which is the status if it is a usual one.
async fn status_of_frames(place: &str, bytes: &[u8]) -> u8 {
    let mut stream = TcpStream::connect(place).await.expect("it listens");
    stream.write_all(bytes).await.expect("it is sent");
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.expect("a whole frame");
        if head[3] == 1 {
            return payload[0];
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_may_not_call_unless_it_is_listed() {
    let listed = "https://app.example";
    for (cors, may) in [("", false), ("[server]\ncors = { origins = [\"https://app.example\"] }\n", true)] {
        let gateway = Gateway::start(&format!("{cors}{ECHO}"));
        let url = format!("{}/message:send", gateway.agent("echo"));
        let own = format!("http://{}", gateway.place());
        let called = async |headers: &[(&str, &str)]| {
            post(&url, &[&[V1][..], headers].concat(), &message("hello")).await.status
        };
        assert_eq!(called(&[("origin", &own), ("sec-fetch-site", "same-origin")]).await, 200);
        assert_eq!(
            called(&[("origin", listed), ("sec-fetch-site", "cross-site")]).await,
            if may { 200 } else { 403 }
        );
        let before = tasks(&gateway).await;
        for others in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
        ] {
            assert_eq!(called(others).await, 403, "{others:?}");
            let read = get(&format!("{}/tasks", gateway.agent("echo")), &[&[V1][..], others].concat()).await;
            assert_eq!(read.status, 403, "{others:?}");
        }
        assert_eq!(tasks(&gateway).await, before, "nothing was done");
    }
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_called_by_any_name() {
    let folder =
        folder(&format!("[server]\nanonymous = true\npublic_url = \"https://agents.example\"\n{ECHO}"));
    let socket = folder.path().join("c.sock");
    let mut command = chancery(folder.path());
    command.args(["serve", "--listen", &format!("unix:{}", socket.display())]);
    let (_running, _) = started(command);
    assert_eq!(over(&socket, "whatever.example", "").await, 200);
    assert_eq!(
        over(&socket, "whatever.example", "https://agents.example").await,
        200,
        "the proxy is called so"
    );
    assert_eq!(over(&socket, "whatever.example", "https://evil.example").await, 403);
}

#[tokio::test]
async fn no_page_reaches_the_admin_listener() {
    let gateway = Gateway::start(ECHO);
    let door: Value = serde_json::from_str(&gateway.read("chancery-data/admin.json")).expect("it is JSON");
    let url = door["url"].as_str().expect("it says where");
    let place = url.trim_start_matches("http://").to_owned();
    let token = format!("Bearer {}", door["token"].as_str().expect("there is one"));
    let by = ("authorization", token.as_str());
    assert_eq!(get(&format!("{url}/agents"), &[by]).await.status, 200);
    for page in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(get(&format!("{url}/agents"), &[by, page]).await.status, 403, "{page:?}");
    }
    let asked = Request::get("/agents").header("host", "evil.example").header("authorization", &token);
    assert_eq!(exchange(&place, asked.body(Full::default()).expect("a request"), false).await.0, 421);
    assert_eq!(seen(&place, "probe.example", "/livez").await, 200);
    let contain = format!("{url}/agents/echo/contain");
    let reason = json!({"reason": "x"});
    let plain =
        request(Method::POST, &contain, &[by, ("content-type", "text/plain")], &reason.to_string()).await;
    assert_eq!(plain.status, 415, "{plain:?}");
    assert_eq!(post(&contain, &[by], &reason).await.status, 200);
}

/// A port of this machine that nobody listens on.
fn free() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a free port").to_string()
}

/// The status of a GET that calls the server by this name.
async fn seen(place: &str, host: &str, path: &str) -> u16 {
    let asked = Request::get(path).header("host", host).header("a2a-version", "1.0");
    exchange(place, asked.body(Full::default()).expect("a request"), false).await.0
}

async fn exchange(place: &str, request: Request<Full<Bytes>>, http2: bool) -> (u16, String) {
    let stream = TokioIo::new(TcpStream::connect(place).await.expect("it listens"));
    let response = if http2 {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (mut sender, connection) = handshake.expect("HTTP/2");
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    let response = response.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a whole answer").to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

/// The status of gRPC, in the head or in the trailers.
async fn trailers(place: &str, request: Request<Full<Bytes>>) -> String {
    let stream = TokioIo::new(TcpStream::connect(place).await.expect("it listens"));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = handshake.expect("HTTP/2");
    tokio::spawn(connection);
    let response = sender.send_request(request).await.expect("an answer");
    let in_head = response.headers().get("grpc-status").cloned();
    let body = response.into_body().collect().await.expect("a whole answer");
    let status = in_head.or_else(|| body.trailers()?.get("grpc-status").cloned()).expect("a status");
    status.to_str().expect("a number").to_owned()
}

async fn over(socket: &Path, host: &str, origin: &str) -> u16 {
    let stream = TokioIo::new(UnixStream::connect(socket).await.expect("it listens"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let mut request = Request::get("/agents/echo/tasks").header("host", host).header("a2a-version", "1.0");
    if !origin.is_empty() {
        request = request.header("origin", origin);
    }
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    sender.send_request(request).await.expect("an answer").status().as_u16()
}
