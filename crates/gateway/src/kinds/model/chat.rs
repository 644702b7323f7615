//! The endpoint: asked once, tried again while it is busy, and heard piece by piece.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use chancery_sdk::egress::{Egress, Web, WebAnswer, WebError, WebEvents};
use chancery_sdk::{Failure, Outcome};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::Said;
use super::spending::Tokens;
use crate::config::{ModelSection, OutboundSection};

/// What stands in the last event.
const DONE: &str = "[DONE]";
const BROKE_OFF: &str = "The answer of the model broke off";
/// How large one piece of an answer may be, and an answer that comes as a whole.
const MOST: usize = 4 << 20;
/// How long the name of an error is at most, in bytes.
const LONGEST_NAME: usize = 48;
/// How long is waited before the first other try, if the endpoint does not say; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// How long is waited at most. An endpoint that wants more is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// An OpenAI-compatible chat endpoint.
pub(super) struct Chat {
    web: Web,
    url: Uri,
    headers: HeaderMap,
    model: String,
    max_retries: u32,
}

/// An answer that comes.
pub(super) struct Answer {
    /// None for one that came as a whole.
    events: Option<WebEvents>,
    /// What has come and was not taken.
    pieces: VecDeque<Piece>,
    /// Why it ends. The tokens are counted after that is said.
    ended: Option<Ended>,
}

/// Something of an answer.
pub(super) enum Piece {
    Text(String),
    Usage(Tokens),
    End(Ended),
}

/// Why an answer is at its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All was said.
    Stopped,
    /// There was no room for more.
    Length,
    /// The endpoint will not say it.
    Filtered,
}

/// An answer, or a piece of one, as the endpoint writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Counted>,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Option<Text>,
    message: Option<Text>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Text {
    content: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counted {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// An answer that is none.
#[derive(Debug, thiserror::Error)]
#[error("the endpoint gives {0}")]
struct Strange(String);

// === impl Chat ===

impl Chat {
    pub(super) fn new(
        model: &ModelSection,
        key: Option<&str>,
        outbound: &OutboundSection,
    ) -> anyhow::Result<Self> {
        let url = format!("{}/chat/completions", model.url.trim_end_matches('/'));
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let mut value =
                HeaderValue::try_from(format!("Bearer {key}")).context("the key cannot be sent")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            // The operator said where it is.
            web: Web::new(&outbound.trusting(Egress::unrestricted())?),
            url: url.parse().with_context(|| format!("`{url}` is no URL"))?,
            headers,
            model: model.model.clone(),
            max_retries: model.max_retries,
        })
    }

    /// Asks, and asks again while the endpoint is busy.
    pub(super) async fn ask(&self, messages: &[Said], max_tokens: u64) -> Result<Answer, Failure> {
        let body = json!({
            "model": self.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        let body = Bytes::from(serde_json::to_vec(&body)?);
        let (mut wait, mut was_reached, mut may_have_answered) = (FIRST_WAIT, false, false);
        for tries in 0.. {
            let asked = self.web.post(self.url.clone(), self.headers.clone(), body.clone()).await;
            let (after, failure) = match asked {
                Ok(answer) if answer.status().is_success() => {
                    return Answer::read(answer).await.map_err(Failure::unanswered);
                }
                Ok(answer) if is_passing(answer.status()) => {
                    // One that turns a request away has not worked on it; one that failed may have.
                    (was_reached, may_have_answered) =
                        (true, may_have_answered || answer.status().is_server_error());
                    (answer.retry_after(), busy(answer).await)
                }
                Ok(answer) => return Err(refused(answer).await),
                Err(error @ WebError::Connect(_)) if was_reached => (None, unreachable(error)),
                Err(error @ WebError::Connect(_)) => (None, unreachable(error).never_sent()),
                Err(error) => return Err(broken(error).unanswered()),
            };
            let pause = after.unwrap_or(wait);
            if tries >= self.max_retries || pause > LONGEST_WAIT {
                return Err(if may_have_answered { failure.unanswered() } else { failure });
            }
            tracing::warn!(
                model = self.model,
                tries,
                ?pause,
                "model {} is busy, it is asked again",
                self.model
            );
            tokio::time::sleep(pause).await;
            wait = wait.saturating_mul(2);
        }
        Err(Failure::public("The model was not asked"))
    }
}

/// Whether another try may go better.
fn is_passing(status: StatusCode) -> bool {
    let passing = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
    passing.contains(&status) || status.is_server_error()
}

async fn busy(answer: WebAnswer) -> Failure {
    let (status, after) = (answer.status(), answer.retry_after());
    let when = after.map_or("later".to_owned(), |after| format!("in {} s", after.as_secs().max(1)));
    let what =
        if status == StatusCode::TOO_MANY_REQUESTS { "is asked too often" } else { "is not available" };
    Failure::public(format!("The model {what} ({}); try again {when}", status.as_u16()))
        .caused_by(said(answer).await)
}

async fn refused(answer: WebAnswer) -> Failure {
    let status = answer.status().as_u16();
    Failure::public(format!("The model does not take the request ({status})")).caused_by(said(answer).await)
}

async fn said(answer: WebAnswer) -> Strange {
    let body = answer.whole(MOST).await.unwrap_or_default();
    let told = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    Strange(name_of(&told["error"]))
}

/// What an endpoint calls an error. Nothing else of it is for a log: the rest may repeat what it was sent, prompts and the key
/// included.
fn name_of(error: &Value) -> String {
    let is_name = |text: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_letter)
    };
    let names = ["code", "type"].into_iter().filter_map(|member| error[member].as_str().filter(is_name));
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        "no name for the error".to_owned()
    } else {
        format!("the error {}", names.join(", "))
    }
}

