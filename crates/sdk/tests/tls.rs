//! TLS, on both versions of HTTP, with certificates that are replaced while the server runs.

#![cfg(all(feature = "server", feature = "tls"))]

mod support;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_sdk::{Server, Tls, TlsError, WELL_KNOWN_CARD};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use support::*;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate for `localhost` that vouches for itself.
struct Pair {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

/// Where the server looks for its pair.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    writes: u64,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = made.signing_key.serialize_pem();
        Self { certificate: made.cert.pem(), key, der: made.cert.der().clone() }
    }
}

impl Files {
    fn new(name: &str, pair: &Pair) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let mut files = Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem"), writes: 0 };
        files.write(&pair.certificate, &pair.key);
        files
    }

    /// Replaces both files, and makes sure that they look newer.
    fn write(&mut self, certificate: &str, key: &str) {
        self.writes += 1;
        let time = SystemTime::now() + Duration::from_secs(self.writes);
        for (path, text) in [(&self.certificate, certificate), (&self.key, key)] {
            fs::write(path, text).expect("written");
            File::options().write(true).open(path).expect("a file").set_modified(time).expect("a time");
        }
    }

    fn tls(&self) -> Result<Tls, TlsError> {
        Tls::from_files(&self.certificate, &self.key)
    }
}

async fn serve_tls(tls: Tls) -> (SocketAddr, String) {
    let server = Server::builder().agent(echo()).tls(tls).bind("127.0.0.1:0").await.expect("a server");
    let (address, url) = (server.local_addr().expect("an address"), server.url().to_owned());
    tokio::spawn(server.run_until(std::future::pending()));
    (address, url)
}

/// Connects as somebody who trusts this pair and no other.
async fn connect(
    address: SocketAddr,
    trusted: &Pair,
    speaks: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = speaks.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    within("the handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

async fn serves(address: SocketAddr, pair: &Pair) -> bool {
    connect(address, pair, &[]).await.is_ok()
}

fn send(address: SocketAddr, path: &str, version: Version) -> Request<Full<Bytes>> {
    let body = json!({"message": message("hello")}).to_string();
    let (uri, host) = match version {
        Version::HTTP_2 => (format!("https://{address}{path}"), None),
        _ => (path.to_owned(), Some(address.to_string())),
    };
    let mut request =
        Request::post(uri).header("a2a-version", "1.0").header("content-type", "application/json");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    request.body(Full::from(body)).expect("a request")
}

async fn body(response: Response<Incoming>, version: Version) -> String {
    assert_eq!((response.status().as_u16(), response.version()), (200, version));
    let bytes = within("a body", response.into_body().collect()).await.expect("a body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("a text")
}

fn check(sent: &str, streamed: &str) {
    let sent: Value = serde_json::from_str(sent).expect("json");
    assert_eq!((state(&sent["task"]), text(&sent["task"]["artifacts"][0])), (COMPLETED, "hello"));
    assert!(streamed.starts_with("id: 1\n") && streamed.contains(COMPLETED), "{streamed}");
}

#[tokio::test]
async fn both_versions_of_http_are_served() {
    let pair = Pair::new();
    let (address, url) = serve_tls(Files::new("versions", &pair).tls().expect("a pair")).await;
    assert_eq!(url, format!("https://{address}"));

    let stream = connect(address, &pair, &[b"http/1.1"]).await.expect("a connection");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for path in ["/message:send", "/message:stream"] {
        let response = sender.send_request(send(address, path, Version::HTTP_11)).await.expect("an answer");
        answers.push(body(response, Version::HTTP_11).await);
        sender.ready().await.expect("the connection goes on");
    }
    check(&answers[0], &answers[1]);
    let request =
        Request::get(WELL_KNOWN_CARD).header("host", "localhost").body(Full::default()).expect("a request");
    let card = body(sender.send_request(request).await.expect("a card"), Version::HTTP_11).await;
    let card: Value = serde_json::from_str(&card).expect("json");
    assert_eq!(card["supportedInterfaces"][0]["url"], url);

    let stream = connect(address, &pair, &[b"h2", b"http/1.1"]).await.expect("a connection");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("h2");
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for path in ["/message:send", "/message:stream"] {
        let response = sender.send_request(send(address, path, Version::HTTP_2)).await.expect("an answer");
        answers.push(body(response, Version::HTTP_2).await);
    }
    check(&answers[0], &answers[1]);
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_is_turned_away() {
    let pair = Pair::new();
    let (address, _) = serve_tls(Files::new("plain", &pair).tls().expect("a pair")).await;
    let answer = raw(address, b"GET /tasks HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    assert!(serves(address, &pair).await);
    assert!(!serves(address, &Pair::new()).await);
}

#[tokio::test]
async fn a_new_certificate_is_served_and_a_broken_one_is_not() {
    let (old, new) = (Pair::new(), Pair::new());
    let mut files = Files::new("reload", &old);
    let tls = files.tls().expect("a pair").recheck_every(Duration::ZERO);
    let (address, _) = serve_tls(tls).await;
    assert!(serves(address, &old).await && !serves(address, &new).await);

    let mut broken = vec![("no PEM".to_owned(), old.key.clone()), (String::new(), String::new())];
    // A certificate that was replaced before its key.
    broken.push((new.certificate.clone(), old.key.clone()));
    for (certificate, key) in broken {
        files.write(&certificate, &key);
        assert!(serves(address, &old).await, "{certificate}");
    }
    files.write(&new.certificate, &new.key);
    assert!(serves(address, &new).await && !serves(address, &old).await);
}

#[tokio::test]
async fn the_files_are_not_looked_at_more_often_than_asked() {
    let (old, new) = (Pair::new(), Pair::new());
    let mut files = Files::new("recheck", &old);
    let (address, _) = serve_tls(files.tls().expect("a pair").recheck_every(Duration::from_secs(600))).await;
    files.write(&new.certificate, &new.key);
    assert!(serves(address, &old).await);
}

#[test]
fn a_pair_that_cannot_be_used_is_refused_at_the_start() {
    let (one, two) = (Pair::new(), Pair::new());
    let mut files = Files::new("refused", &one);
    files.write(&one.certificate, &two.key);
    assert!(matches!(files.tls(), Err(TlsError::Key(_))));
    files.write("", &one.key);
    assert!(files.tls().is_err());
    let missing = Tls::from_files("/nowhere/cert.pem", "/nowhere/key.pem").expect_err("no files");
    assert!(missing.to_string().contains("/nowhere/cert.pem"), "{missing}");
}
