//! A store with many tasks, each as one that was sent and answered leaves it.

use std::sync::Arc;

use chancery_sdk::protocol::{ContextId, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent};
use chancery_sdk::store::{Batch, Scope, Store, StoreError};
use chancery_sdk::{Artifact, Message, Part, Principal, Task, TaskId, TaskState};
use tokio::task::JoinSet;

/// So many at once, so that they share transactions.
const CALLERS: usize = 256;
const TEXT: &str = include_str!("../../../message.txt");

/// Puts `tasks` into the store, as the server's agent would for a caller without a name. The id of the last one.
pub(crate) async fn fill(store: Arc<Store>, tasks: usize) -> anyhow::Result<TaskId> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (store, share) = (store.clone(), tasks / CALLERS + usize::from(caller < tasks % CALLERS));
        callers.spawn(async move {
            let mut last = None;
            for _ in 0..share {
                last = Some(add(&store).await?);
            }
            Ok::<_, StoreError>(last)
        });
    }
    let mut last = None;
    while let Some(ended) = callers.join_next().await {
        last = last.max(ended??);
    }
    last.ok_or_else(|| anyhow::anyhow!("--fill needs at least one task"))
}

async fn add(store: &Store) -> Result<TaskId, StoreError> {
    let (id, context) = (TaskId::generate(), ContextId::generate());
    let message = Message::user(TEXT).in_task(id.clone()).in_context(context.clone());
    let mut batch = Batch::default();
    batch.create(Task::submitted(id.clone(), context.clone(), message));
    batch.artifact(TaskArtifactUpdateEvent {
        task_id: id.clone(),
        context_id: context.clone(),
        artifact: Artifact::new("artifact-1", vec![Part::text(TEXT)]),
        append: false,
        last_chunk: true,
        metadata: None,
    });
    let status = TaskStatus::now(TaskState::Completed, None);
    batch.status(
        TaskStatusUpdateEvent { task_id: id.clone(), context_id: context, status, metadata: None },
        None,
    );
    store.append(&scope(), &id, batch).await?;
    Ok(id)
}

fn scope() -> Scope {
    let nobody = Principal::anonymous();
    Scope { realm: nobody.realm, owner: nobody.id, agent: "echo".into() }
}
