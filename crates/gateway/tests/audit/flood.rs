//! A flood of denials: every one of them is counted, and the log grows by a bounded number of rows a second.

use std::collections::HashMap;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::gateway::Gateway;
use crate::{ECHO, message, of_action, verified, wait_for};

/// More than are told apart in the log.
const CALLERS: usize = 24;
const CALLS: usize = 250;
/// What the log has of one second at most: the most frequent, and the rest.
const ROWS: usize = 16 + 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_denials_grows_the_log_by_a_bounded_number_of_rows() {
    let config = format!("[budget.caller]\nmax_usd_per_day = 0.01\n{ECHO}price = {{ per_call = 0.02 }}\n");
    let gateway = Gateway::start_with_key(&config, "alice");
    let keys = (0..CALLERS).map(|n| gateway.run(&["key", "create", "--caller", &format!("caller{n:02}")]));
    let keys: Vec<String> = keys.map(|key| key.trim().to_owned()).collect();
    let sending = keys.into_iter().map(|key| tokio::spawn(send(gateway.place().to_owned(), key)));
    for sent in sending.collect::<Vec<_>>() {
        sent.await.unwrap();
    }
    let count = |entry: &Value| entry["details"]["count"].as_u64().unwrap();
    let all = |entries: &[Value]| of_action(entries, "call.denied").into_iter().map(count).sum::<u64>();
    let entries = wait_for(&gateway, |entries| all(entries) >= (CALLERS * CALLS) as u64).await;
    assert_eq!(all(&entries), (CALLERS * CALLS) as u64, "each is counted once");
    let mut seconds: HashMap<&str, usize> = HashMap::new();
    for entry in of_action(&entries, "call.denied") {
        *seconds.entry(entry["details"]["until"].as_str().unwrap()).or_default() += 1;
    }
    assert!(seconds.values().all(|rows| *rows <= ROWS), "{seconds:?}");
    assert!(of_action(&entries, "call.denied").iter().any(|entry| !entry["details"]["others"].is_null()));
    assert!(verified(gateway.folder(), &[]).0);
}

/// Calls over one connection, each of which is denied.
async fn send(place: String, key: String) {
    let stream = TcpStream::connect(&place).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let body = Bytes::from(message("hi").to_string());
    for _ in 0..CALLS {
        let request = http::Request::post("/agents/echo/message:send")
            .header("host", &place)
            .header("a2a-version", "1.0")
            .header("content-type", "application/json")
            .header("x-api-key", &key)
            .body(Full::new(body.clone()))
            .unwrap();
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 429);
        response.into_body().collect().await.unwrap();
    }
}
