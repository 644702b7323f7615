//! The tasks of one agent: those that wait, and those that were given out and under which lease.
//!
//! A lease is a number of the store's clock, which never goes back, not even over a restart: so none is ever given twice, and
//! what an agent says under an old one can be told apart.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{Caller, Principal, TaskId};
use chancery_store::Store;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::wire::{TaskEvent, TaskResult, Withdrawn};
use crate::config::InboxSection;

/// How many words about a task may wait for its turn to take them.
const WORDS: usize = 16;

/// The tasks of one agent.
pub(super) struct Desk {
    pub(super) store: Arc<Store>,
    state: Mutex<State>,
    /// Rings when a task waits, or was withdrawn.
    bell: Notify,
}

#[derive(Default)]
struct State {
    limits: InboxSection,
    seats: HashMap<TaskId, Seat>,
    /// Those that nobody has, the oldest first.
    waiting: VecDeque<TaskId>,
    /// Those that were given out, by lease.
    leased: BTreeMap<u64, TaskId>,
    /// Tasks that were given out and need no more work, by the lease that they had.
    withdrawn: VecDeque<(u64, TaskId)>,
    last_lease: u64,
    /// The agent is no more.
    closed: bool,
}

struct Seat {
    principal: Principal,
    offer: Arc<dyn Fn(u64, u64) -> Bytes + Send + Sync>,
    lease: Option<Lease>,
    /// The agent has been given it, or may have been by an earlier process.
    was_given_out: bool,
    /// The agent has said what came of it.
    finished: bool,
    words: mpsc::Sender<Word>,
}

struct Lease {
    number: u64,
    until: Instant,
    /// The credential that it was given to.
    holder: Arc<str>,
}

/// Who comes for tasks: whose those may be, and the credential that a lease belongs to.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    realm: Arc<str>,
    credential: Arc<str>,
}

/// What the agent says about a task, and who waits for it to be taken.
pub(super) struct Word {
    pub(super) said: Said,
    pub(super) taken: oneshot::Sender<()>,
}

pub(super) enum Said {
    /// It has it.
    Taken,
    Events(Vec<TaskEvent>),
    Result(Box<TaskResult>),
}

/// A task's place at the desk, as long as its turn runs.
pub(super) struct Place {
    desk: Arc<Desk>,
    task: TaskId,
    pub(super) words: mpsc::Receiver<Word>,
}

/// What a reader is to be sent.
pub(super) enum Parcel {
    Task { lease: u64, data: Bytes },
    Withdrawn { data: Bytes },
}

/// Why nothing is heard of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    /// The task is not here, or not any more.
    Gone,
    /// Somebody else has it now, or it waits to be given out again.
    Late,
}

