//! The client over TLS, which also settles on HTTP/2, and whom it trusts.

#![cfg(all(feature = "server", feature = "tls"))]

mod support;

use std::path::Path;
use std::sync::Arc;

use chancery_sdk as sdk;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{Operation, ProtocolBinding};
use chancery_sdk::{ClientError, Interceptor, Server, Tls};
use http::{Version, response};
use parking_lot::Mutex;
use support::*;

/// The versions of HTTP that answers came by.
#[derive(Clone, Default)]
struct Versions(Arc<Mutex<Vec<Version>>>);

impl Interceptor for Versions {
    fn after(&self, _: Option<Operation>, head: &response::Parts) {
        self.0.lock().push(head.version);
    }
}

#[tokio::test]
async fn a_peer_that_proves_who_it_is_is_called_by_http_2() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client_tls");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let tls = Tls::from_files(&certificate, &key).expect("a pair");
    let server = Server::builder().agent(echo()).tls(tls).bind("127.0.0.1:0").await.expect("a server");
    let url = server.url().to_owned();
    tokio::spawn(server.run_until(std::future::pending()));

    let trusting = Egress::default().trust_pem(made.cert.pem().as_bytes()).expect("an authority");
    for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc] {
        let versions = Versions::default();
        let client = sdk::Client::builder()
            .egress(trusting.clone())
            .prefer([binding])
            .interceptor(versions.clone())
            .connect(&url)
            .await
            .expect("the server");
        assert_eq!(client.send("hello").await.expect("an answer").text(), "hello");
        let mut events = client.stream("hello").await.expect("a stream");
        let mut count = 0;
        while let Some(event) = events.next().await {
            event.expect("no error");
            count += 1;
        }
        assert!(count > 1);
        assert_eq!(*versions.0.lock(), [Version::HTTP_2; 3]);
    }
    let stranger = sdk::Client::connect(&url).await.expect_err("nobody vouches for it");
    assert!(matches!(stranger, ClientError::Connect { .. }), "{stranger}");
}
