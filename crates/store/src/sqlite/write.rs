//! A batch on its way to the writer: all that can be made ready on the caller's thread has been.

use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::{
    ContextId, Event, Json, KeptTask, Message, PushConfigId, Task, TaskId, TaskPushNotificationConfig,
    Version, write_json,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::edge::EdgeRow;
use super::entry::Entry;
use super::place::Rank;
use super::sum;
use super::writer::{Lead, Word};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::fold::{Standing, fold_all, nothing};
use crate::limits::TaskLimits;
use crate::outbox::Registration;
use crate::packed::row_of;
use crate::record::{Admission, Batch, Change, Scope, split};
use crate::reserved::ReservationChange;

#[derive(Debug)]
pub(super) struct Write {
    pub(super) scope: Scope,
    pub(super) id: TaskId,
    pub(super) admission: Option<Admission>,
    pub(super) state: Option<Json>,
    pub(super) push: Option<Push>,
    pub(super) edge: Option<EdgeRow>,
    /// The task was a reserved call until now.
    pub(super) opens_reserved: bool,
    pub(super) body: Body,
    pub(super) reply: oneshot::Sender<Word>,
    /// Room in the queue.
    pub(super) _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) enum Body {
    /// A task that begins and ends in here: it only has to be new.
    Life(Life),
    /// Events of a task, which the first of them may create.
    Events { batch: Box<Batch>, rows: Rows, rank: Option<Rank> },
    /// No task: a reserved call.
    Reservation(ReservationChange),
    /// No task at all, only an edge.
    Nothing,
}

/// The whole life of a task, checked and folded.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) context: Option<ContextId>,
    pub(super) rank: Rank,
    pub(super) fold: Fold,
}

/// A task as the database keeps it when it has no events.
#[derive(Debug)]
pub(super) struct Fold {
    /// The number of its last event.
    pub(super) number: u64,
    pub(super) sum: u32,
    pub(super) json: Arc<[u8]>,
}

/// The events of a batch as the database keeps them.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) sum: u32,
    /// Packed, if there is more than one.
    pub(super) json: Bytes,
    pub(super) received: Option<Vec<u8>>,
}

/// What the writer says of a batch that it has committed.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// The number of the last event before it.
    pub(super) before: u64,
    /// The task, if it is among those that are being written to.
    pub(super) entry: Option<Arc<Entry>>,
    /// Whether there is something to deliver.
    pub(super) push: bool,
}

/// A push notification configuration as the database keeps it.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) id: PushConfigId,
    pub(super) json: Vec<u8>,
    pub(super) version: Version,
}

impl Write {
    /// Tells whoever waits for it that they lead. Gives the lead back if nobody does.
    pub(super) fn appoint(&mut self, lead: Lead) -> Option<Lead> {
        let (reply, answer) = oneshot::channel();
        let told = std::mem::replace(&mut self.reply, reply).send(Word::Lead(lead, answer));
        match told {
            Err(Word::Lead(lead, _)) => Some(lead),
            _ => None,
        }
    }

    pub(super) fn answer(reply: oneshot::Sender<Word>, outcome: Result<Committed, StoreError>) {
        // Whoever asked may be gone.
        let _ = reply.send(Word::Outcome(outcome));
    }
}

/// What the caller keeps of a batch until it is committed.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) events: Vec<Event>,
    pub(super) length: u64,
    /// The task, if the batch is its whole life.
    pub(super) task: Option<KeptTask>,
}

/// Makes a batch ready: its JSON, and its fold if it is a whole life.
pub(super) fn ready(
    id: &TaskId,
    mut batch: Box<Batch>,
    limits: &TaskLimits,
    clock: &Clock,
) -> Result<(Body, Kept), StoreError> {
    let length = batch.len() as u64;
    if batch.is_whole_life() && Standing::of_nothing(id).check(&batch, limits).is_ok() {
        let mut task = nothing(id);
        fold_all(&mut task, batch.take_changes());
        let fold = Fold::of(&task, length)?;
        return Ok(ended(id, task.context_id, Rank::of_life(&task.status, clock), fold));
    }
    let (json, ends) = batch.encode_joined()?;
    let events = split(&json, &ends);
    let rows = Rows::new(row_of(&json, &ends), received(&batch)?);
    let rank = batch.last_status().map(|status| Rank::of(status, clock));
    Ok((Body::Events { batch, rows, rank }, Kept { events, length, task: None }))
}

/// The whole life of a task.
fn ended(id: &TaskId, context: Option<ContextId>, rank: Rank, fold: Fold) -> (Body, Kept) {
    let task = KeptTask::from_json(id.clone(), rank.state, fold.json.clone());
    let kept = Kept { events: Vec::new(), length: fold.number, task: Some(task) };
    (Body::Life(Life { context, rank, fold }), kept)
}

/// The messages that the events do not show, each with the place of its event.
fn received(batch: &Batch) -> Result<Option<Vec<u8>>, StoreError> {
    let mut messages: Vec<(usize, &Message)> = Vec::new();
    for (index, change) in batch.changes().iter().enumerate() {
        if let Change::Status(_, said) = change {
            messages.extend(said.iter().map(|message| (index, message)));
        }
    }
    Ok(if messages.is_empty() { None } else { Some(serde_json::to_vec(&messages)?) })
}

impl Push {
    /// Gives the configuration back with an id.
    pub(super) fn new(registration: Registration) -> serde_json::Result<(TaskPushNotificationConfig, Self)> {
        let Registration { mut config, version } = registration;
        let id = config.id.get_or_insert_with(PushConfigId::generate).clone();
        let json = serde_json::to_vec(&config)?;
        Ok((config, Self { id, json, version }))
    }
}

impl Fold {
    pub(super) fn of(task: &Task, number: u64) -> serde_json::Result<Self> {
        let mut json = Vec::with_capacity(1024);
        write_json(&mut json, task)?;
        Ok(Self { number, sum: sum::of(&[&json]), json: json.into() })
    }
}

impl Rows {
    fn new(json: Bytes, received: Option<Vec<u8>>) -> Self {
        let sum = Self::sum(&json, None, received.as_deref());
        Self { sum, json, received }
    }

    /// The checksum of a row.
    pub(super) fn sum(json: &[u8], ends: Option<&[u8]>, received: Option<&[u8]>) -> u32 {
        sum::of(&[json, ends.unwrap_or_default(), received.unwrap_or_default()])
    }
}

impl Body {
    /// About how many bytes it takes in the queue.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Life(life) => life.fold.json.len(),
            Self::Events { batch, .. } => batch.bytes(),
            Self::Reservation(ReservationChange::Put(json, _) | ReservationChange::Answer(json, _)) => {
                json.as_str().len()
            }
            Self::Reservation(ReservationChange::Release(_)) | Self::Nothing => 0,
        }
    }
}
