//! What an agent elsewhere says, without what it may not say here, and with what is said here of where it comes from.

use std::ops::Range;

use chancery_protocol::{
    Artifact, Content, Error, ErrorCode, Json, JsonObject, Message, Part, StreamResponse, Task,
    TaskStatusUpdateEvent, USAGE_EXTENSION,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::errors::told;
use super::state::RemoteState;
use crate::PROVENANCE_EXTENSION;
use crate::client::ClientError;

/// Where a task comes from, as its caller reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskProvenance<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    member: &'a str,
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
}

/// Adds the agent's own ids to the metadata of a task or a status. Whether there is room for them.
pub(super) fn name_origin(event: &mut StreamResponse, state: &RemoteState) -> bool {
    let metadata = match event {
        StreamResponse::Task(task) => &mut task.metadata,
        StreamResponse::StatusUpdate(update) => &mut update.metadata,
        StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => return false,
    };
    let Some(task_id) = &state.task else { return false };
    let (scrubber, context) = (&state.scrubber, state.context.as_ref().filter(|context| !context.is_empty()));
    let provenance = TaskProvenance {
        member: &state.remote,
        task_id: scrubber.without_tokens(task_id.as_str()),
        context_id: context.map(|context| scrubber.without_tokens(context.as_str())),
    };
    if let Ok(origin) = JsonObject::single(PROVENANCE_EXTENSION, &provenance) {
        *metadata = Some(match metadata.take() {
            Some(said) => said.merged(&origin),
            None => origin,
        });
    }
    true
}

/// What the names begin with under which we speak, and those of them that say nothing but what content is.
const OURS: &str = "urn:chancery:";
const OF_CONTENT: [&str; 2] = ["urn:chancery:ext:artifact-kind:v1", "urn:chancery:ext:memory:v1"];

/// Whether only we say something under this name, in whatever case the URN is written: no agent elsewhere speaks for us.
pub(crate) fn is_ours_to_say(uri: &str) -> bool {
    let is_ours = uri.trim().get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS));
    is_ours && !OF_CONTENT.contains(&uri)
}

/// Takes out of what an agent says what is not for its caller: the lineage tokens that it was sent, and what only we may say.
/// Tokens are known by their digests, since they are never stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scrubber(Vec<TokenDigest>);

/// By what a lineage token is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TokenDigest {
    digest: String,
    /// Where its two dots are, and how long it is.
    dots: [usize; 2],
    length: usize,
}

/// What stands in the place of a token.
const SCRUBBED: &str = "[lineage token]";
/// How many tokens of a task are remembered.
const TOKENS: usize = 8;

impl TokenDigest {
    fn of(token: &str) -> Self {
        let token = token.as_bytes();
        Self { digest: digest(token), dots: dots(token), length: token.len() }
    }

    /// The token whose first dot is at this place, if it is this one.
    fn around(&self, text: &[u8], dot: usize) -> Option<Range<usize>> {
        let start = dot.checked_sub(self.dots[0])?;
        let token = text.get(start..start + self.length)?;
        let is_it = dots(token) == self.dots && digest(token) == self.digest;
        is_it.then_some(start..start + self.length)
    }
}

/// Where the first two dots are.
fn dots(token: &[u8]) -> [usize; 2] {
    let dot =
        |from: usize| token[from..].iter().position(|byte| *byte == b'.').map_or(token.len(), |at| from + at);
    let first = dot(0);
    [first, dot((first + 1).min(token.len()))]
}

