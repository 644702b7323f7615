//! What is dialled when a name says one thing to the check and another to the dial: real sockets, lying resolvers.

#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::egress::{ConnectError, Egress, Refused, Resolved, Resolver, Stream};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tower_service::Service as _;

/// Gives one answer after the other, and the last one for ever.
#[derive(Clone, Debug)]
struct Script {
    answers: Arc<Mutex<VecDeque<Vec<IpAddr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        let answers = Arc::new(Mutex::new(answers.iter().map(parse).collect()));
        Self { answers, asked: Arc::default() }
    }
}

impl Resolver for Script {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolved<'a> {
        self.asked.lock().push(name.to_owned());
        let mut answers = self.answers.lock();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { Ok(answer.unwrap_or_default()) })
    }
}

async fn dial(egress: &Egress, url: &str) -> Result<Stream, ConnectError> {
    egress.connector().call(url.parse().unwrap()).await
}

fn refused_address(outcome: Result<Stream, ConnectError>) -> IpAddr {
    match outcome {
        Err(ConnectError::Refused(Refused::Address { address, .. })) => address,
        other => panic!("{other:?}"),
    }
}

/// Whether nobody has knocked. Connections to this machine are in the queue before the dial returns.
async fn is_silent(listener: &TcpListener) -> bool {
    let knock =
        std::future::poll_fn(|context| std::task::Poll::Ready(listener.poll_accept(context).is_ready()));
    !knock.await
}

async fn listen(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let (listener, port) = listen("127.0.0.1").await;
    for scheme in ["http", "https"] {
        let script = Script::new(&[&["8.8.8.8"], &["127.0.0.1"]]);
        let egress = Egress::default().resolver(script.clone());
        let url = format!("{scheme}://rebind.example:{port}/");
        // When it is registered, all is well.
        let checked = egress.check(&url).unwrap();
        let public = egress.resolve(&checked).await.unwrap();
        assert_eq!(public, [SocketAddr::from(([8, 8, 8, 8], port))]);
        // When it is dialled, it is not.
        if scheme == "https" && !cfg!(feature = "tls") {
            assert!(matches!(dial(&egress, &url).await, Err(ConnectError::NoTls)));
            continue;
        }
        assert_eq!(refused_address(dial(&egress, &url).await).to_string(), "127.0.0.1");
        assert_eq!(*script.asked.lock(), ["rebind.example"; 2]);
    }
    assert!(is_silent(&listener).await);
}

#[tokio::test]
async fn one_bad_address_spoils_the_name() {
    let (listener, port) = listen("127.0.0.1").await;
    let table: [(&[&str], &str); 5] = [
        (&["127.0.0.1", "8.8.8.8"], "127.0.0.1"),
        (&["8.8.8.8", "127.0.0.1"], "127.0.0.1"),
        (&["8.8.8.8", "2606:4700::1111", "::ffff:127.0.0.1"], "::ffff:127.0.0.1"),
        (&["8.8.8.8", "169.254.169.254"], "169.254.169.254"),
        (&["64:ff9b::7f00:1"], "64:ff9b::7f00:1"),
    ];
    for (answer, culprit) in table {
        let egress = Egress::default().resolver(Script::new(&[answer]));
        let outcome = dial(&egress, &format!("http://mixed.example:{port}/")).await;
        assert_eq!(refused_address(outcome).to_string(), culprit);
    }
    // Also if it stands behind more addresses than are ever tried.
    let mut many = vec!["8.8.8.8"; 1];
    let distinct: Vec<_> = (1..40).map(|n| format!("8.8.4.{n}")).collect();
    many.extend(distinct.iter().map(String::as_str));
    many.push("127.0.0.1");
    let egress = Egress::default().resolver(Script::new(&[&many]));
    let outcome = dial(&egress, &format!("http://many.example:{port}/")).await;
    assert_eq!(refused_address(outcome).to_string(), "127.0.0.1");
    assert!(is_silent(&listener).await);
}

#[tokio::test]
async fn a_url_is_checked_again_when_it_is_dialled() {
    let (listener, port) = listen("127.0.0.1").await;
    for url in [format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/")] {
        let outcome = dial(&Egress::default(), &url).await;
        assert!(matches!(outcome, Err(ConnectError::Refused(_))), "{outcome:?}");
    }
    assert!(is_silent(&listener).await);
}

