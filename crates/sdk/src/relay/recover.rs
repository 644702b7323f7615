//! After a restart: what the agent was working on is followed again, from where the journal is.

use std::sync::Arc;

use chancery_protocol::{Error, TaskState};
use chancery_store::Unfinished;

use super::Core;
use crate::client::Options;
use crate::tasks::from_store;

/// How many tasks are looked at in one step.
const STEP: usize = 256;

impl Core {
    /// Follows the tasks that nobody follows although the agent may be going on with them. Gives their number.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, Error> {
        let mut picked_up = 0;
        let mut last: Option<Unfinished> = None;
        loop {
            let found = self.tasks.store.unfinished(self.tasks.agent(), last.as_ref(), STEP).await;
            let found = found.map_err(from_store)?;
            let Some(newest) = found.last().cloned() else { return Ok(picked_up) };
            for Unfinished { scope, task, .. } in &found {
                let live = self.tasks.live.enter(scope, task);
                self.see_to(live, TaskState::Working, Options::default());
                picked_up += 1;
            }
            last = Some(newest);
        }
    }
}
