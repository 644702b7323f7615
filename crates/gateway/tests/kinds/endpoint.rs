//! A small OpenAI-compatible endpoint that answers as it is told, and remembers what it was asked.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How a request is answered.
#[derive(Clone)]
pub(crate) enum Reply {
    /// By these words, which are so many tokens after so many.
    Says(&'static [&'static str], u64, u64),
    /// The same, as a whole.
    SaysAtOnce(&'static str, u64, u64),
    /// By these words, because there was no room for more.
    CutOff(&'static [&'static str]),
    /// By these words, and then the connection is closed.
    BreaksOff(&'static [&'static str]),
    /// By a word every so many milliseconds, and by no more of them than that.
    Drips(u64, usize),
    /// By these words, and then never again.
    Hangs(&'static [&'static str]),
    /// Not now.
    Busy(u16, Option<&'static str>),
    /// By something that is none.
    Strange(u16, &'static str),
}

/// What was asked.
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

pub(crate) struct Endpoint {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// How many answers are being written.
    open: Arc<AtomicUsize>,
}

/// Counts an answer for as long as it is written.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Body = BoxBody<Bytes, std::io::Error>;

impl Endpoint {
    /// Answers by these, one after the other; by the last of them from then on.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (asked, open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (log, count, replies) = (asked.clone(), open.clone(), Arc::new(replies));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, count, replies) = (log.clone(), count.clone(), replies.clone());
                let service =
                    service_fn(move |request| answer(request, log.clone(), count.clone(), replies.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, asked, open }
    }

    /// What was asked, by its place.
    pub(crate) fn asked<T>(&self, place: usize, look: impl FnOnce(&Asked) -> T) -> T {
        look(&self.asked.lock()[place])
    }

    pub(crate) fn times(&self) -> usize {
        self.asked.lock().len()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

async fn answer(
    request: Request<Incoming>,
    log: Arc<Mutex<Vec<Asked>>>,
    count: Arc<AtomicUsize>,
    replies: Arc<Vec<Reply>>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let authorization = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let asked = Asked {
        path: head.uri.path().to_owned(),
        authorization: authorization.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).expect("JSON"),
    };
    let place = {
        let mut log = log.lock();
        log.push(asked);
        log.len() - 1
    };
    count.fetch_add(1, Ordering::SeqCst);
    let open = Open(count);
    let reply = replies[place.min(replies.len() - 1)].clone();
    Ok(match reply {
        Reply::Says(words, read, written) => {
            let usage = json!({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": written}});
            events(open, [texts(words), vec![ended("stop"), data(&usage), done()]].concat(), None)
        }
        Reply::SaysAtOnce(text, read, written) => whole(
            200,
            &json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": read, "completion_tokens": written}})
            .to_string(),
        ),
        Reply::CutOff(words) => events(open, [texts(words), vec![ended("length"), done()]].concat(), None),
        Reply::BreaksOff(words) => events(open, texts(words), Some(Duration::ZERO)),
        Reply::Drips(every, most) => {
            let frames = [texts(&vec!["drip "; most]), vec![ended("stop"), done()]].concat();
            paced(open, frames, Duration::from_millis(every), None)
        }
        Reply::Hangs(words) => events(open, texts(words), Some(Duration::from_secs(3600))),
        Reply::Busy(status, after) => {
            let mut busy = whole(status, r#"{"error":{"message":"the inside of the endpoint"}}"#);
            if let Some(after) = after {
                busy.headers_mut().insert("retry-after", after.parse().expect("a header"));
            }
            busy
        }
        Reply::Strange(status, text) => whole(status, text),
    })
}

fn texts(words: &[&str]) -> Vec<String> {
    let delta = |word: &&str| {
        data(&json!({"choices": [{"delta": {"content": word}, "finish_reason": null}], "usage": null}))
    };
    words.iter().map(delta).collect()
}

fn ended(reason: &str) -> String {
    data(&json!({"choices": [{"delta": {}, "finish_reason": reason}], "usage": null}))
}

fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

fn whole(status: u16, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes())).map_err(|never| match never {});
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(body.boxed()).expect("a response")
}

/// Frames with a pause between them, so that they are not one; then perhaps a break, after a while.
fn events(open: Open, frames: Vec<String>, breaks: Option<Duration>) -> Response<Body> {
    paced(open, frames, Duration::from_millis(5), breaks)
}

fn paced(open: Open, frames: Vec<String>, pause: Duration, breaks: Option<Duration>) -> Response<Body> {
    let words = stream::iter(frames).then(move |frame| async move {
        tokio::time::sleep(pause).await;
        Ok(Frame::data(Bytes::from(frame)))
    });
    let last = stream::iter(breaks).then(move |after| async move {
        tokio::time::sleep(after).await;
        Err(std::io::Error::other("broken"))
    });
    let body = words.chain(last).map(move |frame| {
        let _ = &open;
        frame
    });
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(BodyExt::boxed(StreamBody::new(body))).expect("a response")
}
