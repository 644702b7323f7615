//! Peers that lie, stall or break off, each with what a client must make of it.

use std::fmt;
use std::io;
use std::time::Duration;

use chancery_protocol::ProtocolBinding;

use super::heard::Heard;
use super::reply::Reply;
use super::{Peer, hostile_answers as answers, hostile_streams as streams};

/// When a client that has not come to an end counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A peer that misbehaves in one way. [`HOSTILE`] has them all.
#[derive(Clone, Copy)]
pub struct Hostile {
    /// What it is called.
    pub name: &'static str,
    /// What it does.
    pub story: &'static str,
    /// What to ask of it.
    pub exchange: Exchange,
    /// What a client must make of it.
    pub must: Must,
    spoken: Spoken,
    card: Option<fn(&Heard, &ProtocolBinding) -> Reply>,
    play: fn(&Heard) -> Reply,
}

/// What a client asks of a hostile peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exchange {
    /// It finds the agent by its card and gets the task `t`.
    Get,
    /// It finds the agent by its card, sends a message, and reads the stream of events to its end.
    Stream,
}

/// What a client must make of a hostile peer. Hanging is never right, and neither is crashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Must {
    /// Report an error. An answer, or a stream that ends as if all had been said, is wrong.
    Fail,
    /// Take it: this is unusual, and right.
    Succeed,
    /// Come to an end, with or without an error: the protocol does not say which.
    End,
}

/// By which binding it can be told at all.
#[derive(Clone, Copy)]
enum Spoken {
    Both,
    JsonRpc,
}

const fn get(name: &'static str, story: &'static str, play: fn(&Heard) -> Reply) -> Hostile {
    Hostile { name, story, exchange: Exchange::Get, must: Must::Fail, spoken: Spoken::Both, card: None, play }
}

const fn card(
    name: &'static str,
    story: &'static str,
    card: fn(&Heard, &ProtocolBinding) -> Reply,
) -> Hostile {
    Hostile { card: Some(card), ..get(name, story, answers::good) }
}

const fn stream(name: &'static str, story: &'static str, must: Must, play: fn(&Heard) -> Reply) -> Hostile {
    Hostile { exchange: Exchange::Stream, must, ..get(name, story, play) }
}

const fn only_jsonrpc(hostile: Hostile) -> Hostile {
    Hostile { spoken: Spoken::JsonRpc, ..hostile }
}

