//! Receivers of notifications on real sockets, with answers from a script, and tasks to notify them of.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{
    Artifact, ContextId, Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskId,
    TaskPushNotificationConfig, TaskState, TaskStatus, TaskStatusUpdateEvent, Timestamp,
};
use chancery_sdk::push::PushLimits;
use chancery_sdk::store::{Batch, Clock, Scope, Store, StoreLimits};
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// What a receiver answers.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Status(u16),
    /// With a `Retry-After`.
    Later(u16, &'static str),
    /// With a `Location`.
    Redirect(String),
    /// A head with a body that never ends.
    Endless(u16),
    /// 204, once it is told to.
    When(Arc<Notify>),
    /// Nothing, ever.
    Nothing,
}

/// What a receiver was sent.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    got: mpsc::UnboundedReceiver<Got>,
    _serving: JoinSet<()>,
}

impl Receiver {
    /// Answers from a script, and 204 when that has ended.
    pub(crate) async fn start(script: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (tell, got) = mpsc::unbounded_channel();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, tell) = (script.clone(), tell.clone());
                let service = service_fn(move |request| answer(request, script.clone(), tell.clone()));
                let connection = hyper::server::conn::http1::Builder::new();
                let connection = connection.serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { connection.await.ok() });
            }
        });
        Self { address, got, _serving: serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// The next request, waited for.
    pub(crate) async fn next(&mut self) -> Got {
        self.got.recv().await.unwrap()
    }

    /// The texts of so many requests.
    pub(crate) async fn texts(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            texts.push(self.next().await.text());
        }
        texts
    }

    /// The text of what has come already.
    pub(crate) fn arrived(&mut self) -> Option<String> {
        self.got.try_recv().ok().map(|got| got.text())
    }

    /// Whether nothing has come that was not asked for.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.got.try_recv().is_err()
    }
}

async fn answer(
    request: http::Request<hyper::body::Incoming>,
    script: Arc<Mutex<VecDeque<Say>>>,
    tell: mpsc::UnboundedSender<Got>,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let say = script.lock().pop_front().unwrap_or(Say::Status(204));
    let path = head.uri.path().to_owned();
    tell.send(Got { method: head.method, path, headers: head.headers, body }).ok();
    let response = match say {
        Say::Status(status) => Response::builder().status(status),
        Say::Later(status, after) => Response::builder().status(status).header("retry-after", after),
        Say::Redirect(to) => Response::builder().status(307).header("location", to),
        Say::Endless(status) => {
            let response = Response::builder().status(status);
            return Ok(response.body(http_body_util::combinators::BoxBody::new(Endless)).unwrap());
        }
        Say::When(told) => {
            told.notified().await;
            Response::builder().status(204)
        }
        Say::Nothing => std::future::pending().await,
    };
    Ok(response.body(Full::from("so be it").boxed()).unwrap())
}

struct Endless;

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(Bytes::from_static(&[b'x'; 1024])))))
    }
}

impl Got {
    /// The text of the artifact in it, or the name of the state.
    pub(crate) fn text(&self) -> String {
        match serde_json::from_slice(&self.body).unwrap() {
            StreamResponse::Task(task) => task.status.state.as_str().to_owned(),
            StreamResponse::StatusUpdate(update) => update.status.state.as_str().to_owned(),
            StreamResponse::ArtifactUpdate(update) => update.artifact.parts[0].as_text().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).to_str().unwrap()
    }
}

/// A port where nobody listens, and nobody else will: it is taken.
pub(crate) struct Dead(TcpSocket);

impl Dead {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.0.local_addr().unwrap())
    }
}

pub(crate) fn egress() -> Egress {
    Egress::default().allow("127.0.0.0/8".parse().unwrap())
}

/// A store whose time passes only when it is told to.
pub(crate) fn store() -> (Arc<Store>, Clock) {
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    (Arc::new(Store::open_with("memory:", StoreLimits::default(), clock.clone()).unwrap()), clock)
}

/// A receiver that does not answer is waited for as long as a test can run.
pub(crate) fn patient() -> PushLimits {
    PushLimits { request_timeout: Duration::from_secs(3_600), ..PushLimits::default() }
}

pub(crate) fn scope() -> Scope {
    Scope { realm: "realm".into(), owner: "owner".into(), agent: "agent".into() }
}

pub(crate) fn config(id: &str, url: String) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        tenant: String::new(),
        id: Some(id.into()),
        task_id: None,
        url,
        token: String::new(),
        authentication: None,
    }
}

/// Begins a task with a configuration, and so many chunks after its first event.
pub(crate) async fn begin(store: &Store, task: &str, config: TaskPushNotificationConfig, chunks: usize) {
    let mut batch = Batch::default();
    let mut begun = Task::submitted(task.into(), ContextId::from("c"), Message::user("go"));
    begun.status = TaskStatus { state: TaskState::Working, message: None, timestamp: None };
    batch.create(begun);
    for n in 0..chunks {
        add_chunk(&mut batch, task, &n.to_string());
    }
    batch.push = Some(Box::new(config.into()));
    assert!(store.append(&scope(), &TaskId::from(task), batch).await.unwrap().push);
}

pub(crate) async fn chunk(store: &Store, task: &str, text: &str) {
    let mut batch = Batch::default();
    add_chunk(&mut batch, task, text);
    store.append(&scope(), &TaskId::from(task), batch).await.unwrap();
}

pub(crate) async fn complete(store: &Store, task: &str) {
    let mut batch = Batch::default();
    let status = TaskStatus { state: TaskState::Completed, message: None, timestamp: None };
    let update =
        TaskStatusUpdateEvent { task_id: task.into(), context_id: "c".into(), status, metadata: None };
    batch.status(update, None);
    store.append(&scope(), &TaskId::from(task), batch).await.unwrap();
}

fn add_chunk(batch: &mut Batch, task: &str, text: &str) {
    batch.artifact(TaskArtifactUpdateEvent {
        task_id: task.into(),
        context_id: "c".into(),
        artifact: Artifact::new("a", vec![Part::text(text)]),
        append: true,
        last_chunk: false,
        metadata: None,
    });
}

/// Waits until nothing is left to deliver.
pub(crate) async fn settled(store: &Store) {
    while is_pending(store).await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until nothing is due, and says when something will be.
pub(crate) async fn postponed(store: &Store) -> Timestamp {
    loop {
        let now = store.now();
        let due = store.deliveries(None, now, 1).await.unwrap();
        if let (true, Some(next)) = (due.is_empty(), store.next_delivery_at(now).await.unwrap()) {
            return next;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn is_pending(store: &Store) -> bool {
    let far = Timestamp::from_millis(i64::MAX);
    !store.deliveries(None, far, 1).await.unwrap().is_empty()
}