#[tokio::test]
async fn exactly_the_checked_address_is_dialled() {
    // Two listeners at one port: only the one that was looked at may hear of it.
    let (listener, other, port) = loop {
        let (listener, port) = listen("127.0.0.2").await;
        if let Ok(other) = TcpListener::bind(("127.0.0.1", port)).await {
            break (listener, other, port);
        }
    };
    let script = Script::new(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let egress = Egress::default().allow("127.0.0.2".parse().unwrap()).resolver(script.clone());
    let stream = dial(&egress, &format!("http://Receiver.Example:{port}/")).await.unwrap();
    assert_eq!(stream.remote_address(), SocketAddr::from(([127, 0, 0, 2], port)));
    listener.accept().await.unwrap();
    assert!(is_silent(&other).await);
    // The name was asked for once: what was looked at is what was dialled.
    assert_eq!(*script.asked.lock(), ["receiver.example"]);
}

#[tokio::test]
async fn an_address_that_does_not_answer_leaves_the_field_to_the_next() {
    let (_listener, port) = listen("127.0.0.1").await;
    let allowed = Egress::default().allow("127.0.0.0/8".parse().unwrap());
    let egress = allowed.resolver(Script::new(&[&["127.0.0.9", "127.0.0.1"]]));
    let stream = dial(&egress, &format!("http://receiver.example:{port}/")).await.unwrap();
    assert_eq!(stream.remote_address(), SocketAddr::from(([127, 0, 0, 1], port)));
    let nobody = egress.resolver(Script::new(&[&["127.0.0.9"]]));
    let outcome = dial(&nobody, &format!("http://receiver.example:{port}/")).await;
    assert!(
        matches!(&outcome, Err(ConnectError::Connect { address, .. }) if address.port() == port),
        "{outcome:?}"
    );
    let nameless = nobody.resolver(Script::new(&[&[]]));
    let outcome = dial(&nameless, "http://receiver.example/").await;
    assert!(matches!(outcome, Err(ConnectError::Resolve(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_resolver_that_never_answers_is_not_waited_for() {
    #[derive(Debug)]
    struct Never;
    impl Resolver for Never {
        fn resolve<'a>(&'a self, _: &'a str) -> Resolved<'a> {
            Box::pin(std::future::pending())
        }
    }
    let egress = Egress::default().resolver(Never).connect_timeout(Duration::from_millis(20));
    let outcome = dial(&egress, "http://receiver.example/").await;
    assert!(matches!(outcome, Err(ConnectError::Timeout(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (first, port) = listen("127.0.0.1").await;
    let (second, other_port) = listen("127.0.0.1").await;
    let egress = Egress::default().allow("127.0.0.0/8".parse().unwrap());
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(egress.connector());
    let redirects = async {
        let (mut stream, _) = first.accept().await.unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).await.unwrap();
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{other_port}/\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(head[..length].to_vec()).unwrap()
    };
    let url = format!("http://127.0.0.1:{port}/hook").parse().unwrap();
    let (answer, head) = tokio::join!(client.get(url), redirects);
    assert_eq!(answer.unwrap().status(), 307);
    assert!(head.starts_with("GET /hook HTTP/1.1\r\n"), "{head}");
    assert!(is_silent(&second).await);
}

#[tokio::test]
async fn a_refusal_is_found_in_what_a_client_wraps_around_it() {
    let client: Client<_, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).build(Egress::default().connector());
    let error = client.get("http://10.0.0.1/".parse().unwrap()).await.unwrap_err();
    let refused = ConnectError::refusal(&error).unwrap();
    assert!(matches!(refused, Refused::Address { purpose: "private use", .. }), "{refused:?}");
}

#[cfg(feature = "tls")]
mod https {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// An authority, in PEM, and a server's end of TLS with a certificate of it for a name.
    fn authority_and_server(name: &str) -> (String, TlsAcceptor) {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = authority.self_signed(&authority_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        (root.pem(), TlsAcceptor::from(Arc::new(config)))
    }

    #[tokio::test]
    async fn the_name_stays_the_name_while_the_address_is_dialled() {
        let (pem, acceptor) = authority_and_server("receiver.example");
        let (listener, port) = listen("127.0.0.1").await;
        let serving = tokio::spawn(async move {
            let mut names = Vec::new();
            for _ in 0..3 {
                let (stream, _) = listener.accept().await.unwrap();
                let accepted = acceptor.accept(stream).await;
                names.push(accepted.ok().and_then(|tls| tls.get_ref().1.server_name().map(str::to_owned)));
            }
            names
        });
        let allowed = Egress::default().allow("127.0.0.1".parse().unwrap());
        let egress = allowed.resolver(Script::new(&[&["127.0.0.1"]]));
        let trusting = egress.clone().trust_pem(pem.as_bytes()).unwrap();
        let url = |name: &str| format!("https://{name}:{port}/");
        let stream = dial(&trusting, &url("receiver.example")).await.unwrap();
        assert_eq!(stream.remote_address().ip().to_string(), "127.0.0.1");
        // Another name, and another authority.
        let outcome = dial(&trusting, &url("other.example")).await;
        assert!(matches!(outcome, Err(ConnectError::Tls(_))), "{outcome:?}");
        let outcome = dial(&egress, &url("receiver.example")).await;
        assert!(matches!(outcome, Err(ConnectError::Tls(_))), "{outcome:?}");
        assert_eq!(serving.await.unwrap(), [Some("receiver.example".to_owned()), None, None]);
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(Egress::default().trust_pem(pem.as_bytes()).is_err(), "{pem}");
        }
    }
}
