//! Reserved calls in memory.

use chancery_protocol::{Json, TaskId};

use super::MemoryStore;
use crate::error::StoreError;
use crate::record::Scope;
use crate::reserved::{ReservationChange, ReservationWrite, ReservedCall};

impl MemoryStore {
    pub(crate) fn reserve(
        &self,
        scope: &Scope,
        task: &TaskId,
        write: ReservationWrite,
    ) -> Result<(), StoreError> {
        let name = (scope.clone(), task.clone());
        // The lock is held across the commit, so that of two equal requests exactly one commits.
        let mut admissions = self.admissions.lock();
        match write.change {
            ReservationChange::Put(call, admission) => {
                if let Some(admission) = admission {
                    if let Some(used) = admissions.find(scope, &admission)? {
                        return Err(StoreError::Duplicate { task: used.task });
                    }
                    let retention = &self.limits.retention;
                    admissions.insert(scope.clone(), admission, task.clone(), self.clock.now(), retention);
                }
                self.reserved.lock().insert(name, call);
            }
            ReservationChange::Answer(answer, key) => {
                key.iter().for_each(|key| admissions.answer(scope, key, &answer));
                self.reserved.lock().remove(&name);
            }
            ReservationChange::Release(key) => {
                key.iter().for_each(|key| admissions.release(scope, key));
                self.reserved.lock().remove(&name);
            }
        }
        drop(admissions);
        if let Some(edge) = write.edge {
            self.put_edge(edge);
        }
        Ok(())
    }

    pub(crate) fn reserved(
        &self,
        agent: &str,
        after: Option<&ReservedCall>,
        limit: usize,
    ) -> Vec<ReservedCall> {
        let kept = self.reserved.lock();
        let is_wanted = |(scope, task): &(&Scope, &TaskId)| {
            &*scope.agent == agent && after.is_none_or(|one| (*scope, *task) > (&one.scope, &one.task))
        };
        let found = kept.iter().filter(|((scope, task), _)| is_wanted(&(scope, task)));
        let whole = |((scope, task), call): (&(Scope, TaskId), &Json)| ReservedCall {
            scope: scope.clone(),
            task: task.clone(),
            call: call.clone(),
        };
        found.take(limit).map(whole).collect()
    }

    pub(crate) fn context_secret(&self) -> [u8; 32] {
        self.context_secret
    }
}
