//! Made-up tasks, their events and their times.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};

use chancery_protocol::{
    Artifact, ContextId, Edge, Event, Json, JsonObject, KeptTask, Message, Part, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskId, TaskPushNotificationConfig, TaskState, TaskStatus,
    TaskStatusUpdateEvent, Timestamp,
};
use chancery_store::{Admission, Appended, Batch, ListQuery, Page, Read, Scope, Snapshot, Store};
use chancery_store::{StoreError, StoreLimits};

/// The year 2100: later than any clock, so that nothing grows old by itself.
const START: i64 = 4_102_444_800_000;

pub(crate) const TERMINAL: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];
pub(crate) const ACTIVE: [TaskState; 4] =
    [TaskState::Submitted, TaskState::Working, TaskState::InputRequired, TaskState::AuthRequired];

/// So many milliseconds into our time.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

pub(crate) fn scope() -> Scope {
    scope_of("realm", "owner", "agent")
}

pub(crate) fn scope_of(realm: &str, owner: &str, agent: &str) -> Scope {
    Scope { realm: realm.into(), owner: owner.into(), agent: agent.into() }
}

pub(crate) fn status(state: TaskState, millis: i64) -> TaskStatus {
    TaskStatus { state, message: None, timestamp: Some(at(millis)) }
}

pub(crate) fn query(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

/// A batch for one task. Each event is written as the wire would show it.
pub(crate) struct Draft {
    id: TaskId,
    context: ContextId,
    wire: Vec<StreamResponse>,
    pub(crate) batch: Batch,
}

/// Begins a batch.
pub(crate) fn draft(id: &str) -> Draft {
    Draft { id: TaskId::from(id), context: ContextId::from("c"), wire: Vec::new(), batch: Batch::default() }
}

/// Begins a batch that creates the task, with a message that names it.
pub(crate) fn create(id: &str, state: TaskState, millis: i64) -> Draft {
    draft(id).created(state, millis)
}

impl Draft {
    pub(crate) fn context(mut self, context: &str) -> Self {
        self.context = ContextId::from(context);
        self
    }

    pub(crate) fn created(self, state: TaskState, millis: i64) -> Self {
        let message = Message::user(format!("begin {}", self.id));
        let mut task = Task::submitted(self.id.clone(), self.context.clone(), message);
        task.status = status(state, millis);
        self.task(task)
    }

    pub(crate) fn task(mut self, task: Task) -> Self {
        self.wire.push(StreamResponse::Task(task.clone()));
        self.batch.create(task);
        self
    }

    pub(crate) fn status(self, state: TaskState, millis: i64) -> Self {
        self.full_status(status(state, millis), None, None)
    }

    pub(crate) fn saying(self, state: TaskState, millis: i64, said: &str) -> Self {
        let status = TaskStatus { message: Some(Box::new(Message::agent(said))), ..status(state, millis) };
        self.full_status(status, None, None)
    }

    pub(crate) fn full_status(
        mut self,
        status: TaskStatus,
        metadata: Option<JsonObject>,
        received: impl IntoIterator<Item = Message>,
    ) -> Self {
        let update = TaskStatusUpdateEvent {
            task_id: self.id.clone(),
            context_id: self.context.clone(),
            status,
            metadata,
        };
        self.wire.push(StreamResponse::StatusUpdate(update.clone()));
        self.batch.status(update, received);
        self
    }

    /// The whole of an artifact.
    pub(crate) fn artifact(self, name: &str, text: &str) -> Self {
        self.full_artifact(Artifact::new(name, vec![Part::text(text)]), false)
    }

    /// More of an artifact.
    pub(crate) fn chunk(self, name: &str, text: &str) -> Self {
        self.full_artifact(Artifact::new(name, vec![Part::text(text)]), true)
    }

    pub(crate) fn full_artifact(mut self, artifact: Artifact, append: bool) -> Self {
        let update = TaskArtifactUpdateEvent {
            task_id: self.id.clone(),
            context_id: self.context.clone(),
            artifact,
            append,
            last_chunk: false,
            metadata: None,
        };
        self.wire.push(StreamResponse::ArtifactUpdate(update.clone()));
        self.batch.artifact(update);
        self
    }

    pub(crate) fn watched(mut self) -> Self {
        self.batch.is_watched = true;
        self
    }

    pub(crate) fn state(mut self, json: &str) -> Self {
        self.batch.state = Some(Json::parse(json).unwrap());
        self
    }

    /// Something is said about the last status that did not come with it.
    pub(crate) fn noted(mut self, key: &str, value: u32) -> Self {
        self.batch.annotate(JsonObject::single(key, &value).unwrap());
        self
    }

    /// With an idempotency key, and the digest of a body that is all of one byte.
    pub(crate) fn key(mut self, key: &str, body: u8) -> Self {
        self.batch.admission = Some(admission(key, body));
        self
    }

    /// With a push notification configuration.
    pub(crate) fn push(mut self, config: &str) -> Self {
        self.batch.push = Some(Box::new(push_config(config).into()));
        self
    }

    /// With the record of the call that it is of.
    pub(crate) fn edge(mut self, edge: Edge) -> Self {
        self.batch.edge = Some(Box::new(edge));
        self
    }

    pub(crate) fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// What the events must read back as.
    pub(crate) fn wire(&self) -> &[StreamResponse] {
        &self.wire
    }

    pub(crate) async fn commit(self, store: &Store, scope: &Scope) -> Result<Appended, StoreError> {
        store.append(scope, &self.id, self.batch).await
    }

    /// Commits to the usual scope, where nothing may refuse it.
    pub(crate) async fn done(self, store: &Store) -> Appended {
        self.commit(store, &scope()).await.unwrap()
    }

    /// Commits to another scope, where nothing may refuse it.
    pub(crate) async fn done_in(self, store: &Store, scope: &Scope) -> Appended {
        self.commit(store, scope).await.unwrap()
    }

    /// Commits to the usual scope, where something must refuse it.
    pub(crate) async fn refused(self, store: &Store) -> StoreError {
        let id = self.id.clone();
        match self.commit(store, &scope()).await {
            Err(error) => error,
            Ok(appended) => panic!("{id} took what it must refuse: {appended:?}"),
        }
    }
}

pub(crate) fn admission(key: &str, body: u8) -> Admission {
    Admission { key: key.to_owned(), digest: [body; 32] }
}

/// A configuration whose URL ends in its id.
pub(crate) fn push_config(id: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        tenant: String::new(),
        id: Some(id.into()),
        task_id: Some("t".into()),
        url: format!("https://receiver.example/{id}"),
        token: "token".to_owned(),
        authentication: None,
    }
}