impl Desk {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, state: Mutex::default(), bell: Notify::new() }
    }

    /// Says to whoever reads that nothing more will come.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.bell.notify_waiters();
    }

    pub(super) fn limit(&self, limits: InboxSection) {
        self.state.lock().limits = limits;
    }

    /// Puts a task down; none if there is no room. The offer is what a reader is sent: made of the lease and its length.
    pub(super) fn put(
        self: &Arc<Self>,
        task: &TaskId,
        principal: &Principal,
        was_given_out: bool,
        offer: impl Fn(u64, u64) -> Bytes + Send + Sync + 'static,
    ) -> Option<Place> {
        let (words, heard) = mpsc::channel(WORDS);
        let seat = Seat {
            principal: principal.clone(),
            offer: Arc::new(offer),
            lease: None,
            was_given_out,
            finished: false,
            words,
        };
        let mut state = self.state.lock();
        if state.seats.len() >= state.limits.max_tasks {
            return None;
        }
        state.seats.insert(task.clone(), seat);
        state.waiting.push_back(task.clone());
        drop(state);
        self.bell.notify_waiters();
        Some(Place { desk: self.clone(), task: task.clone(), words: heard })
    }

    /// The next thing for a reader who has seen everything up to a number. Waits for it; none if there will be nothing more.
    pub(super) async fn next(&self, seen: &mut Seen) -> Option<Parcel> {
        loop {
            let rung = self.bell.notified();
            tokio::pin!(rung);
            // From here on no ring is missed.
            rung.as_mut().enable();
            let due = match self.look(seen) {
                Ok((parcel, written)) => {
                    // Nothing is given out before its turn has written that down.
                    if let Some(written) = written
                        && written.await.is_err()
                    {
                        continue;
                    }
                    return Some(parcel);
                }
                Err(_) if self.state.lock().closed => return None,
                Err(due) => due,
            };
            match due {
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, rung).await;
                }
                None => rung.await,
            }
        }
    }

    /// What there is for a reader; else when a lease ends next.
    fn look(&self, seen: &mut Seen) -> Result<(Parcel, Option<oneshot::Receiver<()>>), Option<Instant>> {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.take_back(now);
        seen.has.retain(|task, _| {
            state.seats.contains_key(task) || state.withdrawn.iter().any(|(_, withdrawn)| withdrawn == task)
        });
        if let Some((lease, task)) =
            state.withdrawn.iter().find(|(_, task)| seen.has.contains_key(task)).cloned()
        {
            state.withdrawn.retain(|(_, withdrawn)| *withdrawn != task);
            seen.has.remove(&task);
            let data = serde_json::to_vec(&Withdrawn { task_id: &task, lease }).unwrap_or_default();
            return Ok((Parcel::Withdrawn { data: data.into() }, None));
        }
        if let Some(after) = seen.resumes {
            // It may not have got what was sent last.
            let is_own = |(_, task): &(&u64, &TaskId)| {
                let lease = state.seats.get(*task).and_then(|seat| seat.lease.as_ref());
                lease.is_some_and(|lease| lease.holder == seen.reader.credential)
            };
            let missed =
                state.leased.range(after + 1..).find(is_own).map(|(lease, task)| (*lease, task.clone()));
            match missed {
                Some((lease, task)) => {
                    seen.resumes = Some(lease);
                    if let Some(seat) = state.seats.get(&task) {
                        let data = (seat.offer)(lease, state.limits.lease_ms);
                        seen.has.insert(task, lease);
                        return Ok((Parcel::Task { lease, data }, None));
                    }
                }
                None => seen.resumes = None,
            }
        }
        while let Some(task) = state.take_for(&seen.reader) {
            if let Some((lease, data, written)) = state.give(&task, &seen.reader, self.clock(), now) {
                seen.has.insert(task, lease);
                return Ok((Parcel::Task { lease, data }, written));
            }
        }
        Err(state.seats.values().filter_map(|seat| Some(seat.lease.as_ref()?.until)).min())
    }

    /// Hands on what the agent says about a task under a lease, and waits until it is taken.
    pub(super) async fn say(
        &self,
        reader: &Reader,
        task: &TaskId,
        lease: u64,
        said: Said,
    ) -> Result<(), Unheard> {
        let (taken, heard) = oneshot::channel();
        let words = {
            let now = Instant::now();
            let mut state = self.state.lock();
            state.take_back(now);
            let until = now + Duration::from_millis(state.limits.lease_ms);
            let seat = state.seats.get_mut(task).filter(|seat| reader.may_have(seat)).ok_or(Unheard::Gone)?;
            match &mut seat.lease {
                Some(held) if held.number == lease && held.holder == reader.credential => held.until = until,
                _ => return Err(Unheard::Late),
            }
            seat.finished |= matches!(said, Said::Result(_));
            seat.words.clone()
        };
        words.send(Word { said, taken }).await.map_err(|_| Unheard::Gone)?;
        heard.await.map_err(|_| Unheard::Gone)
    }

    /// Whether the agent has a task, or has had it.
    pub(super) fn was_given_out(&self, task: &TaskId) -> bool {
        self.state.lock().seats.get(task).is_none_or(|seat| seat.was_given_out)
    }

    /// Whose a task is that a reader may have.
    pub(super) fn principal(&self, reader: &Reader, task: &TaskId) -> Option<Principal> {
        let state = self.state.lock();
        state.seats.get(task).filter(|seat| reader.may_have(seat)).map(|seat| seat.principal.clone())
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.store.clock().millis().as_millis()).unwrap_or_default()
    }
}

