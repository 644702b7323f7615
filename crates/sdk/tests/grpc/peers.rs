//! The client against peers of gRPC that are not ours: what they say is read, what they may not say is refused.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_sdk::egress::Egress;
use chancery_sdk::{Client, ClientBuilder, ClientError, ErrorCode, Role, TaskState};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::caller::{POOL, framed};
use crate::support::{Peer, Reply, card, within};

/// What a peer answers.
#[derive(Clone)]
struct Said {
    status: u16,
    kind: &'static str,
    head: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    trailers: Option<Vec<(&'static str, &'static str)>>,
}

const OK: &[(&str, &str)] = &[("grpc-status", "0")];

fn said(body: Vec<u8>, trailers: &[(&'static str, &'static str)]) -> Said {
    let trailers = Some(trailers.to_vec());
    Said { status: 200, kind: "application/grpc", head: Vec::new(), body, trailers }
}

/// A failure in the head.
fn failed(head: &[(&'static str, &'static str)]) -> Said {
    let head = head.to_vec();
    Said { status: 200, kind: "application/grpc", head, body: Vec::new(), trailers: None }
}

fn message(name: &str, value: &Value) -> Vec<u8> {
    let descriptor = POOL.get_message_by_name(&format!("lf.a2a.v1.{name}")).expect("a message");
    let text = value.to_string();
    let mut json = serde_json::Deserializer::from_str(&text);
    DynamicMessage::deserialize(descriptor, &mut json).expect("a message").encode_to_vec()
}

fn task(state: &str) -> Vec<u8> {
    framed(&message("Task", &json!({"id": "t", "contextId": "c", "status": {"state": state}})))
}

fn event(value: &Value, number: u8) -> Vec<u8> {
    // The number of an event stands in a field of our own.
    framed(&[message("StreamResponse", value), vec![0xc0, 0x3e, number]].concat())
}

fn begun() -> Vec<u8> {
    event(&json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}), 1)
}

fn ended() -> Vec<u8> {
    let status = json!({"state": "TASK_STATE_COMPLETED"});
    event(&json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}), 2)
}

fn headers(entries: &[(&'static str, &'static str)]) -> HeaderMap {
    entries
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// The heads that a peer has seen.
type Heard = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// A peer that answers its calls one after the other, the last answer again and again.
async fn peer(script: Vec<Said>) -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("an address");
    let heard = Heard::default();
    let noted = heard.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (script, noted) = (script.clone(), noted.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let mut noted = noted.lock();
                let said = script[noted.len().min(script.len() - 1)].clone();
                noted.push((request.uri().path().to_owned(), request.headers().clone()));
                async move { Ok::<_, Infallible>(answer(said)) }
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                // How a connection ends is the client's to say.
                let _ = serving.await;
            });
        }
    });
    (address, heard)
}

fn answer(
    said: Said,
) -> Response<StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>>> {
    let mut frames = Vec::new();
    if !said.body.is_empty() {
        frames.push(Ok(Frame::data(Bytes::from(said.body))));
    }
    frames.extend(said.trailers.map(|trailers| Ok(Frame::trailers(headers(&trailers)))));
    let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)));
    *response.status_mut() = said.status.try_into().expect("a status");
    *response.headers_mut() = headers(&said.head);
    response.headers_mut().insert("content-type", HeaderValue::from_static(said.kind));
    response
}

/// A client that is led to such a peer by a card.
async fn client(script: Vec<Said>, build: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Client, Heard) {
    let (address, heard) = peer(script).await;
    let cards = Peer::start(move |_, _| Reply::json(200, &card(&address.to_string(), "GRPC", false))).await;
    let loopback = Egress::default().allow("127.0.0.0/8".parse().expect("a range"));
    let client = build(Client::builder().egress(loopback)).connect(&cards.url).await.expect("a card");
    (client, heard)
}

async fn get(said: Said) -> Result<TaskState, ClientError> {
    let (client, _) = client(vec![said], |client| client.retries(0).max_response_bytes(1000)).await;
    within("an answer", client.get("t")).await.map(|task| task.status.state)
}

#[tokio::test]
async fn answers_are_read_and_what_is_none_is_refused() {
    let good = said(task("TASK_STATE_WORKING"), OK);
    assert_eq!(get(good.clone()).await.expect("a task"), TaskState::Working);
    let unspecified = framed(&message("Task", &json!({"id": "t", "status": {}})));
    assert_eq!(get(said(unspecified, OK)).await.expect("a task"), TaskState::Unspecified);

    let code = |error: Result<TaskState, ClientError>| error.expect_err("an error").code();
    assert_eq!(code(get(failed(&[("grpc-status", "5")])).await), Some(ErrorCode::TaskNotFound));
    assert_eq!(code(get(said(Vec::new(), &[("grpc-status", "16")])).await), Some(ErrorCode::Unauthenticated));
    let late = said(task("TASK_STATE_WORKING"), &[("grpc-status", "13"), ("grpc-message", "no%21")]);
    assert!(matches!(get(late).await, Err(ClientError::Peer(error)) if error.message() == "no!"));

    let mut compressed = task("TASK_STATE_WORKING");
    compressed[0] = 1;
    let bad = [
        (said(framed(b"\xff"), OK), "a message of it is none"),
        (said(Vec::new(), OK), "not one message"),
        (said([task("TASK_STATE_WORKING"), task("TASK_STATE_WORKING")].concat(), OK), "not one message"),
        (said(compressed, OK), "compressed"),
        (said(framed(b""), OK), "status"),
        (Said { trailers: None, ..good.clone() }, "does not say how it ended"),
        (Said { kind: "text/html", ..good.clone() }, "content type"),
    ];
    for (said, expected) in bad {
        let refused = get(said).await.expect_err(expected);
        assert!(
            matches!(&refused, ClientError::BadAnswer(why) if why.contains(expected)),
            "{refused}: {expected}"
        );
    }
    let status = Said { status: 503, kind: "text/html", trailers: None, ..good.clone() };
    assert!(matches!(get(status).await, Err(ClientError::Status { status, .. }) if status == 503));
    let large = said(framed(&[0; 2000]), OK);
    assert!(matches!(get(large).await, Err(ClientError::TooLarge { limit: 1000, .. })));
}

