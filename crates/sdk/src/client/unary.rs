//! Calls with one answer: tried again where that is safe, within the time that there is.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chancery_protocol::{
    CallContext, Error, ErrorCode, JsonObject, LINEAGE_EXTENSION, Operation, Request, TaskId,
};
use http::Response;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::connections::AnswerBody;
use super::error::ClientError;
use super::faults::{Fault, Faults};
use super::origin::Origin;
use super::patience::Patience;
use super::peer::{Interface, Peer};
use super::replied::Expected;
use super::settings::Settings;
use super::transport::{Outgoing, Terms, whole_with_trailers};
use super::watch::Watch;
use super::wire::Wire;
use super::{Client, retry};

/// What a call says besides its request, and for how long it may take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) terms: Terms,
    pub(crate) deadline: Option<std::time::Instant>,
    /// How often the call may be made again; none for the usual.
    pub(crate) retries: Option<u32>,
    /// A message that the runtime has written down: it brings its own idempotency key, and has until its deadline.
    pub(crate) is_dispatch: bool,
    pub(crate) watch: Watch,
}

/// An answer that has begun to come.
pub(crate) struct Answer<'a> {
    pub(crate) wire: Wire,
    pub(crate) operation: Operation,
    /// The id of the request, by JSON-RPC.
    pub(crate) id: u64,
    pub(crate) origin: &'a Origin,
    pub(crate) response: Response<AnswerBody>,
    pub(crate) faults: &'a Arc<Faults>,
    /// What went along, and is not to be repeated.
    pub(crate) lineage: Option<&'a str>,
}

/// What is made of an answer.
pub(crate) trait Finish: Sync {
    type Output: Send;

    fn finish(
        &self,
        answer: Answer<'_>,
        settings: &Settings,
    ) -> impl Future<Output = Result<Self::Output, ClientError>> + Send;
}

/// The name that a new task gets, at every try the same.
struct Begins(TaskId);

/// Reads one value.
struct Typed<T> {
    /// How much of the history was asked for.
    history_length: Option<i32>,
    expected: PhantomData<fn() -> T>,
}

impl<T: Expected> Finish for Typed<T> {
    type Output = T;

    async fn finish(&self, answer: Answer<'_>, settings: &Settings) -> Result<T, ClientError> {
        let (mut head, body) = answer.response.into_parts();
        let (body, trailers) = whole_with_trailers(body, answer.origin, settings.response_bytes).await?;
        if answer.wire.is_grpc() {
            head.headers.extend(trailers.unwrap_or_default());
        }
        let Answer { wire, operation, id, faults, lineage, .. } = answer;
        let replied = wire.decode(operation, id, &head, &body).or_else(|error| {
            if !matches!(error, ClientError::BadAnswer(_)) {
                return Err(error);
            }
            let error = faults.secrets(lineage).scrubbed(error);
            let replied = wire.decode_older_form(operation, id, &head, &body);
            let fault = if replied.is_some() { Fault::OlderForm } else { Fault::UnreadableAnswer };
            faults.tell(fault, operation, &error, &body);
            replied.ok_or(error)
        })?;
        replied.with_history(self.history_length).expect()
    }
}

impl Begins {
    /// Nothing if the request begins no task, or the peer names its tasks itself.
    fn of(request: &Request, peer: &Peer) -> Option<Self> {
        let (Request::SendMessage(said) | Request::SendStreamingMessage(said)) = request else { return None };
        let is_ours = peer.interfaces.iter().any(|interface| interface.wire.names_tasks());
        (is_ours && said.message.task_id.is_none()).then(|| Self(TaskId::generate()))
    }
}

impl Options {
    pub(crate) fn of(context: Box<CallContext>) -> Self {
        let context = *context;
        let terms = Terms {
            extensions: context.extensions,
            idempotency_key: context.idempotency_key,
            last_event: context.last_event,
            traceparent: context.traceparent,
            lineage: context.lineage,
            until: None,
            conditions: Vec::new(),
        };
        let (deadline, watch) = (context.deadline, Watch(context.peer_watch));
        Self { terms, deadline, retries: None, is_dispatch: false, watch }
    }
}

impl Client {
    pub(crate) async fn ask<T: Expected>(
        &self,
        mut request: Request,
        mut options: Options,
    ) -> Result<T, ClientError> {
        let typed = Typed { history_length: request.history_length(), expected: PhantomData };
        self.attempts(&mut request, &mut options, &typed).await
    }