/// What a reader has got.
pub(super) struct Seen {
    reader: Reader,
    /// The last lease that it says it has seen, until everything after it was sent again.
    resumes: Option<u64>,
    has: HashMap<TaskId, u64>,
}

impl Seen {
    /// Everything up to a lease; nothing, if it has seen none.
    pub(super) fn after(reader: Reader, last: Option<u64>) -> Self {
        Self { reader, resumes: last, has: HashMap::new() }
    }
}

impl Reader {
    /// Somebody who has shown a credential.
    pub(super) fn of(caller: &Caller) -> Self {
        let Caller { principal, identity } = caller;
        let credential = identity.key.as_ref().or(identity.agent_id.as_ref()).unwrap_or(&principal.id);
        Self { realm: principal.realm.clone(), credential: credential.clone() }
    }

    /// Whether a task is of its realm, or of a tenant of that.
    fn may_have(&self, seat: &Seat) -> bool {
        let below = seat.principal.realm.strip_prefix(&*self.realm);
        below.is_some_and(|below| below.is_empty() || below.starts_with('\0'))
    }
}

impl State {
    /// The task that has waited longest, of those that a reader may have.
    fn take_for(&mut self, reader: &Reader) -> Option<TaskId> {
        let seats = &self.seats;
        let is_for = |task: &TaskId| seats.get(task).is_some_and(|seat| reader.may_have(seat));
        let place = self.waiting.iter().position(is_for)?;
        self.waiting.remove(place)
    }

    /// Gives a task out. The first time its turn says when that is written down.
    fn give(
        &mut self,
        task: &TaskId,
        reader: &Reader,
        clock: u64,
        now: Instant,
    ) -> Option<(u64, Bytes, Option<oneshot::Receiver<()>>)> {
        let lease_ms = self.limits.lease_ms;
        let number = clock.max(self.last_lease + 1);
        let seat = self.seats.get_mut(task)?;
        let until = now + Duration::from_millis(lease_ms);
        seat.lease = Some(Lease { number, until, holder: reader.credential.clone() });
        let data = (seat.offer)(number, lease_ms);
        let (taken, written) = oneshot::channel();
        // A turn that is busy with words knows already that somebody has the task.
        let is_told = seat.words.try_send(Word { said: Said::Taken, taken }).is_ok();
        let is_first = !std::mem::replace(&mut seat.was_given_out, true);
        self.last_lease = number;
        self.leased.insert(number, task.clone());
        Some((number, data, (is_told && is_first).then_some(written)))
    }

    /// Has tasks wait again whose leases have ended.
    fn take_back(&mut self, now: Instant) {
        for (task, seat) in &mut self.seats {
            if let Some(lease) = seat.lease.take_if(|lease| lease.until <= now) {
                self.leased.remove(&lease.number);
                self.waiting.push_back(task.clone());
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.desk.state.lock();
        let Some(seat) = state.seats.remove(&self.task) else { return };
        if let Some(lease) = seat.lease {
            state.leased.remove(&lease.number);
            if !seat.finished {
                state.withdrawn.push_back((lease.number, self.task.clone()));
                let too_many = state.withdrawn.len().saturating_sub(state.limits.max_tasks);
                state.withdrawn.drain(..too_many);
            }
        } else {
            state.waiting.retain(|waiting| *waiting != self.task);
        }
        drop(state);
        self.desk.bell.notify_waiters();
    }
}