fn digest(token: &[u8]) -> String {
    Sha256::digest(token)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Scrubber {
    /// The agent is about to be sent this token, which it must not tell anybody.
    pub(super) fn sent(&mut self, token: &str) {
        let digest = TokenDigest::of(token);
        if !self.0.contains(&digest) {
            self.0.push(digest);
            self.0.drain(..self.0.len().saturating_sub(TOKENS));
        }
    }

    /// Whether no token is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a text tells a token: wherever it stands, and whatever it touches.
    fn tokens_in(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if self.0.is_empty() {
            return found;
        }
        for dot in text.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(dot, _)| dot) {
            if found.last().is_none_or(|last| dot >= last.end) {
                found.extend(self.0.iter().find_map(|token| token.around(text, dot)));
            }
        }
        found
    }

    /// Whether a text tells a token.
    pub(super) fn tells(&self, text: &str) -> bool {
        !self.tokens_in(text.as_bytes()).is_empty()
    }

    /// An event without tokens and without ids of the agent's own tasks.
    pub(super) fn scrub(&self, mut event: StreamResponse) -> StreamResponse {
        match &mut event {
            StreamResponse::Task(task) => {
                move_report(task.status.message.as_deref(), &mut task.metadata);
                self.report(&mut task.metadata);
                task.artifacts.iter_mut().for_each(|artifact| self.artifact(artifact));
                task.history.iter_mut().for_each(|message| self.message(message));
                task.status.message.iter_mut().for_each(|message| self.message(message));
            }
            StreamResponse::Message(message) => {
                let mut metadata = message.metadata.take();
                self.report(&mut metadata);
                self.message(message);
                message.metadata = metadata;
            }
            StreamResponse::StatusUpdate(update) => {
                move_report(update.status.message.as_deref(), &mut update.metadata);
                self.report(&mut update.metadata);
                update.status.message.iter_mut().for_each(|message| self.message(message));
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.metadata(&mut update.metadata);
                self.artifact(&mut update.artifact);
            }
        }
        event
    }

    /// The last status of a task, with what the agent reports to have used for it.
    pub(super) fn last_status(&self, task: Task) -> Option<TaskStatusUpdateEvent> {
        let usage =
            task.metadata.as_ref().and_then(|said| said.entry::<Json>(USAGE_EXTENSION).ok().flatten());
        let event = StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: task.id,
            context_id: task.context_id.unwrap_or_else(|| "".into()),
            status: task.status,
            metadata: usage.and_then(|usage| JsonObject::single(USAGE_EXTENSION, &usage).ok()),
        });
        match self.scrub(event) {
            StreamResponse::StatusUpdate(update) => Some(update),
            _ => None,
        }
    }

    /// What the caller is told of an error; nothing of one that tells a lineage token.
    pub(super) fn told(&self, error: ClientError) -> Error {
        let details = match &error {
            ClientError::Peer(error) => serde_json::to_string(&error.details()).unwrap_or_default(),
            _ => String::new(),
        };
        match self.tells(&format!("{error:?}{details}")) {
            true => error.code().unwrap_or(ErrorCode::Internal).into(),
            false => told(error),
        }
    }

    pub(super) fn message(&self, message: &mut Message) {
        self.metadata(&mut message.metadata);
        message.extensions.retain(|uri| !is_ours_to_say(uri));
        message.parts.iter_mut().for_each(|part| self.part(part));
        message.extensions.iter_mut().for_each(|uri| self.text(uri));
        if self.tells(message.message_id.as_str()) {
            message.message_id = self.without_tokens(message.message_id.as_str()).into();
        }
        (message.task_id, message.context_id) = (None, None);
        message.reference_task_ids.clear();
    }

    fn artifact(&self, artifact: &mut Artifact) {
        self.metadata(&mut artifact.metadata);
        artifact.extensions.retain(|uri| !is_ours_to_say(uri));
        self.text(&mut artifact.name);
        self.text(&mut artifact.description);
        artifact.extensions.iter_mut().for_each(|uri| self.text(uri));
        if self.tells(artifact.artifact_id.as_str()) {
            artifact.artifact_id = self.without_tokens(artifact.artifact_id.as_str()).into();
        }
        artifact.parts.iter_mut().for_each(|part| self.part(part));
    }

    fn part(&self, part: &mut Part) {
        self.metadata(&mut part.metadata);
        match &mut part.content {
            Content::Text(text) | Content::Url(text) => self.text(text),
            Content::Data(data) if self.tells(data.as_str()) => {
                let clean = Json::parse(&self.without_tokens(data.as_str()));
                part.content = clean.map_or_else(|_| Content::Text(SCRUBBED.to_owned()), Content::Data);
            }
            Content::Raw(bytes) => {
                let tokens = self.tokens_in(bytes);
                if !tokens.is_empty() {
                    *bytes = replaced(bytes, &tokens).into();
                }
            }
            Content::Data(_) => {}
        }
        for said in [&mut part.filename, &mut part.media_type].into_iter().flatten() {
            if self.tells(said) {
                *said = self.without_tokens(said).into();
            }
        }
    }

    /// Metadata in which the agent may report what it used.
    fn report(&self, metadata: &mut Option<JsonObject>) {
        self.clean(metadata, |name| name == USAGE_EXTENSION);
    }

    fn metadata(&self, metadata: &mut Option<JsonObject>) {
        self.clean(metadata, |_| false);
    }

    fn clean(&self, metadata: &mut Option<JsonObject>, is_read: impl Fn(&str) -> bool) {
        let ours: Vec<String> = metadata.iter().flat_map(JsonObject::names).collect();
        for ours in ours.iter().filter(|name| is_ours_to_say(name) && !is_read(name)) {
            *metadata = metadata.take().and_then(|said| said.without(ours));
        }
        if let Some(said) = metadata.as_ref().filter(|said| self.tells(said.as_str())) {
            *metadata = JsonObject::parse(&self.without_tokens(said.as_str())).ok();
        }
    }

    fn text(&self, text: &mut String) {
        if self.tells(text) {
            *text = self.without_tokens(text);
        }
    }

    fn without_tokens(&self, text: &str) -> String {
        let clean = replaced(text.as_bytes(), &self.tokens_in(text.as_bytes()));
        String::from_utf8_lossy(&clean).into_owned()
    }
}

