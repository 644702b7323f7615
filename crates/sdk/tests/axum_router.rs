//! The site inside an axum application.

#![cfg(feature = "axum")]

mod support;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use chancery_sdk::{Server, WELL_KNOWN_CARD};
use http::Method;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use support::*;
use tokio::net::TcpListener;

/// Serves an application as somebody's own server would.
async fn serve_app(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let service = TowerToHyperService::new(app.clone());
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}

fn site(path: &str) -> Router {
    let url = format!("https://example.com{path}");
    Server::builder().agent(echo()).public_url(url).build().expect("a service").into()
}

fn url_path(base: &str) -> String {
    if base.is_empty() { "/".to_owned() } else { base.to_owned() }
}

#[tokio::test]
async fn a_site_works_inside_a_router() {
    let own = || Router::new().route("/own", get(|| async { "own" }));
    for (base, app) in [("/a2a", own().nest_service("/a2a", site("/a2a"))), ("", own().merge(site("")))] {
        let address = serve_app(app).await;
        let outside = Client::new(address, Wire::Rest);
        assert_eq!(outside.fetch(Method::GET, "/own", String::new()).await.body, "own");
        for wire in WIRES {
            let client = Client::new(address, wire).at(base);
            let card = client.fetch(Method::GET, &format!("{base}{WELL_KNOWN_CARD}"), String::new()).await;
            let url = format!("https://example.com{base}");
            assert_eq!((card.status, &card.json()["supportedInterfaces"][0]["url"]), (200, &url.into()));

            let task = client.say("hello").await;
            assert_eq!((state(&task), text(&task["artifacts"][0])), (COMPLETED, "hello"));
            assert_eq!(client.get(&id(&task)).await, task);

            let events = client.stream(message("hello")).await.rest().await;
            assert_eq!(events[0].kind(), "task");
            assert!(events[events.len() - 1].is(COMPLETED), "{events:?}");
        }
        // The path itself, as the card has it, without a slash.
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"}"#;
        let page = outside.fetch(Method::POST, &url_path(base), list.to_owned()).await.result();
        assert_eq!(page["totalSize"], 4);
        let nothing = outside.fetch(Method::GET, &format!("{base}/nothing"), String::new()).await;
        assert_eq!(nothing.status, 404);
    }
}