/// Every hostile peer there is.
///
/// ```no_run
/// use chancery_sdk::testing::{Exchange, HOSTILE};
/// use chancery_sdk::{Client, ClientError, protocol::ProtocolBinding};
/// use std::time::Duration;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), String> {
/// for hostile in HOSTILE {
///     hostile
///         .try_out(&ProtocolBinding::JsonRpc, async |url| {
///             let limit = Duration::from_secs(2);
///             let client = Client::builder().request_timeout(limit).stream_idle_timeout(limit).connect(url).await?;
///             match hostile.exchange {
///                 Exchange::Stream => {
///                     let mut events = client.stream("hello").await?;
///                     while let Some(event) = events.next().await {
///                         event?;
///                     }
///                 }
///                 _ => drop(client.get("t").await?),
///             }
///             Ok::<_, ClientError>(())
///         })
///         .await?;
/// }
/// # Ok(())
/// # }
/// ```
#[rustfmt::skip]
pub static HOSTILE: &[Hostile] = &[
    card("card-invalid-json", "The card is no JSON.", answers::card_invalid_json),
    card("card-web-page", "Where the card should be there is a web page.", answers::card_web_page),
    card("card-without-interface", "The card names no interface.", answers::card_without_interface),
    card("card-unknown-binding", "The card names only an interface that nobody speaks.", answers::card_unknown_binding),
    card("card-metadata-service", "The card leads to the metadata service of a cloud; nothing may be sent there.", answers::card_metadata_service),
    card("card-redirect", "The card is said to be elsewhere: at the metadata service of a cloud.", answers::card_redirect),
    card("card-endless", "The card never ends.", answers::card_endless),
    card("card-silence", "Nobody answers when asked for the card.", answers::card_silence),
    get("close", "The connection is closed before anything is answered.", answers::close),
    get("reset", "The connection is reset before anything is answered.", answers::reset),
    get("silence", "Nothing is ever answered.", answers::silence),
    get("not-http", "The answer is the greeting of another protocol.", answers::not_http),
    get("half-head", "The connection is closed in the middle of the head.", answers::half_head),
    get("endless-header", "A header never ends.", answers::endless_header),
    get("endless-headers", "There is always one more header.", answers::endless_headers),
    get("length-too-large", "The body is shorter than its length says, and the connection is closed.", answers::length_too_large),
    get("length-too-small", "The body is longer than its length says.", answers::length_too_small),
    get("length-gigantic", "A body of a petabyte is announced and never comes.", answers::length_gigantic),
    get("chunk-cut", "The connection is closed in the middle of a chunk.", answers::chunk_cut),
    get("chunk-size-nonsense", "The size of a chunk is no number.", answers::chunk_size_nonsense),
    get("chunks-unfinished", "The last chunk never comes, and the connection is closed.", answers::chunks_unfinished),
    get("drip", "The answer comes, one byte at a time, and would take hours.", answers::drip),
    get("endless-body", "The body never ends.", answers::endless_body),
    get("redirect", "The answer is said to be elsewhere.", answers::redirect),
    get("server-error", "The answer is a web page with status 500.", answers::server_error),
    get("web-page", "The answer is a web page with status 200.", answers::web_page),
    get("empty", "The answer is empty.", answers::empty),
    get("invalid-json", "The answer is no JSON.", answers::invalid_json),
    get("invalid-utf-8", "A text in the answer is not UTF-8.", answers::invalid_utf_8),
    get("deep-json", "The answer is nested a hundred thousand times.", answers::deep_json),
    get("no-status", "The task that is answered has no status.", answers::no_status),
    only_jsonrpc(get("wrong-id", "The answer is that of another call.", answers::wrong_id)),
    only_jsonrpc(get("no-envelope", "The result stands in no envelope.", answers::no_envelope)),
    only_jsonrpc(get("neither-result-nor-error", "The envelope is empty.", answers::empty_envelope)),
    stream("stream-cut", "The connection breaks in the middle of an event, every time.", Must::Fail, streams::cut),
    stream("stream-reset", "The connection is reset in the middle of a stream, every time.", Must::Fail, streams::reset),
    stream("stream-ends-early", "The stream ends while the task is still working, every time.", Must::Fail, streams::ends_early),
    stream("stream-empty", "The stream ends without an event.", Must::Fail, streams::empty),
    stream("stream-half-event", "The stream ends within its last event, which would have been the end of the task.", Must::Fail, streams::half_event),
    stream("stream-silence", "After the first event nothing comes any more, and nobody answers those who come back.", Must::Fail, streams::silence),
    stream("stream-endless-line", "A line of the stream never ends.", Must::Fail, streams::endless_line),
    stream("stream-endless-event", "An event has always one more line.", Must::Fail, streams::endless_event),
    stream("stream-invalid-json", "An event is no JSON.", Must::Fail, streams::invalid_json),
    stream("stream-unknown-event", "An event is none of the four there are.", Must::Fail, streams::unknown_event),
    stream("stream-error", "The agent reports an internal error in the middle of the stream.", Must::Fail, streams::error),
    stream("stream-other-task", "An event belongs to another task.", Must::Fail, streams::other_task),
    stream("stream-message-in-task", "A message comes in the middle of a task.", Must::Fail, streams::message_in_task),
    stream("stream-not-a-stream", "The answer is an answer, and no stream.", Must::Fail, streams::not_a_stream),
    only_jsonrpc(stream("stream-wrong-id", "An event is that of another call.", Must::Fail, streams::wrong_id)),
    stream("stream-after-the-end", "The task goes on working after it has completed.", Must::End, streams::after_the_end),
    stream("stream-gap", "The numbers of the events leave some out.", Must::End, streams::gap),
    stream("stream-duplicates", "Events come twice, with the same number.", Must::Succeed, streams::duplicates),
    stream("line-ends", "The lines of the stream end in each of the three ways there are.", Must::Succeed, streams::line_ends),
    stream("comments", "There are comments, unknown fields, and data in several lines.", Must::Succeed, streams::comments),
    stream("stream-byte-by-byte", "The stream comes byte by byte.", Must::Succeed, streams::byte_by_byte),
];

// === impl Hostile ===

impl Hostile {
    /// Whether it can be told by this binding.
    pub fn speaks(&self, binding: &ProtocolBinding) -> bool {
        match self.spoken {
            Spoken::Both => matches!(binding, ProtocolBinding::JsonRpc | ProtocolBinding::HttpJson),
            Spoken::JsonRpc => matches!(binding, ProtocolBinding::JsonRpc),
        }
    }

    /// Lets it listen on a free port, as an agent with an interface of this binding.
    pub fn start(&self, binding: &ProtocolBinding) -> io::Result<Peer> {
        let script = match self.card {
            None => Peer::script().card(binding.clone()),
            Some(card) => {
                let binding = binding.clone();
                Peer::script().card_with(move |heard| card(heard, &binding))
            }
        };
        script.answer_with(self.play).start()
    }

    /// Lets a client meet it, and says what is wrong with how the client takes it. The client is given the peer's
    /// URL; give it short timeouts, since it counts as hanging only after a minute. What a peer cannot do by a
    /// binding is not tried.
    pub async fn try_out<E: fmt::Display>(
        &self,
        binding: &ProtocolBinding,
        client: impl AsyncFnOnce(&str) -> Result<(), E>,
    ) -> Result<(), String> {
        if !self.speaks(binding) {
            return Ok(());
        }
        let peer = self.start(binding).map_err(|error| format!("{}: cannot listen: {error}", self.name))?;
        let outcome = tokio::time::timeout(PATIENCE, client(peer.url())).await;
        self.judge(outcome.ok())
    }

    /// What is wrong with how a client took it: an answer, an error, or nothing at all.
    fn judge<E: fmt::Display>(&self, outcome: Option<Result<(), E>>) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{}: {} The client {what}.", self.name, self.story));
        match (self.must, outcome) {
            (_, None) => wrong("hangs"),
            (Must::Fail, Some(Ok(()))) => wrong("takes this for an answer, and must report an error"),
            (Must::Succeed, Some(Err(error))) => {
                wrong(&format!("must take this for an answer, and reports an error: {error}"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hostile")
            .field("name", &self.name)
            .field("exchange", &self.exchange)
            .field("must", &self.must)
            .finish_non_exhaustive()
    }
}
