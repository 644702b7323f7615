//! A peer that answers as told: bytes over a socket, and no more of HTTP than that takes.
//!
//! It runs in a thread of its own, so a client of any make can be tested against it, also one that blocks. Everything
//! about it is bounded: how many requests it remembers, how much it reads and writes, how many connections it has.

mod heard;
mod hostile;
mod hostile_answers;
mod hostile_streams;
mod reply;

use std::any::Any;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;

use chancery_protocol::ProtocolBinding;
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use heard::Heard;
pub use hostile::{Exchange, HOSTILE, Hostile, Must};
pub use reply::Reply;

/// How many requests are remembered.
const MAX_HEARD: usize = 10_000;
/// How many connections are served at a time; further ones are closed.
const MAX_CONNECTIONS: usize = 256;

/// Somebody who answers as told, on a free port of this machine, until it is dropped.
///
/// ```
/// use chancery_sdk::testing::{Peer, Reply};
/// use chancery_sdk::{Client, ClientError, protocol::ProtocolBinding};
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = Peer::script()
///     .card(ProtocolBinding::JsonRpc)
///     .answer(Reply::status(503).header("retry-after", "0"))
///     .answer_with(|heard| heard.result(&json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})))
///     .start()?;
/// let client = Client::connect(peer.url()).await?;
/// client.get("t").await?;
/// assert_eq!(peer.calls().len(), 2, "the client has asked again");
/// assert_eq!(peer.calls()[1].json()["method"], "GetTask");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// When it is dropped, if a function of its script has panicked: a test must not pass because of that.
pub struct Peer {
    url: String,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// What a peer says, request by request. See [`Peer`].
#[must_use]
#[derive(Default)]
pub struct Script {
    card: Option<Play>,
    answers: Vec<Play>,
}

/// Says what to answer to a request.
type Play = Arc<dyn Fn(&Heard) -> Reply + Send + Sync>;

struct Shared {
    script: Script,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    heard: Vec<Heard>,
    /// How many requests there were that were no look at the card.
    calls: usize,
    panics: Vec<String>,
}

// === impl Script ===

impl Script {
    /// Answers looks at the card with a good one, which has one interface, here, of this binding. Without this they
    /// are requests like any other.
    pub fn card(self, binding: ProtocolBinding) -> Self {
        self.card_with(move |heard| Reply::json(&heard.card(&binding)))
    }

    /// Answers looks at the card with this.
    pub fn card_with(mut self, play: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        self.card = Some(Arc::new(play));
        self
    }

    /// Answers the next request with this. The last answer of the script is repeated.
    pub fn answer(self, reply: Reply) -> Self {
        self.answer_with(move |_| reply.clone())
    }

    /// Answers the next request with what this makes of it.
    pub fn answer_with(mut self, play: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        self.answers.push(Arc::new(play));
        self
    }

    /// Begins to listen.
    pub fn start(self) -> io::Result<Peer> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address: SocketAddr = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared { script: self, state: Mutex::default() });
        let stopping = CancellationToken::new();
        let (serving, stopped) = (shared.clone(), stopping.clone());
        let thread = std::thread::Builder::new().name(format!("peer {address}")).spawn(move || {
            runtime.block_on(stopped.run_until_cancelled(serving.serve(listener)));
        })?;
        Ok(Peer { url: format!("http://{address}"), shared, stopping, thread: Some(thread) })
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let card = self.card.is_some();
        f.debug_struct("Script").field("card", &card).field("answers", &self.answers.len()).finish()
    }
}

// === impl Shared ===

impl Shared {
    async fn serve(self: &Arc<Self>, listener: StdListener) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return self.note_panic(format!("cannot listen: {error}")),
        };
        let mut connections = JoinSet::new();
        for number in 0.. {
            let stream = loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => break stream,
                        Ok(_) => {}
                        Err(error) => return self.note_panic(format!("cannot accept: {error}")),
                    },
                    Some(_) = connections.join_next() => {}
                }
            };
            let shared = self.clone();
            connections.spawn(async move {
                // Noted here and not where the end is seen: a test that is over does not wait for that.
                let conversation = AssertUnwindSafe(shared.converse(stream, number)).catch_unwind();
                if let Err(panic) = conversation.await {
                    shared.note_panic(text_of(&*panic));
                }
            });
        }
    }

    async fn converse(&self, mut stream: TcpStream, connection: usize) {
        let mut unread = Vec::new();
        while let Some(heard) = heard::read(&mut stream, &mut unread, connection).await {
            let reply = self.answer(heard);
            if !reply.play(&mut stream).await {
                return;
            }
        }
    }

    fn answer(&self, heard: Heard) -> Reply {
        let script = &self.script;
        let play = if let (Some(card), true) = (&script.card, heard.is_card()) {
            Some(card)
        } else {
            let mut state = self.state.lock();
            let at = state.calls.min(script.answers.len().saturating_sub(1));
            state.calls += 1;
            script.answers.get(at)
        };
        let reply = play.map(|play| (play.clone(), heard.clone()));
        let mut state = self.state.lock();
        if state.heard.len() < MAX_HEARD {
            state.heard.push(heard);
        }
        drop(state);
        let nothing = || Reply::status(404).body(json!({"error": "the script has no answer"}).to_string());
        reply.map_or_else(nothing, |(play, heard)| play(&heard))
    }

    fn note_panic(&self, text: String) {
        self.state.lock().panics.push(text);
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".to_owned(),
    }
}

// === impl Peer ===

impl Peer {
    /// Begins a script.
    pub fn script() -> Script {
        Script::default()
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far, in the order in which they came.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.state.lock().heard.clone()
    }

    /// The requests so far that were no look at the card.
    pub fn calls(&self) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| !heard.is_card()).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stopping.cancel();
        let joined = self.thread.take().map(JoinHandle::join);
        let mut panics = std::mem::take(&mut self.shared.state.lock().panics);
        if matches!(joined, Some(Err(_))) {
            panics.push("its thread has panicked".to_owned());
        }
        if !panics.is_empty() && !std::thread::panicking() {
            panic!("the peer at {} has failed: {}", self.url, panics.join("; "));
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("url", &self.url)
            .field("script", &self.shared.script)
            .finish_non_exhaustive()
    }
}
