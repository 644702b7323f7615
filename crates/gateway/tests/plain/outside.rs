//! How the world reaches it: from browsers, through proxies, by a socket in the file system; and how one begins.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use ::http::{Method, Request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

use crate::gateway::{Gateway, chancery};
use crate::http::{get, post, request};
use crate::{ECHO, saying};

const PAGE: (&str, &str) = ("origin", "https://app.example");

#[tokio::test]
async fn pages_from_allowed_origins_may_call_and_others_may_not() {
    let gateway =
        Gateway::start(&format!("[server]\ncors = {{ origins = [\"https://app.example\"] }}\n{ECHO}"));
    let url = format!("{}/invoke", gateway.agent("echo"));
    let asking =
        [PAGE, ("access-control-request-method", "POST"), ("access-control-request-headers", "x-request-id")];
    let preflight = request(Method::OPTIONS, &url, &asking, "").await;
    assert_eq!(preflight.status, 200, "{preflight:?}");
    assert_eq!(preflight.headers["access-control-allow-origin"], "https://app.example");
    let allowed = |name: &str| preflight.headers[name].to_str().expect("a text").to_lowercase();
    assert!(allowed("access-control-allow-headers").contains("x-request-id"));
    assert!(allowed("access-control-allow-methods").contains("post"));
    assert_eq!(preflight.headers["access-control-max-age"], "3600");
    let called = post(&url, &[PAGE, ("x-request-id", "1")], &saying("hello")).await;
    assert_eq!(called.status, 200);
    assert_eq!(called.headers["access-control-allow-origin"], "https://app.example");
    let exposed = called.headers["access-control-expose-headers"].to_str().expect("a text");
    assert!(exposed.contains("x-request-id") && exposed.contains("retry-after"), "{exposed}");
    let card = get(&format!("{}/.well-known/agent-card.json", gateway.agent("echo")), &[]).await;
    let varies: Vec<_> =
        card.headers.get_all("vary").iter().filter_map(|value| value.to_str().ok()).collect();
    assert!(varies.join(",").to_lowercase().contains("origin"), "caches must know: {varies:?}");
    let other = post(&url, &[("origin", "https://other.example"), ("x-request-id", "2")], &saying("x")).await;
    assert!(!other.headers.contains_key("access-control-allow-origin"), "{other:?}");
}

#[tokio::test]
async fn without_a_word_no_page_may_call() {
    let gateway = Gateway::start(ECHO);
    let url = format!("{}/invoke", gateway.agent("echo"));
    let preflight =
        request(Method::OPTIONS, &url, &[PAGE, ("access-control-request-method", "POST")], "").await;
    assert!(
        preflight.status >= 400 && !preflight.headers.contains_key("access-control-allow-origin"),
        "{preflight:?}"
    );
}

/// Whether somebody is refused when many ask at once who are said to come from different places, or from the same one.
async fn crowded(config: &str, header: &str, from: fn(usize) -> usize) -> bool {
    let gateway = Gateway::start(&format!("{config}[rate.source]\nper_second = 1\nburst = 1\n{ECHO}"));
    let url = format!("{}/schemas", gateway.url());
    let asking = (0..20).map(|place| {
        let (url, mut said) = (&url, format!("192.0.2.{}", from(place)));
        if header == "forwarded" {
            said = format!("for={said}");
        }
        async move { get(url, &[(header, &said)]).await.status }
    });
    futures_util::future::join_all(asking).await.contains(&429)
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_where_a_request_comes_from_and_nobody_else_is() {
    let (apart, together) = ((|place| place) as fn(usize) -> usize, (|_| 1) as fn(usize) -> usize);
    assert!(crowded("", "x-forwarded-for", apart).await, "nobody is trusted");
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    assert!(!crowded(trusted, "x-forwarded-for", apart).await);
    assert!(crowded(trusted, "x-forwarded-for", together).await);
    assert!(crowded(trusted, "forwarded", apart).await, "they say it in the other header");
    let standard = format!("{trusted}proxy_header = \"forwarded\"\n");
    assert!(!crowded(&standard, "forwarded", apart).await);
    let elsewhere = "[server]\ntrusted_proxies = [\"10.0.0.0/8\"]\n";
    assert!(crowded(elsewhere, "x-forwarded-for", apart).await);
}

#[tokio::test]
async fn the_access_log_says_where_a_call_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nanonymous = true\ntrusted_proxies = [\"127.0.0.1\"]\n{ECHO}"
    );
    std::fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    let log = std::fs::File::create(folder.path().join("log")).expect("a file");
    let mut command = chancery(folder.path());
    command.args(["--log", "info", "--log-format", "json", "serve"]).stderr(log);
    let (mut child, line) = started(command);
    let url = format!("{}/agents/echo/invoke", line.strip_prefix("Chancery at ").expect("a URL"));
    let answer = post(&url, &[("x-forwarded-for", "192.0.2.9"), ("x-request-id", "1")], &saying("x")).await;
    assert_eq!(answer.status, 200);
    let _ = child.kill();
    let _ = child.wait();
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(log.lines().any(|line| line.contains("\"source\":\"192.0.2.9\"")), "{log}");
}

