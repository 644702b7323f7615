//! The task is the fold of its events, whatever they are.

use std::sync::Arc;

use chancery_protocol::{
    Artifact, Event, JsonObject, Message, MessageId, Part, Role, StreamResponse, Task, TaskState, TaskStatus,
};
use chancery_store::{Store, StoreError};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use crate::support::*;

#[derive(Clone, Debug)]
enum Step {
    Status { state: TaskState, millis: i64, said: Option<String>, heard: Vec<String>, mark: Option<(u8, u8)> },
    Artifact { id: u8, text: String, append: bool },
}

pub(crate) async fn the_task_is_the_fold_of_its_events(store: Arc<Store>) {
    let batches = vec(vec(step(), 1..5), 0..8);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let handle = tokio::runtime::Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&batches, |batches| {
            handle.block_on(run(&store, &batches));
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        16 => Just(TaskState::Working),
        8 => Just(TaskState::InputRequired),
        4 => Just(TaskState::AuthRequired),
        1 => Just(TaskState::Submitted),
        1 => Just(TaskState::Unspecified),
        1 => proptest::sample::select(TERMINAL.to_vec()),
    ];
    let text = || "[a-zé\"\n]{0,6}";
    let status =
        (state, 0..50_i64, option::of(text()), vec(text(), 0..3), option::of((0..3_u8, any::<u8>())))
            .prop_map(|(state, millis, said, heard, mark)| Step::Status { state, millis, said, heard, mark });
    let artifact =
        (0..4_u8, text(), any::<bool>()).prop_map(|(id, text, append)| Step::Artifact { id, text, append });
    prop_oneof![status, artifact]
}

/// Commits the batches to a task of their own, beside a model of it.
async fn run(store: &Store, batches: &[Vec<Step>]) {
    let id = chancery_protocol::TaskId::generate();
    let id = id.as_str();
    let mut events = create(id, TaskState::Submitted, 0).done(store).await.events;
    let mut model = (*value(&snapshot(store, id).await.task)).clone();
    for steps in batches {
        let mut batch = draft(id);
        let mut next = Some(model.clone());
        for (index, step) in steps.iter().enumerate() {
            let serial = events.len() * 10 + index;
            batch = write(batch, step, serial);
            next = next.and_then(|task| fold(task, step, serial));
        }
        let wire = batch.wire().to_vec();
        match (batch.commit(store, &scope()).await, next) {
            (Ok(appended), Some(next)) => {
                assert_eq!(*value(&appended.task), next);
                let read: Vec<_> = appended.events.iter().map(|event| event.payload().unwrap()).collect();
                assert_eq!(read, wire);
                events.extend(appended.events);
                model = next;
            }
            (Err(StoreError::Transition { .. }), None) => {}
            (outcome, next) => panic!("{outcome:?} where the model says {next:?}"),
        }
        let found = snapshot(store, id).await;
        assert_eq!(*value(&found.task), model);
        assert_eq!(found.number, events.len() as u64);
    }
    assert_eq!(read(store, id, 0, usize::MAX).await, events);
    assert_eq!(numbers(&events), (1..=events.len() as u64).collect::<Vec<_>>());

    // The wire does not show what was received, apart from the first message.
    model.history.retain(|message| !message.message_id.as_str().starts_with("heard"));
    assert_eq!(refold(&events), model);
}

fn write(batch: Draft, step: &Step, serial: usize) -> Draft {
    match step {
        Step::Status { state, millis, said, heard, mark } => {
            let message = said.as_ref().map(|text| spoken(Role::Agent, "said", serial, text));
            let received = heard.iter().map(|text| spoken(Role::User, "heard", serial, text));
            let status =
                TaskStatus { state: *state, message: message.map(Box::new), timestamp: Some(at(*millis)) };
            batch.full_status(status, mark.map(metadata), received)
        }
        Step::Artifact { id, text, append } => batch.full_artifact(artifact(*id, text), *append),
    }
}

/// What the step makes of a task, if it may.
fn fold(mut task: Task, step: &Step, serial: usize) -> Option<Task> {
    if task.status.state.is_terminal() {
        return None;
    }
    match step {
        Step::Status { state, .. } if !task.status.state.may_become(*state) => return None,
        Step::Status { state, millis, said, heard, mark } => {
            let message = said.as_ref().map(|text| spoken(Role::Agent, "said", serial, text));
            let status =
                TaskStatus { state: *state, message: message.map(Box::new), timestamp: Some(at(*millis)) };
            task.apply_status(status, mark.map(metadata).as_ref());
            task.history.extend(heard.iter().map(|text| spoken(Role::User, "heard", serial, text)));
        }
        Step::Artifact { id, text, append } => task.apply_artifact(artifact(*id, text), *append),
    }
    Some(task)
}

/// What somebody makes of the events who knows nothing but their JSON.
fn refold(events: &[Event]) -> Task {
    let mut task = None;
    for event in events {
        match (event.payload().unwrap(), &mut task) {
            (StreamResponse::Task(first), None) => task = Some(first),
            (StreamResponse::StatusUpdate(update), Some(task)) => {
                task.apply_status(update.status, update.metadata.as_ref());
            }
            (StreamResponse::ArtifactUpdate(update), Some(task)) => {
                task.apply_artifact(update.artifact, update.append);
            }
            (payload, _) => panic!("out of place: {payload:?}"),
        }
    }
    task.unwrap()
}

fn spoken(role: Role, kind: &str, serial: usize, text: &str) -> Message {
    let message_id = MessageId::from(format!("{kind}-{serial}"));
    Message { message_id, ..Message::new(role, vec![Part::text(text)]) }
}

fn metadata((key, value): (u8, u8)) -> JsonObject {
    JsonObject::single(&format!("k{key}"), &value).unwrap()
}

fn artifact(id: u8, text: &str) -> Artifact {
    Artifact::new(format!("a{id}"), vec![Part::text(text)])
}