    /// Makes a call, again if need be, and tells who watches the peer what became of it. The request is addressed to whoever
    /// is asked, and the options say until when it is waited for: both stay where they are, since every future on the way
    /// would carry room for them.
    pub(crate) async fn attempts<F: Finish>(
        &self,
        request: &mut Request,
        options: &mut Options,
        finish: &F,
    ) -> Result<F::Output, ClientError> {
        let outcome = self.tries(request, options, finish).await;
        match &outcome {
            // What has been opened has yet to be heard.
            Ok(_) if request.operation().is_streaming() => {}
            Ok(_) => {
                options.watch.heard();
                options.watch.answered();
            }
            Err(error) => options.watch.failed(error, self.settings().request_timeout),
        }
        outcome
    }

    async fn tries<F: Finish>(
        &self,
        request: &mut Request,
        options: &mut Options,
        finish: &F,
    ) -> Result<F::Output, ClientError> {
        // Looked at once: at so many calls, each look at the clock shows.
        let now = Instant::now();
        let limit = self.time_for(request, now, options);
        let patience = Patience::of(request.operation().method(), now, limit);
        let peer = match self.known_peer(now) {
            Some(peer) => peer,
            None => Box::pin(patience.wait_for(self.peer())).await??,
        };
        // A stream goes on after it has been opened.
        options.terms.until = match request.operation().is_streaming() {
            true => options.deadline.map(Instant::from_std),
            false => Some(patience.until),
        };
        tell_descent(&peer, request, &mut options.terms);
        let safe = is_safe(&peer, request, options, self.settings());
        let retries = options.retries.unwrap_or(self.settings().retries);
        self.transport().budget.earn();
        let begins = Begins::of(request, &peer);
        let (mut failed, mut at) = (0, peer.understood.load(Ordering::Relaxed));
        let mut was_passed_over = false;
        let mut first_seen = None;
        while let Some(interface) = peer.interfaces.get(at % peer.interfaces.len().max(1)) {
            address(request, interface, begins.as_ref());
            let error = match self.attempt(interface, request, &options.terms, patience, finish).await {
                Ok(answer) => {
                    if was_passed_over && begins_or_continues(request) {
                        peer.understood.store(at % peer.interfaces.len(), Ordering::Relaxed);
                    }
                    return Ok(answer);
                }
                Err(late @ ClientError::TimedOut { .. }) => return Err(late),
                Err(error) => error,
            };
            let never_sent = error.was_never_sent();
            // Whoever cannot be reached one way may be reached another.
            let unknown = interface.wire.was_not_understood(request.operation(), &error);
            // A peer that does the work and then denies it gets a message twice, and not once for each line of its card.
            let is_given_up = unknown && was_passed_over && begins_or_continues(request);
            was_passed_over |= unknown;
            self.tell_other_version(unknown, request, &error);
            at += match unknown && begins_or_continues(request) {
                true => peer.steps_to_other_version(at),
                false => usize::from(unknown || never_sent),
            };
            let has_other = at < peer.interfaces.len() && !is_given_up;
            if has_other && (unknown || matches!(error, ClientError::Refused { .. })) {
                first_seen = first_seen.or((!never_sent).then_some(error));
                continue;
            }
            if unknown {
                return Err(not_listed(request, error));
            }
            failed += 1;
            match retry::pause(&error, safe, failed, retries) {
                Some(pause) if Instant::now() + pause < patience.until && self.transport().budget.spend() => {
                    sleep(pause).await;
                    first_seen = first_seen.or((!never_sent).then_some(error));
                }
                // That the last try was not sent says nothing of those before it.
                _ => return Err(first_seen.filter(|_| never_sent).unwrap_or(error)),
            }
        }
        Err(ClientError::NoInterface { offered: Vec::new() })
    }

    /// Tells that a peer speaks another version than its card says. Older versions have no list of tasks, which is no fault.
    fn tell_other_version(&self, unknown: bool, request: &Request, error: &ClientError) {
        let operation = request.operation();
        if unknown && operation != Operation::ListTasks {
            self.faults().tell(Fault::OtherVersion, operation, error, b"");
        }
    }

    async fn attempt<F: Finish>(
        &self,
        interface: &Interface,
        request: &Request,
        terms: &Terms,
        patience: Patience,
        finish: &F,
    ) -> Result<F::Output, ClientError> {
        let id = self.next_id();
        let (wire, operation) = (interface.wire, request.operation());
        let outgoing = wire.encode(interface, id, request)?;
        let failed = match self.exchange((wire, operation, id), &outgoing, (terms, patience), finish).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(outgoing) = wire.encode_otherwise(interface, request, &failed) else { return Err(failed) };
        let outgoing = Box::new(outgoing?);
        let second =
            Box::pin(self.exchange((wire, operation, id), &outgoing, (terms, patience), finish)).await;
        second.map_err(|second| match second {
            ClientError::Status { .. } => failed,
            second => second,
        })
    }