pub(crate) async fn snapshot(store: &Store, id: &str) -> Snapshot {
    store.snapshot(&scope(), &TaskId::from(id)).await.unwrap()
}

/// A task as a value, however it is kept.
pub(crate) fn value(task: &KeptTask) -> Arc<Task> {
    task.value().unwrap()
}

/// Whether the task is not there, rather than anything else.
pub(crate) async fn is_gone(store: &Store, id: &str) -> bool {
    match store.snapshot(&scope(), &TaskId::from(id)).await {
        Ok(_) => false,
        Err(StoreError::NotFound { id: named }) => {
            assert_eq!(named.as_str(), id);
            true
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn read(store: &Store, id: &str, after: u64, max: usize) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let after = all.last().map_or(after, |event| event.number);
        match store.read(&scope(), &TaskId::from(id), after, max - all.len()).await.unwrap() {
            Read::Events(events) if events.is_empty() => return all,
            Read::Events(events) => all.extend(events),
            Read::Compacted => panic!("the events of {id} are gone"),
        }
    }
}

pub(crate) async fn is_compacted(store: &Store, id: &str, after: u64) -> bool {
    matches!(store.read(&scope(), &TaskId::from(id), after, 100).await.unwrap(), Read::Compacted)
}

pub(crate) fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.number).collect()
}

pub(crate) fn ids(page: &Page) -> Vec<String> {
    page.tasks.iter().map(|task| value(task).id.to_string()).collect()
}

pub(crate) fn texts<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    messages.into_iter().map(|message| message.text().into_owned()).collect()
}

/// All that a store shows of a task, to tell whether anything has changed.
pub(crate) async fn picture(store: &Store, id: &str) -> (Task, u64, Option<Json>, Vec<Event>, Vec<String>) {
    let Snapshot { task, number, state } = snapshot(store, id).await;
    let page = store.list(&scope(), &query(1000)).await.unwrap();
    let task = Arc::unwrap_or_clone(value(&task));
    (task, number, state, read(store, id, 0, usize::MAX).await, ids(&page))
}

/// Changes some of the default limits.
pub(crate) fn limits(change: impl FnOnce(&mut StoreLimits)) -> StoreLimits {
    let mut limits = StoreLimits::default();
    change(&mut limits);
    limits
}

/// A URL of a database that is not there yet. What an earlier run left behind goes first.
pub(crate) fn fresh_sqlite_url() -> String {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sqlite:{}", folder.join(format!("{number}.db")).display())
}

/// Runs something on so many threads, all let go at once, and gives what each returned.
pub(crate) async fn on_threads<T, F>(count: usize, run: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count));
    let handle = tokio::runtime::Handle::current();
    let threads: Vec<_> = (0..count)
        .map(|thread| {
            let (barrier, handle, work) = (barrier.clone(), handle.clone(), run(thread));
            tokio::task::spawn_blocking(move || {
                barrier.wait();
                handle.block_on(work)
            })
        })
        .collect();
    let mut results = Vec::with_capacity(count);
    for thread in threads {
        results.push(thread.await.unwrap());
    }
    results
}
