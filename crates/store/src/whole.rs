//! A task that has begun and ended elsewhere, and comes as a whole: kept as it was written, and read only in outline.

use bytes::Bytes;
use chancery_protocol::field::Object;
use chancery_protocol::{Task, TaskId, TaskOutline};

use crate::error::StoreError;
use crate::limits::TaskLimits;
use crate::record::Batch;

/// A task that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) outline: TaskOutline,
    /// `{"task":…}`, with nothing beside the task.
    json: Bytes,
}

impl Whole {
    /// The task alone.
    pub(crate) fn task(&self) -> &[u8] {
        let task = self.json.strip_prefix(br#"{"task":"#).and_then(|rest| rest.strip_suffix(b"}"));
        task.unwrap_or(&self.json)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.json.len()
    }

    /// Whether a task may be as large as this one.
    fn check(&self, id: &TaskId, limits: &TaskLimits) -> Result<(), StoreError> {
        let full = |what, limit| Err(StoreError::TaskFull { id: id.clone(), what, limit });
        if limits.events < 1 {
            return full("events", limits.events);
        }
        if self.outline.artifacts > limits.artifacts {
            return full("artifacts", limits.artifacts);
        }
        if self.bytes() > limits.bytes {
            return full("bytes", limits.bytes);
        }
        Ok(())
    }
}

impl Batch {
    /// A task that has ended, as it was written and what was read of it: `{"task":…}` with nothing beside the task. It is
    /// kept token for token.
    pub fn of_ended(outline: TaskOutline, json: Bytes) -> Self {
        let mut batch = Self::default();
        batch.whole = Some(Box::new(Whole { outline, json }));
        batch
    }

    /// Takes such a task out, if nobody is to be shown or sent its event. Else it becomes an event like others.
    pub(crate) fn take_whole(
        &mut self,
        id: &TaskId,
        limits: &TaskLimits,
    ) -> Result<Option<Box<Whole>>, StoreError> {
        let Some(whole) = &self.whole else { return Ok(None) };
        if self.is_watched || self.push.is_some() || !whole.outline.status.state.is_terminal() {
            self.read_whole()?;
            return Ok(None);
        }
        whole.check(id, limits)?;
        Ok(self.whole.take())
    }

    /// Reads all of such a task, and makes an event of it.
    pub(crate) fn read_whole(&mut self) -> Result<(), serde_json::Error> {
        let Some(whole) = self.whole.take() else { return Ok(()) };
        let Object::<Task>(task) = serde_json::from_slice(whole.task())?;
        self.create(task);
        self.as_written(whole.json);
        Ok(())
    }
}
