//! After a restart: what the agent was working on is followed again, from where the journal is.

use std::sync::Arc;

use chancery_protocol::{Error, ErrorCode, TaskState};
use chancery_store::{StoreError, Unfinished};

use super::Core;
use super::follow::LONGEST_PAUSE;
use crate::client::Options;
use crate::tasks::from_store;

/// How many tasks are looked at in one step.
const STEP: usize = 256;

impl Core {
    /// Follows the tasks that nobody follows although the agent may be going on with them: those at work, and those
    /// that wait for an authorization, which the agent gets without anybody's help here. Gives their number. What waits
    /// for an answer is looked at once: the answer may have been on its way when the last process ended.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
        let at_work = self.pick_up(TaskState::Working).await?;
        let parked = self.pick_up(TaskState::AuthRequired).await?;
        let looking = self.clone().look_at_questions();
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(looking));
        Ok(at_work + parked)
    }

    /// Looks at every task that waits for an answer, one at a time. Those that go on are followed from then on.
    async fn look_at_questions(self: Arc<Self>) {
        let mut last: Option<Unfinished> = None;
        loop {
            let found = match self.page(TaskState::InputRequired, last.as_ref()).await {
                Ok(found) => found,
                Err(error) => return tracing::error!(%error, "tasks that wait for an answer cannot be found"),
            };
            let Some(newest) = found.last().cloned() else { return };
            for Unfinished { scope, task, .. } in &found {
                while let Err(error) = self.catch_up(scope, task, Options::default()).await {
                    if error.code() != ErrorCode::Unavailable {
                        tracing::warn!(task.id = %task, ?error, "task {task} cannot be looked at");
                        break;
                    }
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
            }
            last = Some(newest);
        }
    }

    /// Follows the tasks that are in a state.
    async fn pick_up(self: &Arc<Self>, state: TaskState) -> Result<usize, Error> {
        let mut picked_up = 0;
        let mut last: Option<Unfinished> = None;
        loop {
            let found = self.page(state, last.as_ref()).await.map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { return Ok(picked_up) };
            for Unfinished { scope, task, .. } in &found {
                if !self.wait_again(scope, task).await? {
                    let live = self.tasks.live.enter(scope, task);
                    self.see_to(live, state, Options::default());
                }
                picked_up += 1;
            }
            last = Some(newest);
        }
    }

    /// The next tasks in a state. SUBMITTED counts as WORKING.
    async fn page(&self, state: TaskState, last: Option<&Unfinished>) -> Result<Vec<Unfinished>, StoreError> {
        let (store, agent) = (&self.tasks.store, self.tasks.agent());
        match state {
            TaskState::Working => store.unfinished(agent, last, STEP).await,
            state => store.waiting(agent, state, last, STEP).await,
        }
    }
}
