//! Idempotency keys that have been used.

use std::collections::HashMap;

use chancery_protocol::{Json, TaskId, Timestamp};

use super::ages::{Ages, owner_of};
use crate::error::StoreError;
use crate::limits::Retention;
use crate::record::{Admission, Scope};
use crate::reserved::KeyUse;

#[derive(Debug, Default)]
pub(super) struct Admissions {
    used: HashMap<(Scope, String), Used>,
    /// By their numbers, with when each was used.
    order: Ages<u64, (i64, Scope, String)>,
    next: u64,
}

#[derive(Debug)]
struct Used {
    number: u64,
    digest: [u8; 32],
    task: TaskId,
    answer: Option<Json>,
}

impl Admissions {
    pub(super) fn find(&self, scope: &Scope, admission: &Admission) -> Result<Option<KeyUse>, StoreError> {
        match self.used.get(&(scope.clone(), admission.key.clone())) {
            None => Ok(None),
            Some(used) if used.digest == admission.digest => {
                Ok(Some(KeyUse { task: used.task.clone(), answer: used.answer.clone() }))
            }
            Some(_) => Err(StoreError::KeyReused),
        }
    }

    pub(super) fn task_of(&self, scope: &Scope, key: &str) -> Option<TaskId> {
        self.used.get(&(scope.clone(), key.to_owned())).map(|used| used.task.clone())
    }

    pub(super) fn insert(
        &mut self,
        scope: Scope,
        admission: Admission,
        task: TaskId,
        now: Timestamp,
        retention: &Retention,
    ) {
        let (number, owner) = (self.next, owner_of(&scope));
        self.next += 1;
        let placed = (now.as_millis(), scope.clone(), admission.key.clone());
        self.order.insert(number, owner.clone(), placed);
        let used = Used { number, digest: admission.digest, task, answer: None };
        self.used.insert((scope, admission.key), used);
        while self.order.len_of(&owner) > retention.max_admissions_per_owner {
            self.forget_one(self.order.oldest_of(&owner));
        }
        self.forget(now, retention);
    }

    /// The key repeats this answer from now on.
    pub(super) fn answer(&mut self, scope: &Scope, key: &str, answer: &Json) {
        if let Some(used) = self.used.get_mut(&(scope.clone(), key.to_owned())) {
            used.answer = Some(answer.clone());
        }
    }

    /// The key is free again.
    pub(super) fn release(&mut self, scope: &Scope, key: &str) {
        if let Some(used) = self.used.remove(&(scope.clone(), key.to_owned())) {
            self.order.remove(used.number);
        }
    }

    pub(super) fn delete(&mut self, of: impl Fn(&Scope) -> bool) {
        self.used.retain(|(scope, _), used| {
            let stays = !of(scope);
            if !stays {
                self.order.remove(used.number);
            }
            stays
        });
    }

    pub(super) fn forget(&mut self, now: Timestamp, retention: &Retention) {
        let limit = i64::try_from(retention.admissions.as_millis()).unwrap_or(i64::MAX);
        while let Some((number, (at, ..))) = self.order.oldest() {
            if now.as_millis().saturating_sub(*at) < limit {
                break;
            }
            self.forget_one(Some(number));
        }
        while self.order.len() > retention.max_admissions {
            self.forget_one(self.order.oldest_of_most());
        }
    }

    fn forget_one(&mut self, number: Option<u64>) {
        if let Some((_, scope, key)) = number.and_then(|number| self.order.remove(number)) {
            self.used.remove(&(scope, key));
        }
    }
}
