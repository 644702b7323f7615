//! Idempotency keys that have been used.

use std::collections::{HashMap, VecDeque};

use chancery_protocol::{Json, TaskId, Timestamp};

use crate::error::StoreError;
use crate::limits::Retention;
use crate::record::{Admission, Scope};
use crate::reserved::KeyUse;

#[derive(Debug, Default)]
pub(super) struct Admissions {
    used: HashMap<(Scope, String), Used>,
    /// Oldest first.
    order: VecDeque<(i64, Scope, String)>,
}

#[derive(Debug)]
struct Used {
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
        self.order.push_back((now.as_millis(), scope.clone(), admission.key.clone()));
        self.used.insert((scope, admission.key), Used { digest: admission.digest, task, answer: None });
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
        self.used.remove(&(scope.clone(), key.to_owned()));
        self.order.retain(|(_, of, used)| (of, used.as_str()) != (scope, key));
    }

    pub(super) fn delete(&mut self, of: impl Fn(&Scope) -> bool) {
        self.used.retain(|(scope, _), _| !of(scope));
        self.order.retain(|(_, scope, _)| !of(scope));
    }

    pub(super) fn forget(&mut self, now: Timestamp, retention: &Retention) {
        let limit = i64::try_from(retention.admissions.as_millis()).unwrap_or(i64::MAX);
        while let Some((at, ..)) = self.order.front() {
            let expired = now.as_millis().saturating_sub(*at) >= limit;
            if !expired && self.order.len() <= retention.max_admissions {
                return;
            }
            if let Some((_, scope, key)) = self.order.pop_front() {
                self.used.remove(&(scope, key));
            }
        }
    }
}