#[tokio::test]
async fn calls_say_what_grpc_has_them_say() {
    let busy = failed(&[("grpc-status", "14")]);
    let script = vec![busy, said(task("TASK_STATE_WORKING"), OK)];
    let (client, heard) = client(script, |client| client.request_timeout(Duration::from_secs(50))).await;
    within("an answer", client.get("t")).await.expect("a task, at the second try");
    let heard = heard.lock();
    assert_eq!(heard.len(), 2);
    let (path, head) = &heard[0];
    assert_eq!(path, "/lf.a2a.v1.A2AService/GetTask");
    assert_eq!((&head["te"], &head["a2a-version"]), (&"trailers".parse().unwrap(), &"1.0".parse().unwrap()));
    assert_eq!(head["content-type"], "application/grpc");
    let millis: u32 = head["grpc-timeout"].to_str().unwrap().strip_suffix('m').unwrap().parse().unwrap();
    assert!(millis > 0 && millis <= 50_000);
    assert_eq!(head.get("accept"), None);
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_again() {
    let cut = Said { trailers: None, ..said(begun(), OK) };
    let busy = said(Vec::new(), &[("grpc-status", "14")]);
    for first in [cut, said(begun(), &[("grpc-status", "14")])] {
        let (client, heard) = client(vec![first, busy.clone(), said(ended(), OK)], |client| client).await;
        let mut events = client.stream("x").await.expect("a stream");
        let mut numbers = Vec::new();
        while let Some(event) = within("an event", events.next()).await {
            numbers.push(event.expect("no error").number);
        }
        assert_eq!(numbers, [1, 2]);
        let heard = heard.lock();
        assert_eq!(heard[0].1["chancery-event-numbers"], "1");
        assert_eq!(heard[2].0, "/lf.a2a.v1.A2AService/SubscribeToTask");
        assert_eq!(heard[2].1["last-event-id"], "1");
    }
}

#[tokio::test]
async fn a_stream_that_is_none_ends_with_an_error() {
    let last = |script: Vec<Said>| async move {
        let (client, _) = client(script, |client| client.max_event_bytes(100).stream_resumes(0)).await;
        let mut events = match client.stream("x").await {
            Ok(events) => events,
            Err(error) => return error,
        };
        loop {
            match within("an event", events.next()).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => panic!("the stream ended as if all were said"),
            }
        }
    };
    let refused = last(vec![failed(&[("grpc-status", "7")])]).await;
    assert_eq!(refused.code(), Some(ErrorCode::PermissionDenied));
    let broken = last(vec![said(begun(), &[("grpc-status", "13")])]).await;
    assert_eq!(broken.code(), Some(ErrorCode::Internal));
    let large = last(vec![said(framed(&[0; 101]), OK)]).await;
    assert!(matches!(large, ClientError::TooLarge { limit: 100, .. }), "{large}");
    let garbage = last(vec![said(framed(b"\xff"), OK)]).await;
    assert!(matches!(garbage, ClientError::BadEvent { .. }), "{garbage}");
    let early = last(vec![said(begun(), OK)]).await;
    assert!(matches!(early, ClientError::StreamCut { .. }), "{early}");
    let half = last(vec![Said { body: begun()[..7].to_vec(), ..said(Vec::new(), OK) }]).await;
    assert!(matches!(half, ClientError::StreamCut { .. }), "{half}");
}

#[tokio::test]
async fn numbers_that_nobody_knows_survive() {
    let said_once = json!({"messageId": "m", "role": -3, "parts": [{"text": "x"}]});
    let strange = json!({"id": "t", "contextId": "c", "status": {"state": 42}, "history": [said_once]});
    let (client, _) = client(vec![said(framed(&message("Task", &strange)), OK)], |client| client).await;
    let task = client.get("t").await.expect("a task");
    assert_eq!((task.status.state, task.history[0].role), (TaskState::Unknown(42), Role::Unknown(-3)));
    let shown = serde_json::to_value(&task).expect("JSON");
    assert_eq!((&shown["status"]["state"], &shown["history"][0]["role"]), (&json!(42), &json!(-3)));
    assert_eq!(message("Task", &shown), message("Task", &strange), "and they are told so by gRPC");
}
