//! TLS in `chancery serve`, on both versions of HTTP and for gRPC, with a certificate that is replaced while it runs.

use std::path::Path;
use std::sync::Arc;

use ::http::Request;
use bytes::Bytes;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::{Client, Events};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::gateway::{Gateway, chancery, folder};
use crate::{ECHO, Running, refused, started};

const STREAM: &str = "[[agent]]\nname = \"stream\"\nkind = \"builtin\"\n";
const TLS: &str =
    "[server]\nanonymous = true\nprobes = true\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n";

/// Puts a certificate for this machine into a folder, and gives it.
fn certify(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let put = |name: &str, text: &str| {
        std::fs::write(folder.join("draft"), text).expect("it is written");
        std::fs::rename(folder.join("draft"), folder.join(name)).expect("it is put in its place");
    };
    put("key.pem", &made.signing_key.serialize_pem());
    put("cert.pem", &made.cert.pem());
    made.cert.pem()
}

fn serve(config: &str) -> (TempDir, String, Running, String) {
    let folder = folder(config);
    let certificate = certify(folder.path());
    let mut command = chancery(folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let (running, url) = started(command);
    (folder, certificate, running, url)
}

/// A client that trusts a certificate and those of the system.
async fn client(
    url: &str,
    certificate: &str,
    binding: &ProtocolBinding,
) -> Result<Client, chancery_sdk::ClientError> {
    let egress = Egress::unrestricted().trust_pem(certificate.as_bytes()).expect("a certificate");
    Client::builder().egress(egress).retries(0).prefer([binding.clone()]).connect(url).await
}

#[tokio::test]
async fn every_binding_is_served_by_tls_on_one_port() {
    let (_folder, certificate, _running, url) = serve(&format!("{TLS}{ECHO}"));
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let agent = format!("{url}/agents/echo");
    for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc] {
        let client = client(&agent, &certificate, &binding).await.expect("the agent is there");
        let sent = client.send("hello").await.unwrap_or_else(|error| panic!("{binding:?}: {error}"));
        assert_eq!(sent.text(), "hello", "{binding:?}");
    }
    assert_eq!(over_http1(&url, &certificate, "/readyz").await, 200);
    assert!(Client::builder().retries(0).connect(&agent).await.is_err(), "others do not trust it");
    let plain = TcpStream::connect(url.trim_start_matches("https://")).await.expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(plain)).await.expect("a start");
    tokio::spawn(connection);
    let request =
        Request::get("/readyz").header("host", "127.0.0.1").body(Empty::<Bytes>::new()).expect("a request");
    assert!(sender.send_request(request).await.is_err(), "nothing is said in the clear");
}

#[tokio::test]
async fn a_certificate_that_has_changed_is_used_and_open_connections_go_on() {
    let (folder, before, _running, url) = serve(&format!("{TLS}{STREAM}"));
    let agent = format!("{url}/agents/stream");
    let binding = ProtocolBinding::JsonRpc;
    let client_before = client(&agent, &before, &binding).await.expect("the agent is there");
    let mut events = client_before.stream("stream 1000 50").await.expect("a stream");
    next(&mut events).await;
    let after = certify(folder.path());
    while client(&agent, &after, &binding).await.is_err() {
        next(&mut events).await;
    }
    next(&mut events).await;
    assert!(client(&agent, &before, &binding).await.is_err(), "the one from before is gone");
    std::fs::write(folder.path().join("cert.pem"), "nonsense").expect("it is written");
    for _ in 0..40 {
        next(&mut events).await;
    }
    client(&agent, &after, &binding).await.expect("what cannot be read changes nothing");
}

async fn next(events: &mut Events) {
    events.next().await.expect("it goes on").expect("an event");
}

#[tokio::test]
async fn agents_behind_an_authority_of_ones_own_are_reached_where_it_is_trusted() {
    let (far, _, _running, url) = serve(&format!("{TLS}{ECHO}"));
    let certificate = far.path().join("cert.pem");
    let agent = format!("[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"{url}/agents/echo\"\n");
    for trusts in [true, false] {
        let roots = format!("[outbound]\nextra_roots = [\"{}\"]\n", certificate.display());
        let gateway = Gateway::start(&format!("{}{agent}", if trusts { &roots } else { "" }));
        let client = Client::builder().retries(0).connect(&gateway.agent("far")).await.expect("it is served");
        let sent = client.send("hello").await;
        match sent {
            Ok(sent) if trusts => assert_eq!(sent.text(), "hello"),
            Err(_) if !trusts => {}
            Ok(sent) => assert!(!trusts && sent.text() != "hello", "{sent:?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_cannot_be_used_is_said_before_anybody_calls() {
    let said_by = |config: &str, listen: &str| {
        let folder = folder(config);
        let mut command = chancery(folder.path());
        command.args(["serve", "--listen", listen]);
        String::from_utf8(refused(command).stderr).expect("it prints text")
    };
    let said = said_by(&format!("{TLS}{ECHO}"), "127.0.0.1:0");
    assert!(said.contains("`server.tls` cannot be used") && said.contains("cert.pem"), "{said}");
    let roots = format!("[server]\nanonymous = true\n[outbound]\nextra_roots = [\"none.pem\"]\n{ECHO}");
    let said = said_by(&roots, "127.0.0.1:0");
    assert!(said.contains("`outbound.extra_roots` cannot be used: none.pem"), "{said}");
    let socket =
        format!("[server]\npublic_url = \"https://x.example\"\n{}{ECHO}", &TLS["[server]\n".len()..]);
    let said = said_by(&socket, "unix:c.sock");
    assert!(said.contains("`server.tls`: a socket in the file system speaks no TLS"), "{said}");
}

#[test]
fn an_address_in_the_clear_is_said_so_at_start() {
    // Nobody has this address, so it is said before it turns out that it cannot be listened on.
    let said = |more: &str| {
        let config = format!("[server]\nanonymous = true\npublic_url = \"http://x.example\"\n{more}\n{ECHO}");
        let folder = folder(&config);
        certify(folder.path());
        let mut command = chancery(folder.path());
        command.args(["serve", "--listen", "192.0.2.1:80"]);
        String::from_utf8(refused(command).stderr).expect("it prints text")
    };
    let warned = "what is sent to 192.0.2.1:80 can be read on the way";
    assert!(said("").contains(warned), "{}", said(""));
    for quiet in ["trusted_proxies = [\"10.0.0.0/8\"]", "tls = { cert = \"cert.pem\", key = \"key.pem\" }"] {
        assert!(!said(quiet).contains(warned), "{quiet}");
    }
}

/// The status of a GET by HTTP/1.1, by somebody who trusts this certificate alone.
async fn over_http1(url: &str, certificate: &str, path: &str) -> u16 {
    let mut roots = RootCertStore::empty();
    let der =
        rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    roots.add(der).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let place = url.trim_start_matches("https://");
    let stream = TcpStream::connect(place).await.expect("it listens");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::get(path).header("host", place).body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let status = response.status().as_u16();
    response.into_body().collect().await.expect("a whole answer");
    status
}