fn unreachable(error: WebError) -> Failure {
    Failure::public("The model cannot be reached; try again later").caused_by(error)
}

fn broken(error: WebError) -> Failure {
    Failure::public(BROKE_OFF).caused_by(error)
}

// === impl Answer ===

impl Answer {
    async fn read(answer: WebAnswer) -> Result<Self, Failure> {
        if answer.is_events() {
            return Ok(Self { events: Some(answer.events(MOST)), pieces: VecDeque::new(), ended: None });
        }
        let body = answer.whole(MOST).await.map_err(broken)?;
        let mut whole = Self { events: None, pieces: VecDeque::new(), ended: None };
        whole.take(&body)?;
        let ended = whole.ended.take().unwrap_or(Ended::Stopped);
        whole.pieces.push_back(Piece::End(ended));
        Ok(whole)
    }

    /// The next piece; the end is the last. May be dropped while it waits, and loses nothing.
    pub(super) async fn next(&mut self) -> Result<Piece, Failure> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            let next = match &mut self.events {
                Some(events) => events.next().await.map_err(broken)?,
                None => None,
            };
            match (next, &self.ended) {
                (Some(data), _) if data == DONE => {
                    return Ok(Piece::End(self.ended.take().unwrap_or(Ended::Stopped)));
                }
                (Some(data), _) => self.take(&data)?,
                // Some endpoints just close.
                (None, Some(_)) => return Ok(Piece::End(self.ended.take().unwrap_or(Ended::Stopped))),
                (None, None) => return Err(Failure::public(BROKE_OFF)),
            }
        }
    }

    /// Takes in what the endpoint wrote.
    fn take(&mut self, json: &[u8]) -> Result<(), Failure> {
        let strange =
            |what: String| Failure::public("The answer of the model cannot be read").caused_by(Strange(what));
        let Completion { choices, usage, error } = serde_json::from_slice(json)
            .map_err(|error| strange(format!("JSON that cannot be read: {:?} error", error.classify())))?;
        if let Some(error) = error {
            return Err(Failure::public("The model failed").caused_by(Strange(name_of(&error))));
        }
        for choice in choices.into_iter().take(1) {
            let text = choice.delta.or(choice.message).and_then(|text| text.content);
            self.pieces.extend(text.filter(|text| !text.is_empty()).map(Piece::Text));
            self.ended = choice.finish_reason.as_deref().map(Ended::of).or(self.ended.take());
        }
        let tokens =
            usage.map(|usage| Tokens { input: usage.prompt_tokens, output: usage.completion_tokens });
        self.pieces.extend(tokens.map(Piece::Usage));
        Ok(())
    }
}

// === impl Ended ===

impl Ended {
    fn of(reason: &str) -> Self {
        match reason {
            "length" => Self::Length,
            "content_filter" => Self::Filtered,
            _ => Self::Stopped,
        }
    }

    /// What that means for the task.
    pub(super) fn outcome(self, said: bool, max_tokens: u64) -> Outcome {
        match self {
            Self::Filtered => Outcome::failed("The model will not answer this"),
            Self::Length => {
                Outcome::completed().saying(format!("The answer was cut off after {max_tokens} tokens"))
            }
            Self::Stopped if !said => Outcome::completed().saying("The model had nothing to say"),
            Self::Stopped => Outcome::completed(),
        }
    }
}
