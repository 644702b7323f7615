//! `grpc.health.v1`, as balancers ask for it.

use std::time::Duration;

use chancery_sdk::{Server, ServerLimits};
use tokio::sync::oneshot;

use crate::caller::{Caller, POOL, framed};
use crate::support::*;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// A request about a service.
fn about(service: &str) -> Vec<u8> {
    let length = u8::try_from(service.len()).expect("a short name");
    let message = match length {
        0 => vec![],
        length => [&[0x0a, length][..], service.as_bytes()].concat(),
    };
    framed(&message)
}

#[tokio::test]
async fn a_service_is_checked() {
    let site = serve(echo()).await;
    // Nobody has to say who they are, or which version they speak.
    let caller = Caller::new(&site).without("a2a-version").with("authorization", "nobody");
    let any = POOL.get_message_by_name("google.protobuf.Empty").expect("a message");
    for service in ["", "lf.a2a.v1.A2AService"] {
        let mut answer = caller.open(CHECK, about(service), any.clone()).await;
        assert_eq!(&answer.next_bytes().await.expect("a message")[..], [0x08, 1], "{service}");
        assert_eq!(answer.all().await.code(), 0);
    }
    assert_eq!(caller.post_to(CHECK, about("unknown.Service")).await.code(), 5);
}

#[tokio::test]
async fn whoever_watches_is_told_of_the_end() {
    let limits = ServerLimits { drain: Duration::from_secs(3600), ..ServerLimits::default() };
    let server = Server::builder().agent(echo()).limits(limits).bind("127.0.0.1:0").await.expect("it binds");
    let caller = Caller::at(server.local_addr().expect("an address"));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run_until(async move {
        let _ = stopped.await;
    }));
    let any = POOL.get_message_by_name("google.protobuf.Empty").expect("a message");
    let mut known = caller.open(WATCH, about(""), any.clone()).await;
    let mut unknown = caller.open(WATCH, about("unknown.Service"), any).await;
    assert_eq!(&known.next_bytes().await.expect("a message")[..], [0x08, 1]);
    assert_eq!(&unknown.next_bytes().await.expect("a message")[..], [0x08, 3]);
    stop.send(()).expect("the server runs");
    assert_eq!(&known.next_bytes().await.expect("a message")[..], [0x08, 2]);
    assert_eq!(known.all().await.code(), 0);
    assert_eq!(unknown.all().await.code(), 0);
    within("the drain", running).await.expect("the server ends");
}
