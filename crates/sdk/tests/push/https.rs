//! Receivers that speak TLS, reached by their names.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use chancery_sdk::egress::{Resolved, Resolver};
use chancery_sdk::push::{Deliverer, PushLimits};
use http::{Request, Response, Version};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::receiver::*;

/// Every name is this machine.
#[derive(Debug)]
struct Here;

impl Resolver for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolved<'a> {
        Box::pin(async { Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]) })
    }
}

/// A certificate in PEM that vouches for itself, and the server's end of TLS with it and one version of HTTP.
fn pem_and_acceptor(name: &str, protocol: &str) -> (String, TlsAcceptor) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    (made.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}

/// Serves connections, and tells of each request its version and host.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, tell: mpsc::UnboundedSender<(Version, String)>) {
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(stream) = acceptor.accept(stream).await else { continue };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let tell = tell.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let host = request.headers().get("host").and_then(|host| host.to_str().ok());
            let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
            tell.send((request.version(), host.unwrap_or_default().to_owned())).ok();
            async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
        });
        let io = TokioIo::new(stream);
        if is_h2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(async move { builder.serve_connection(io, service).await.ok() });
        } else {
            let builder = hyper::server::conn::http1::Builder::new();
            tokio::spawn(async move { builder.serve_connection(io, service).await.ok() });
        }
    }
}

#[tokio::test]
async fn receivers_with_tls_are_reached_by_name_over_either_version() {
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        let (pem, acceptor) = pem_and_acceptor("receiver.example", protocol);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = format!("receiver.example:{}", listener.local_addr().unwrap().port());
        let (tell, mut told) = mpsc::unbounded_channel();
        let serving = tokio::spawn(serve(listener, acceptor, tell));
        let (store, _) = store();
        begin(&store, "t", config("x", format!("https://{authority}/hook")), 1).await;
        let egress = egress().resolver(Here).trust_pem(pem.as_bytes()).unwrap();
        let _deliverer = Deliverer::spawn(store.clone(), egress, PushLimits::default());
        for _ in 0..2 {
            assert_eq!(told.recv().await.unwrap(), (version, authority.clone()));
        }
        settled(&store).await;
        serving.abort();
    }
}

#[tokio::test]
async fn a_receiver_that_cannot_prove_its_name_gets_nothing() {
    let (pem, acceptor) = pem_and_acceptor("other.example", "http/1.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://receiver.example:{}/", listener.local_addr().unwrap().port());
    let (tell, mut told) = mpsc::unbounded_channel();
    let serving = tokio::spawn(serve(listener, acceptor, tell));
    let (store, _) = store();
    begin(&store, "t", config("x", url), 0).await;
    let egress = egress().resolver(Here).trust_pem(pem.as_bytes()).unwrap();
    let _deliverer = Deliverer::spawn(store.clone(), egress, PushLimits::default());
    // It may be a mistake that somebody corrects, so it is tried again.
    postponed(&store).await;
    assert!(told.try_recv().is_err());
    serving.abort();
}
