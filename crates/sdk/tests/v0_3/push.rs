//! Notifications go out in the version that they were registered in.

use std::sync::Arc;

use bytes::Bytes;
use chancery_sdk::egress::Egress;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::agents::{message, obedient};
use crate::support::{serve_with, within};

/// Takes whatever is posted to it.
struct Receiver {
    url: String,
    got: mpsc::UnboundedReceiver<(HeaderMap, Value)>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, got) = mpsc::unbounded_channel();
        let sender = Arc::new(sender);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        let _ = sender.send((head.headers, serde_json::from_slice(&body).unwrap()));
                        Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, got }
    }

    /// Everything up to the end of the task.
    async fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<(HeaderMap, Value)> {
        within("the last notification", async {
            let mut all = Vec::new();
            loop {
                let got = self.got.recv().await.unwrap();
                let last = is_last(&got.1);
                all.push(got);
                if last {
                    return all;
                }
            }
        })
        .await
    }
}

#[tokio::test]
async fn who_registered_in_0_3_gets_the_task() {
    let site =
        serve_with(|server| server.agent(obedient().push_notifications(true)).egress(Egress::unrestricted()))
            .await;
    let client = site.jsonrpc().without("a2a-version");
    // With the message, and to a task that is there already.
    let mut first = Receiver::start().await;
    let config = |url: &str| json!({"url": url, "token": "hush"});
    let configuration = json!({"blocking": false, "pushNotificationConfig": config(&first.url)});
    let task = client
        .call("message/send", json!({"message": message("wait"), "configuration": configuration}))
        .await;
    let id = task.result()["id"].clone();
    let mut second = Receiver::start().await;
    let set = json!({"taskId": id, "pushNotificationConfig": config(&second.url)});
    client.call("tasks/pushNotificationConfig/set", set).await.result();
    let mut newer = Receiver::start().await;
    let new = json!({"taskId": id, "url": newer.url});
    site.jsonrpc().call("CreateTaskPushNotificationConfig", new).await.result();
    client.call("tasks/cancel", json!({"id": id})).await.result();
    for receiver in [&mut first, &mut second] {
        for (headers, body) in receiver.until(|body| body["status"]["state"] == "canceled").await {
            assert_eq!((&body["kind"], &body["id"]), (&json!("task"), &id));
            assert_eq!(body["history"][0]["kind"], "message");
            assert_eq!(headers["content-type"], "application/json");
            assert_eq!(headers["x-a2a-notification-token"], "hush");
            assert!(!headers.contains_key("a2a-version"));
        }
    }
    let all = newer.until(|body| body["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED").await;
    assert!(all.iter().all(|(headers, _)| headers["a2a-version"] == "1.0"));
}