    async fn exchange<F: Finish>(
        &self,
        (wire, operation, id): (Wire, Operation, u64),
        outgoing: &Outgoing,
        (terms, patience): (&Terms, Patience),
        finish: &F,
    ) -> Result<F::Output, ClientError> {
        let (response, place) = self.transport().exchange(outgoing, terms, Some(patience)).await?;
        let faults = &self.0.faults;
        let lineage = terms.lineage.as_deref();
        let answer = Answer { wire, operation, id, origin: &outgoing.origin, response, faults, lineage };
        let outcome = finish.finish(answer, self.settings()).await;
        let outcome = outcome.map_err(|error| faults.secrets(lineage).scrubbed(error));
        drop(place);
        let is_refused = outcome.as_ref().is_err_and(ClientError::asks_for_credential);
        if !self.0.is_refused.swap(is_refused, Ordering::Relaxed) && is_refused {
            let agent = self.faults().peer();
            tracing::error!(
                agent,
                "agent {agent} refuses this server's credential (HTTP 401); set or change it"
            );
        }
        outcome
    }

    /// A send that waits for its outcome has until its deadline; nothing else needs to be waited for that long.
    fn time_for(&self, request: &Request, now: Instant, options: &Options) -> Duration {
        let usual = self.settings().request_timeout;
        let Some(deadline) = options.deadline else { return usual };
        let left = deadline.saturating_duration_since(now.into_std());
        let waits = matches!(request, Request::SendMessage(request) if options.is_dispatch
            || request.configuration.as_ref().is_none_or(|wanted| !wanted.return_immediately));
        if waits { left } else { left.min(usual) }
    }
}

/// Says on whose behalf a message is sent also in its metadata, if the peer's card says that it reads that.
fn tell_descent(peer: &Peer, request: &mut Request, terms: &mut Terms) {
    let (Request::SendMessage(request) | Request::SendStreamingMessage(request)) = request else { return };
    let Some(token) = &terms.lineage else { return };
    let declared = &peer.card.capabilities.extensions;
    if !declared.iter().any(|extension| extension.uri == LINEAGE_EXTENSION) {
        return;
    }
    let carried = BTreeMap::from([("token", token)]);
    let Ok(carried) = JsonObject::single(LINEAGE_EXTENSION, &carried) else { return };
    let metadata = &mut request.message.metadata;
    *metadata = Some(match metadata.take() {
        Some(known) => known.merged(&carried),
        None => carried,
    });
    if !terms.extensions.iter().any(|uri| uri == LINEAGE_EXTENSION) {
        terms.extensions.push(LINEAGE_EXTENSION.to_owned());
    }
}

/// Whether the call may be repeated although it may have arrived. A send may be if the peer runs it only once, for
/// which it gets a key; with a key, our agents open a task for what they would otherwise answer directly, so one
/// that will not be repeated gets none.
pub(crate) fn is_safe(peer: &Peer, request: &Request, options: &mut Options, settings: &Settings) -> bool {
    let most = match request {
        Request::SendMessage(_) => settings.retries,
        Request::SendStreamingMessage(_) => settings.retries.max(settings.resumes),
        other => return other.operation().is_idempotent(),
    };
    let terms = &mut options.terms;
    if peer.honours_keys && most > 0 && !options.is_dispatch {
        terms.idempotency_key.get_or_insert_with(|| Uuid::now_v7().to_string());
    }
    peer.honours_keys && terms.idempotency_key.is_some()
}

/// Every version knows messages. Who does not know one in some version does not speak that version at all.
fn begins_or_continues(request: &Request) -> bool {
    matches!(request, Request::SendMessage(_) | Request::SendStreamingMessage(_))
}

/// Older versions have no list of tasks, which is no mistake of ours.
fn not_listed(request: &Request, error: ClientError) -> ClientError {
    match request {
        Request::ListTasks(_) => {
            let text = "This agent does not list its tasks";
            ClientError::Peer(Error::with_message(ErrorCode::UnsupportedOperation, text))
        }
        _ => error,
    }
}

/// Names the tenant that the interface asks for, and no other: in the request, or by HTTP+JSON in the path. Names a new
/// task, if that is for us to do there.
fn address(request: &mut Request, interface: &Interface, begins: Option<&Begins>) {
    let tenant = if interface.wire.names_tenant() { interface.tenant.as_str() } else { "" };
    tenant.clone_into(request.tenant_mut());
    if let Some(Begins(name)) = begins
        && let Request::SendMessage(said) | Request::SendStreamingMessage(said) = request
    {
        said.message.task_id = interface.wire.names_tasks().then(|| name.clone());
    }
}
