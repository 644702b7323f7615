//! A group of batches in one transaction. Each is checked for itself and refused for itself; what the disk
//! refuses, it refuses of all of them.

use std::sync::Arc;

use chancery_protocol::{ContextId, TaskId};
use rusqlite::Connection;

use super::Desk;
use super::facts::Facts;
use super::rows::{self, NewTask};
use crate::error::StoreError;
use crate::fold::{Standing, nothing};
use crate::outbox::check_count;
use crate::record::{Admission, Batch, Scope, Snapshot};
use crate::reserved::ReservationChange;
use crate::sqlite::entry::{Entry, Name};
use crate::sqlite::failure::{is_of_one_batch, unavailable};
use crate::sqlite::load;
use crate::sqlite::place::{MOST_EVENTS, Rank, kept_context};
use crate::sqlite::reserved;
use crate::sqlite::write::{Body, Committed, Fold, Life, Push, Rows, Write};

/// What a batch has done, to be shown once it is committed.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// The number of the last event before it.
    before: u64,
    /// Which of the tasks that are being written to, if it is one.
    name: Option<Name>,
    ends: bool,
    /// Whether there is something to deliver.
    push: bool,
}

/// What a batch has done, or why it may not.
type Outcome = Result<Effect, StoreError>;

/// Why a batch is not written.
pub(super) enum Refusal {
    /// It may not be.
    Own(StoreError),
    /// It cannot be.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Own(error)
    }
}

const WHAT: &str = "write to the store";

impl Desk {
    /// Commits a group and answers each of its batches.
    pub(super) fn commit(&mut self, mut writes: Vec<Write>) {
        // Until all is shown: whoever passes the gate after a look at the database finds it at hand, too.
        let gate = self.gate.clone();
        let _writing = gate.lock();
        loop {
            match self.try_commit(&writes) {
                Ok(outcomes) => {
                    self.recovered();
                    for (write, outcome) in writes.into_iter().zip(outcomes) {
                        self.show(write, outcome);
                    }
                    return;
                }
                // Without the one that cannot be written the others may be.
                Err((Some(place), error)) if is_of_one_batch(&error) => {
                    let write = writes.remove(place);
                    Write::answer(write.reply, Err(unavailable(WHAT, &error)));
                }
                Err((_, error)) => {
                    self.failed(&error);
                    for write in writes {
                        Write::answer(write.reply, Err(unavailable(WHAT, &error)));
                    }
                    return;
                }
            }
        }
    }

