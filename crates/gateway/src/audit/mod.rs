//! The audit log of a gateway: who was refused, and what operators did, each an entry of the chain in the store
//! ([ADR 0053](../../../../docs/adr/0053-audit-log.md)).
//!
//! A call that is denied writes nothing: it is counted here, and once a second what was counted is written.
//!
//! | file | holds |
//! |---|---|
//! | `tally` | refusals of one second, added up by who was refused why |
//! | `recorder` | the task that writes entries |
//! | `acts` | what commands do, on its way to the gateway |
//! | `retention` | removing old entries, and signing for it |

pub(crate) mod acts;
mod recorder;
mod retention;
mod tally;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{CallContext, Caller, Denied, Identity, Principal, RequestLabels};
use chancery_sdk::{request_labels, request_source};
use chancery_store::{AuditHash, AuditRecord};
use http::request::Parts;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::config::Config;
pub(crate) use recorder::{Recorder, RecorderEnd};
pub(crate) use retention::{signed_by, trusted_keys};
use tally::Tally;

/// Where what is to be written down is left.
#[derive(Default)]
pub(crate) struct Audit {
    tally: Mutex<Tally>,
    acts: Mutex<Vec<Act>>,
    /// There are acts.
    left: Notify,
}

/// The gateway has started, with this configuration.
pub(crate) fn started(config: &Config) -> AuditRecord {
    AuditRecord::new("system", "gateway.start")
        .detail("version", crate::VERSION)
        .detail("configuration", digest(config))
}

/// Tells one configuration from another: the SHA-256 of it as JSON. There are no secrets in it.
pub(crate) fn digest(config: &Config) -> String {
    let text = serde_json::to_vec(&serde_json::to_value(config).unwrap_or_default()).unwrap_or_default();
    AuditHash::of_bytes(&text).to_string()
}

/// Something that was done, and who waits for it to be on record.
struct Act {
    record: AuditRecord,
    told: Option<oneshot::Sender<Result<(), String>>>,
}

/// Where a request comes from, and what it says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) source: Option<IpAddr>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) trace: Option<TraceDigits>,
    pub(crate) labels: Option<Arc<RequestLabels>>,
}

/// The trace id in a `traceparent`.
pub(crate) type TraceDigits = [u8; 32];

/// How many acts may wait to be written. There are not so many operators.
const WAITING: usize = 4096;
/// How long an operator waits for an act to be on record.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Audit ===

impl Audit {
    /// A call that a gate refused.
    pub(crate) fn denied(&self, who: &Principal, agent: &Arc<str>, origin: &Origin, denied: &Denied) {
        self.tally.lock().denied(Some(who), Some(agent), origin, denied);
    }

    /// A request that was refused before it was known what it asks for.
    pub(crate) fn turned_away(&self, head: &Parts, caller: Option<&Caller>, denied: &Denied) {
        let origin = Origin::of_head(head, caller.map(|caller| &*caller.identity));
        self.tally.lock().denied(caller.map(|caller| &caller.principal), None, &origin, denied);
    }

    /// A credential that did not let anybody in.
    pub(crate) fn refused(&self, origin: &Origin, reason: &'static str) {
        self.tally.lock().refused(origin, reason);
    }

    /// Something that was done; nobody waits for it to be written.
    pub(crate) fn note(&self, record: AuditRecord) {
        self.leave(record, None);
    }

    /// Something that an operator did. Says why it is not on record, if it is not yet.
    pub(crate) async fn act(&self, record: AuditRecord) -> Result<(), String> {
        let (told, answer) = oneshot::channel();
        self.leave(record, Some(told));
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("nobody writes the audit log any more".to_owned()),
            Err(_) => Err(format!("the store has not written it within {PATIENCE:?}")),
        }
    }

    fn leave(&self, record: AuditRecord, told: Option<oneshot::Sender<Result<(), String>>>) {
        let mut acts = self.acts.lock();
        if acts.len() < WAITING {
            acts.push(Act { record, told });
        } else {
            tracing::error!(
                action = record.action,
                "too much waits for the audit log; `{}` is not on record",
                record.action
            );
        }
        drop(acts);
        self.left.notify_one();
    }
}

// === impl Origin ===

impl Origin {
    /// Of a call.
    pub(crate) fn of(context: &CallContext) -> Self {
        Self {
            source: context.source,
            key: shown_key(&context.identity),
            trace: context.traceparent.as_deref().and_then(trace_digits),
            labels: context.labels.clone(),
        }
    }

    /// Of a request of which only the head is known.
    pub(crate) fn of_head(head: &Parts, identity: Option<&Identity>) -> Self {
        let trace = head.headers.get("traceparent").and_then(|value| value.to_str().ok());
        Self {
            source: request_source(head),
            key: identity.and_then(shown_key),
            trace: trace.and_then(trace_digits),
            labels: request_labels(&head.headers),
        }
    }

    /// Writes it into an entry.
    pub(crate) fn put_to(&self, record: &mut AuditRecord) {
        record.source = self.source.map(|source| source.to_string());
        record.key = self.key.as_deref().map(str::to_owned);
        record.trace = self.trace.as_ref().map(|digits| String::from_utf8_lossy(digits).into_owned());
        let labels = self.labels.as_deref();
        record.request_id = labels.and_then(|labels| labels.request_id.as_deref()).map(str::to_owned);
        record.agent_id = labels.and_then(|labels| labels.agent_id.as_deref()).map(str::to_owned);
    }
}

fn shown_key(identity: &Identity) -> Option<Arc<str>> {
    identity.key.clone().or_else(|| identity.agent_id.clone())
}

/// The second part of `00-TRACE-SPAN-FLAGS`.
fn trace_digits(traceparent: &str) -> Option<TraceDigits> {
    let digits: TraceDigits = traceparent.as_bytes().get(3..35)?.try_into().ok()?;
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    digits.iter().all(is_hex).then_some(digits)
}