/// Starts a gateway and gives its first line.
fn started(mut command: std::process::Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says something");
    (child, line.trim().to_owned())
}

/// The status and text of a GET over a socket in the file system.
async fn over(socket: &Path, path: &str, http2: bool) -> (u16, String) {
    let stream = TokioIo::new(UnixStream::connect(socket).await.expect("it listens"));
    let request = |uri: String| {
        Request::get(uri).header("host", "x.example").body(Empty::<Bytes>::new()).expect("a request")
    };
    let response = if http2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        sender.send_request(request(format!("http://x.example{path}"))).await
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        sender.send_request(request(path.to_owned())).await
    };
    let response = response.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a whole answer").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("a text"))
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_served_and_a_stale_one_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("c.sock");
    let listen = format!("unix:{}", socket.display());
    let config = format!(
        "[server]\nlisten = \"{listen}\"\nanonymous = true\nsocket_mode = \"600\"\npublic_url = \"https://x.example\"\n{ECHO}"
    );
    std::fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    let serve = || {
        let mut command = chancery(folder.path());
        command.arg("serve");
        command
    };
    let (mut child, line) = started(serve());
    assert_eq!(line, "Chancery at https://x.example");
    let mode = std::fs::metadata(&socket).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    for http2 in [false, true] {
        let (status, card) = over(&socket, "/agents/echo/card", http2).await;
        assert_eq!(status, 200);
        assert!(card.contains("https://x.example/agents/echo"), "{card}");
    }
    // As a crash would have it: the file stays.
    let _ = child.kill();
    let _ = child.wait();
    assert!(socket.exists());
    let (mut child, _) = started(serve());
    assert_eq!(over(&socket, "/healthz", false).await.0, 200);
    let second = serve().args(["--data", "other"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && told.contains("somebody listens on"), "{told}");
    let stopped = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.expect("kill runs").success());
    let _ = child.wait();
    assert!(!socket.exists(), "it is gone with the gateway");
    std::fs::write(&socket, "precious").expect("it is written");
    let refused = serve().output().expect("it runs");
    assert!(!refused.status.success());
    assert_eq!(std::fs::read_to_string(&socket).expect("it is there"), "precious");
}

#[tokio::test]
async fn a_beginner_gets_a_configuration_that_serves_and_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| chancery(folder.path()).args(arguments).output().expect("it runs");
    assert!(run(&["init"]).status.success());
    let checked = run(&["check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let file = folder.path().join("chancery.toml");
    std::fs::write(&file, std::fs::read_to_string(&file).expect("it is there") + "# mine\n")
        .expect("it is written");
    let again = run(&["init"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("not overwritten"));
    assert!(std::fs::read_to_string(&file).expect("it is there").ends_with("# mine\n"));
    let key = String::from_utf8(run(&["key", "create", "--caller", "me"]).stdout).expect("a key is text");
    let mut command = chancery(folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let (mut child, line) = started(command);
    let url = format!("{}/agents/echo/invoke", line.strip_prefix("Chancery at ").expect("a URL"));
    let headers = [("x-request-id", "1"), ("x-api-key", key.trim())];
    let answer = post(&url, &headers, &saying("hello")).await;
    assert_eq!(answer.json()["result"]["text"], "hello");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn what_cannot_act_in_the_configuration_is_refused() {
    for (line, key) in [
        ("[server]\nlisten = \"unix:/tmp/x.sock\"\n", "server.listen"),
        ("[server]\nsocket_mode = \"660\"\n", "server.socket_mode"),
        ("[server]\ntrusted_proxies = [\"10.0.0.0/99\"]\n", "server.trusted_proxies"),
        ("[server]\nproxy_header = \"forwarded\"\n", "server.proxy_header"),
        ("[server]\ncors = { origins = [\"app.example\"] }\n", "server.cors"),
        ("[server]\ncors = { origins = [] }\n", "server.cors.origins"),
        ("[server]\npublic_url = \"x.example\"\n", "server.public_url"),
        ("[fleet]\nversion = \"one\"\n", "fleet.version"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("chancery.toml"), format!("{line}{ECHO}")).expect("it is written");
        let ran = chancery(folder.path()).arg("check").output().expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(64), "{line}: {told}");
        assert!(told.contains(&format!("`{key}`")), "{line}: {told}");
    }
}