    /// What each batch did or why it is refused; or why none is committed, and which one is to blame if one is.
    fn try_commit(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, (Option<usize>, rusqlite::Error)> {
        let outcome = self.begin().map_err(|error| (None, error)).and_then(|()| {
            let mut outcomes = Vec::with_capacity(writes.len());
            for write in writes {
                outcomes.push(match self.write(write) {
                    Ok(effect) => Ok(effect),
                    Err(Refusal::Own(error)) => Err(error),
                    Err(Refusal::Sql(error)) => return Err((Some(outcomes.len()), error)),
                });
            }
            self.finish().map_err(|error| (None, error))?;
            Ok(outcomes)
        });
        if outcome.is_err() {
            self.roll_back();
        }
        outcome
    }

    fn write(&mut self, write: &Write) -> Result<Effect, Refusal> {
        let effect = self.write_body(write)?;
        if let Some(edge) = &write.edge {
            self.put_edge(edge)?;
        }
        Ok(effect)
    }

    fn write_body(&mut self, write: &Write) -> Result<Effect, Refusal> {
        let creates = match &write.body {
            Body::Life(_) => true,
            Body::Events { batch, .. } => batch.creates(),
            Body::Reservation(change) => return self.write_reservation(write, change),
            Body::Nothing => return Ok(Effect::default()),
        };
        let not_found = || StoreError::NotFound { id: write.id.clone() };
        let scope = if creates {
            self.scope_or_new(&write.scope)?
        } else {
            self.scope(&write.scope)?.ok_or_else(not_found)?
        };
        if let Some(admission) = &write.admission {
            check_admission(&self.connection, scope, admission)?;
        }
        let (task, effect) = match &write.body {
            Body::Life(Life { context, rank, fold }) => {
                let task = self.begin_task(&write.id, scope, context.as_ref(), *rank, Some(fold))?;
                (task, Effect { ends: true, ..Effect::default() })
            }
            Body::Events { batch, rows, rank } => {
                self.write_events((scope, &write.id), batch, rows, *rank, write.push.as_ref())?
            }
            Body::Reservation(_) | Body::Nothing => return Ok(Effect::default()),
        };
        if write.opens_reserved {
            reserved::remove(&self.connection, scope, &write.id)?;
        }
        if let Some(state) = &write.state {
            rows::put_state(&self.connection, task, state.as_str())?;
        }
        if let Some(admission) = &write.admission {
            let now = self.clock.now().as_millis();
            rows::insert_admission(&self.connection, scope, admission, &write.id, now)?;
        }
        Ok(effect)
    }

    fn write_reservation(&mut self, write: &Write, change: &ReservationChange) -> Result<Effect, Refusal> {
        let scope = self.scope_or_new(&write.scope)?;
        if let ReservationChange::Put(_, Some(admission)) = change {
            check_admission(&self.connection, scope, admission)?;
            let now = self.clock.now().as_millis();
            rows::insert_admission(&self.connection, scope, admission, &write.id, now)?;
        }
        reserved::write_change(&self.connection, (scope, &write.id), change)?;
        Ok(Effect::default())
    }

    fn write_events(
        &mut self,
        (scope, id): (i64, &TaskId),
        batch: &Batch,
        rows: &Rows,
        rank: Option<Rank>,
        push: Option<&Push>,
    ) -> Result<(i64, Effect), Refusal> {
        let name = (scope, id.clone());
        let mut was = None;
        if self.ledger.find(&name).is_none() {
            was = load::find(&self.connection, scope, id)?;
            match &was {
                Some(found) if found.rank.state.is_terminal() => {}
                Some(found) => self.load(&name, found)?,
                None if batch.creates() => {
                    Standing::of_nothing(id).check(batch, &self.limits.task)?;
                    return self.create(name, batch, rows, rank, push);
                }
                None => return Err(StoreError::NotFound { id: id.clone() }.into()),
            }
        }
        let Some(facts) = self.ledger.find(&name) else {
            // It has ended and is not at hand: it takes no event, but a value of the agent's state.
            let Some(found) = was else { return Err(StoreError::NotFound { id: id.clone() }.into()) };
            Facts::ended(found.task, found.rank.state).standing(id).check(batch, &self.limits.task)?;
            let number = load::last_number(&self.connection, &found)?;
            if let Some(push) = push {
                self.check_push_count(found.task, id, push)?;
            }
            let push = self.write_push(found.task, push, (number, number), false)?;
            return Ok((found.task, Effect { before: 0, name: None, ends: false, push }));
        };
        facts.standing(id).check(batch, &self.limits.task)?;
        let (task, before, state) = (facts.task, facts.now.number, facts.now.state);
        let has_pushes = facts.now.pushes;
        if before + batch.len() as u64 > MOST_EVENTS {
            let limit = usize::try_from(MOST_EVENTS).unwrap_or(usize::MAX);
            return Err(StoreError::TaskFull { id: id.clone(), what: "events", limit }.into());
        }
        if let Some(push) = push {
            self.check_push_count(task, id, push)?;
        }
        if let Some(rank) = rank {
            rows::move_task(&self.connection, task, rank)?;
            self.counts.step(scope, state, rank.state);
        }
        if !batch.is_empty() {
            rows::insert_events(&self.connection, (task, before), batch.len(), batch.bytes(), rows)?;
        }
        self.ledger.advance(&name, batch);
        let mut pending = false;
        if has_pushes || push.is_some() {
            let numbers = (before, before + batch.len() as u64);
            pending = self.write_push(task, push, numbers, batch.ends())?;
        }
        if push.is_some() {
            self.ledger.has_pushes(&name);
        }
        Ok((task, Effect { before, name: Some(name), ends: batch.ends(), push: pending }))
    }

    /// Registers what the batch brings, which is sent all of the batch; and tells all that there is more.
    fn write_push(
        &mut self,
        task: i64,
        push: Option<&Push>,
        (before, number): (u64, u64),
        ends: bool,
    ) -> rusqlite::Result<bool> {
        if let Some(push) = push {
            self.put_push(task, push, before, number)?;
        }
        self.advance_pushes(task, number, ends)
    }

    fn create(
        &mut self,
        name: Name,
        batch: &Batch,
        rows: &Rows,
        rank: Option<Rank>,
        push: Option<&Push>,
    ) -> Result<(i64, Effect), Refusal> {
        if push.is_some() {
            check_count(&name.1, 1, &self.limits.task)?;
        }
        let rank = rank.unwrap_or_else(|| Rank::of(&nothing(&name.1).status, &self.clock));
        let task = self.begin_task(&name.1, name.0, batch.context_id(), rank, None)?;
        rows::insert_events(&self.connection, (task, 0), batch.len(), batch.bytes(), rows)?;
        self.ledger.begin(name.clone(), Facts::new(task));
        self.ledger.advance(&name, batch);
        let mut pending = false;
        if push.is_some() {
            pending = self.write_push(task, push, (0, batch.len() as u64), batch.ends())?;
            self.ledger.has_pushes(&name);
        }
        Ok((task, Effect { before: 0, name: Some(name), ends: batch.ends(), push: pending }))
    }

    fn begin_task(
        &mut self,
        id: &TaskId,
        scope: i64,
        context: Option<&ContextId>,
        rank: Rank,
        fold: Option<&Fold>,
    ) -> Result<i64, Refusal> {
        // Taken even if the transaction fails: no number is used twice.
        let task = self.next_task;
        self.next_task += 1;
        let new = NewTask { task, scope, id, context: kept_context(id, context), rank, fold };
        if !new.insert(&self.connection)? {
            return Err(StoreError::Exists { id: id.clone() }.into());
        }
        self.counts.begin(scope, rank);
        Ok(task)
    }

    fn scope_or_new(&mut self, scope: &Scope) -> rusqlite::Result<i64> {
        match self.scope(scope)? {
            Some(number) => Ok(number),
            None => self.begin_scope(scope),
        }
    }

    pub(super) fn scope(&mut self, scope: &Scope) -> rusqlite::Result<Option<i64>> {
        if let Some(number) = self.scopes.find(scope) {
            return Ok(Some(number));
        }
        if let Some((_, number)) = self.fresh_scopes.iter().find(|(fresh, _)| fresh == scope) {
            return Ok(Some(*number));
        }
        let number = load::scope(&self.connection, scope)?;
        self.fresh_scopes.extend(number.map(|number| (scope.clone(), number)));
        Ok(number)
    }

    fn begin_scope(&mut self, scope: &Scope) -> rusqlite::Result<i64> {
        let number = rows::insert_scope(&self.connection, scope)?;
        self.fresh_scopes.push((scope.clone(), number));
        Ok(number)
    }

    /// Brings a task back that is being written to again.
    fn load(&mut self, name: &Name, found: &load::Found) -> rusqlite::Result<()> {
        let loaded = load::load(&self.connection, found, &name.1)?;
        let pushes = super::push::is_any(&self.connection, found.task)?;
        let Snapshot { task, number, state } = loaded.snapshot;
        let fold = task.value().map_err(load::unreadable)?;
        let entry = Arc::new(Entry::new(found.task, fold, number, state));
        self.ledger.insert(name.clone(), Facts::loaded(found.task, entry.clone(), loaded.weight, pushes));
        self.entries.insert(name.clone(), entry);
        Ok(())
    }

    /// Shows what has been committed, and answers.
    fn show(&mut self, write: Write, outcome: Outcome) {
        let effect = match outcome {
            Ok(effect) => effect,
            Err(error) => {
                Write::answer(write.reply, Err(error));
                return;
            }
        };
        let entry = match (effect.name, write.body) {
            (Some(name), Body::Events { mut batch, .. }) => {
                let known = self.ledger.find(&name).map(|facts| (facts.task, facts.entry.clone()));
                let (task, entry) = known.unwrap_or_default();
                let is_new = entry.is_none();
                let unborn = || Entry::new(task, Arc::new(nothing(&name.1)), 0, None);
                let entry = entry.unwrap_or_else(|| Arc::new(unborn()));
                let number = effect.before + batch.len() as u64;
                entry.commit(batch.take_changes(), number, write.state);
                if is_new {
                    self.ledger.show(&name, &entry);
                    self.entries.insert(name.clone(), entry.clone());
                }
                if effect.ends {
                    self.ledger.has_ended(&name);
                }
                Some(entry)
            }
            _ => None,
        };
        Write::answer(write.reply, Ok(Committed { before: effect.before, entry, push: effect.push }));
        self.ended += usize::from(effect.ends);
    }
}

/// Whether the key is new. A repeated request and another one under the same key are told apart.
fn check_admission(connection: &Connection, scope: i64, admission: &Admission) -> Result<(), Refusal> {
    match rows::find_admission(connection, scope, &admission.key)? {
        None => Ok(()),
        Some((digest, used)) if digest == admission.digest => {
            Err(StoreError::Duplicate { task: used.task }.into())
        }
        Some(_) => Err(StoreError::KeyReused.into()),
    }
}
