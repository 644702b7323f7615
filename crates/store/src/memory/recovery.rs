//! Tasks that somebody is at work on. A store in memory is empty when its process starts, so this is never long.

use chancery_protocol::{TaskId, TaskState};

use super::MemoryStore;
use crate::record::Scope;
use crate::recovery::Unfinished;

impl MemoryStore {
    pub(crate) fn unfinished(
        &self,
        agent: &str,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Vec<Unfinished> {
        self.in_states(agent, &[TaskState::Submitted, TaskState::Working], after, limit)
    }

    pub(crate) fn waiting(
        &self,
        agent: &str,
        state: TaskState,
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Vec<Unfinished> {
        self.in_states(agent, &[state], after, limit)
    }

    fn in_states(
        &self,
        agent: &str,
        states: &[TaskState],
        after: Option<&Unfinished>,
        limit: usize,
    ) -> Vec<Unfinished> {
        let scopes: Vec<_> = {
            let scopes = self.scopes.read();
            let of_agent = scopes.iter().filter(|(scope, _)| &*scope.agent == agent);
            of_agent.map(|(scope, tasks)| (scope.clone(), tasks.clone())).collect()
        };
        let mut found = Vec::new();
        for (scope, tasks) in scopes {
            found.extend(tasks.lock().in_states(states).map(|(task, context_id)| Unfinished {
                scope: scope.clone(),
                task: task.clone(),
                context_id: context_id.cloned(),
            }));
        }
        found.retain(|one| after.is_none_or(|after| place(one) > place(after)));
        found.sort_by(|a, b| place(a).cmp(&place(b)));
        found.truncate(limit);
        found
    }
}

fn place(one: &Unfinished) -> (&Scope, &TaskId) {
    (&one.scope, &one.task)
}