/// A report with the message of a status is one of the status, unless that has its own.
fn move_report(message: Option<&Message>, metadata: &mut Option<JsonObject>) {
    let report_in = |said: &JsonObject| said.entry::<Json>(USAGE_EXTENSION).ok().flatten();
    if metadata.as_ref().and_then(report_in).is_some() {
        return;
    }
    let said = message.and_then(|message| message.metadata.as_ref()).and_then(report_in);
    let Some(report) = said.and_then(|said| JsonObject::single(USAGE_EXTENSION, &said).ok()) else { return };
    *metadata = Some(match metadata.take() {
        Some(known) => known.merged(&report),
        None => report,
    });
}

fn replaced(text: &[u8], tokens: &[Range<usize>]) -> Vec<u8> {
    let (mut clean, mut from) = (Vec::with_capacity(text.len()), 0);
    for token in tokens {
        clean.extend_from_slice(&text[from..token.start]);
        clean.extend_from_slice(SCRUBBED.as_bytes());
        from = token.end;
    }
    clean.extend_from_slice(&text[from..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_out_wherever_it_stands() {
        let token = format!("{}.{}.{}", "h".repeat(30), "c".repeat(60), "s".repeat(43));
        let mut scrubber = Scrubber::default();
        scrubber.sent(&token);
        let other = "o".repeat(30) + &token[30..];
        let mut parts = vec![
            Part::text(format!("my token is {token}. Another is {other}")),
            Part::url(format!("https://x.example/?token={token}")),
            Part::data(
                Json::parse(&format!(r#"{{"headers":{{"chancery-lineage":"{token}"}},"n":1.0}}"#)).unwrap(),
            ),
            Part::raw(token.clone()),
            Part::text(format!("x{token}y _{token}_ -{token} {token}.x {token}{token}")),
            Part {
                filename: Some(token.clone().into()),
                media_type: Some(token.clone().into()),
                ..Part::raw([&[0xFF][..], token.as_bytes()].concat())
            },
        ];
        let metadata =
            format!(r#"{{"x":"Bearer {token}","urn:chancery:ext:lineage:v1":1,"URN:Chancery:mine":2}}"#);
        parts[0].metadata = JsonObject::parse(&metadata).ok();
        let message = Message { parts, message_id: token.clone().into(), ..Message::agent("") };
        let StreamResponse::Message(clean) = scrubber.scrub(StreamResponse::Message(message)) else {
            panic!("it stays a message")
        };
        let written = serde_json::to_string(&clean.parts).unwrap();
        assert!(!written.contains(&token) && !written.to_lowercase().contains("urn:chancery"), "{written}");
        assert_eq!(clean.message_id.as_str(), SCRUBBED);
        assert_eq!(written.matches(SCRUBBED).count(), 12, "{written}");
        assert!(written.contains(r#""n":1.0"#) && written.contains(&other), "{written}");
        assert_eq!(clean.parts[3], Part::raw(SCRUBBED));
        let Content::Raw(bytes) = &clean.parts[5].content else { panic!("it stays bytes") };
        assert_eq!(**bytes, [&[0xFF][..], SCRUBBED.as_bytes()].concat());
    }

    #[test]
    fn what_only_looks_like_tokens_is_looked_at_once() {
        let token = format!("{}.{}.{}", "h".repeat(36), "c".repeat(600), "s".repeat(43));
        let mut scrubber = Scrubber::default();
        scrubber.sent(&token);
        for alike in [".", "hhh.", &token[..650]] {
            let text = alike.repeat((4 << 20) / alike.len());
            assert!(scrubber.tokens_in(text.as_bytes()).is_empty());
        }
    }
}
