//! What is written in v0.1 reads back as what it was; and what others write reads as what they mean.

use chancery_protocol::{
    Artifact, Json, JsonObject, Message, Part, Role, StreamResponse, Task, TaskArtifactUpdateEvent,
    TaskState, TaskStatus, TaskStatusUpdateEvent, Timestamp,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Heard, Newer, Older, OlderArtifact, OlderEvent, SendParams};

fn metadata() -> impl Strategy<Value = Option<JsonObject>> {
    prop_oneof![
        Just(None),
        any::<u64>().prop_map(|number| Some(JsonObject::parse(&format!(r#"{{"n":{number}}}"#)).unwrap())),
    ]
}

/// As much of a part as v0.1 has a place for.
fn part() -> impl Strategy<Value = Part> {
    let name = || proptest::option::of("[a-z]{1,8}");
    let named = |part: Part, name: Option<String>, media_type: Option<String>| {
        let part = name.map_or(part.clone(), |name| part.named(name));
        media_type.map_or(part.clone(), |media_type| part.with_media_type(media_type))
    };
    let data = prop_oneof![
        "\\{\"k\":[1-9]{1,3}\\}",
        "\\[[0-9]\\]",
        "[1-9][0-9]{0,30}",
        "\"[a-z]*\"",
        Just("null".to_owned())
    ];
    let content = prop_oneof![
        ".*".prop_map(Part::text),
        (any::<Vec<u8>>(), name(), name()).prop_map(move |(bytes, name, kind)| named(
            Part::raw(bytes),
            name,
            kind
        )),
        ("https://[a-z]{1,9}\\.example/", name(), name()).prop_map(move |(url, name, kind)| named(
            Part::url(url),
            name,
            kind
        )),
        data.prop_map(|data| Part::data(Json::parse(&data).unwrap())),
    ];
    (content, metadata()).prop_map(|(part, metadata)| Part { metadata, ..part })
}

fn message(role: Role) -> impl Strategy<Value = Message> {
    (proptest::collection::vec(part(), 1..4), metadata())
        .prop_map(move |(parts, metadata)| Message { metadata, ..Message::new(role, parts) })
}

const STATES: [TaskState; 9] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::InputRequired,
    TaskState::Rejected,
    TaskState::AuthRequired,
    TaskState::Unspecified,
];

fn status() -> impl Strategy<Value = TaskStatus> {
    // A state without a name of its own is told in a message.
    (proptest::sample::select(&STATES[..]), message(Role::Agent)).prop_map(|(state, message)| {
        TaskStatus::at(Timestamp::from_micros(1_700_000_000_000_000), state, Some(message))
    })
}

fn task() -> impl Strategy<Value = Task> {
    let parts = proptest::collection::vec(part(), 1..3);
    let artifacts = proptest::collection::vec((parts, "[a-z]{0,5}", metadata()), 0..4);
    let history = proptest::collection::vec(message(Role::User), 0..3);
    (status(), artifacts, history, metadata()).prop_map(|(status, made, history, metadata)| {
        let artifact =
            |(place, (parts, name, metadata)): (usize, (Vec<Part>, String, Option<JsonObject>))| Artifact {
                artifact_id: place.to_string().into(),
                name,
                metadata,
                ..Artifact::new("", parts)
            };
        let artifacts = made.into_iter().enumerate().map(artifact).collect();
        Task { id: "t".into(), context_id: Some("s".into()), status, artifacts, history, metadata }
    })
}

/// v0.1 has no ids of messages, so these are not compared.
fn nameless(task: &mut Task) {
    for message in task.history.iter_mut().chain(task.status.message.as_deref_mut()) {
        message.message_id = "".into();
    }
}

proptest! {
    #[test]
    fn a_task_reads_back_as_it_was(mut task in task()) {
        let json = serde_json::to_string(&Older(&task)).unwrap();
        let Newer(mut read) = serde_json::from_str::<Newer<Task>>(&json).unwrap();
        nameless(&mut task);
        nameless(&mut read);
        prop_assert_eq!(read, task);
    }

    #[test]
    fn a_status_reads_back_as_it_was(status in status(), is_last: bool, metadata in metadata()) {
        let event = OlderEvent::Status { id: &"t".into(), status: &status, is_last, metadata: metadata.as_ref() };
        let heard = Heard::read(&serde_json::to_string(&event).unwrap()).unwrap();
        let mut update = TaskStatusUpdateEvent { task_id: "t".into(), context_id: "".into(), status, metadata };
        let StreamResponse::StatusUpdate(mut read) = heard.event else { panic!("no status") };
        for status in [&mut update.status, &mut read.status] {
            status.message.as_mut().unwrap().message_id = "".into();
        }
        prop_assert_eq!((read, heard.is_last), (update, is_last));
    }

    #[test]
    fn a_chunk_reads_back_as_it_was(parts in proptest::collection::vec(part(), 1..3), index in 0_usize..99, append: bool, last_chunk: bool) {
        let artifact = Artifact { artifact_id: index.to_string().into(), ..Artifact::new("name", parts) };
        let chunk = OlderArtifact { artifact: &artifact, index, append, last_chunk };
        let event = OlderEvent::Artifact { id: &"t".into(), artifact: chunk, metadata: None };
        let heard = Heard::read(&serde_json::to_string(&event).unwrap()).unwrap();
        let wanted = TaskArtifactUpdateEvent { task_id: "t".into(), context_id: "".into(), artifact: artifact.clone(), append, last_chunk, metadata: None };
        prop_assert_eq!(heard.event, StreamResponse::ArtifactUpdate(wanted));
    }

    #[test]
    fn nothing_that_is_read_panics(text in ".*", json in "\\{(\"(id|status|artifact|final|state|parts|message)\":[\\{\\[\\]\\}\"a-z0-9:,]{0,20},?){0,4}\\}") {
        for text in [&text, &json] {
            let _ = Heard::read(text);
            let _ = serde_json::from_str::<Newer<Task>>(text);
            let _ = serde_json::from_str::<SendParams>(text);
        }
    }
}

fn read(json: &Value) -> Task {
    serde_json::from_value::<Newer<Task>>(json.clone()).unwrap_or_else(|error| panic!("{error}: {json}")).0
}

#[test]
fn every_state_has_its_name() {
    for (name, state) in [
        ("submitted", TaskState::Submitted),
        ("working", TaskState::Working),
        ("input-required", TaskState::InputRequired),
        ("completed", TaskState::Completed),
        ("canceled", TaskState::Canceled),
        ("failed", TaskState::Failed),
        ("unknown", TaskState::Unspecified),
        ("something else", TaskState::Unspecified),
    ] {
        assert_eq!(read(&json!({"id": "t", "status": {"state": name}})).status.state, state, "{name}");
    }
    for (state, name) in [(TaskState::Rejected, "failed"), (TaskState::AuthRequired, "input-required")] {
        let written = serde_json::to_value(Older(&TaskStatus::now(state, None))).unwrap();
        assert_eq!(written["state"], name);
        assert_eq!(written["message"]["metadata"]["task_state"], state.as_str());
        assert!(written["message"]["parts"][0]["text"].is_string());
    }
    // Nobody talks a task into a state that is not the one it says.
    let odd = json!({"id": "t", "status": {"state": "completed", "message": {"role": "agent",
        "parts": [{"type": "text", "text": "x"}], "metadata": {"task_state": "TASK_STATE_REJECTED"}}}});
    let status = read(&odd).status;
    assert_eq!(status.state, TaskState::Completed);
    assert!(status.message.unwrap().metadata.is_some());
}

#[test]
fn artifacts_are_told_apart_by_their_places() {
    let artifact = |text: &str, rest: Value| {
        let mut artifact = json!({"parts": [{"type": "text", "text": text}]});
        artifact.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        artifact
    };
    let ids = |artifacts: Value| -> Vec<(String, usize)> {
        let task = read(&json!({"id": "t", "status": {"state": "working"}, "artifacts": artifacts}));
        task.artifacts.iter().map(|made| (made.artifact_id.to_string(), made.parts.len())).collect()
    };
    let made = |id: &str, parts: usize| (id.to_owned(), parts);
    assert_eq!(
        ids(json!([artifact("a", json!({"index": 0})), artifact("b", json!({"index": 1}))])),
        [made("0", 1), made("1", 1)]
    );
    // Pieces of one, and some that nobody has numbered.
    assert_eq!(
        ids(json!([artifact("a", json!({"index": 1})), artifact("b", json!({"index": 1, "append": true}))])),
        [made("1", 2)]
    );
    assert_eq!(
        ids(json!([artifact("a", json!({})), artifact("b", json!({"index": null}))])),
        [made("0", 1), made("1", 1)]
    );
}

#[test]
fn events_are_told_apart_by_what_they_hold() {
    let read = |json: &str| Heard::read(json).map_err(|error| error.to_string());
    assert!(read(r#"{"id":"t","status":{"state":"working"}}"#).is_ok_and(|heard| !heard.is_last));
    assert!(
        read(r#"{"id":"t","status":{"state":"working"},"final":null}"#).is_ok_and(|heard| !heard.is_last)
    );
    assert!(
        read(r#"{"id":"t","status":{"state":"completed"},"final":true}"#).is_ok_and(|heard| heard.is_last)
    );
    assert!(read(r#"{"id":"t","artifact":{"parts":[]}}"#).is_ok());
    let whole = read(r#"{"id":"t","sessionId":"s","status":{"state":"completed"},"artifacts":[]}"#).unwrap();
    assert!(matches!(whole.event, StreamResponse::Task(_)) && whole.is_last);
    assert!(read(r#"{"id":"t"}"#).unwrap_err().contains("expected a status"));
    assert!(
        read(r#"{"id":"t","status":{"state":"working"},"artifact":{"parts":[]}}"#)
            .unwrap_err()
            .contains("both")
    );
    for text in ["7", "[]", "null", r#"{"status":{"state":"working"}}"#] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_said_has_the_name_of_what_it_says() {
    let said = |json: Value| {
        let params: SendParams = serde_json::from_value(json).unwrap();
        params.into_request()
    };
    let hello =
        || json!({"id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "hello"}]}});
    let mut other = hello();
    other["message"]["parts"][0]["text"] = json!("hell0");
    assert_eq!(said(hello()).message.message_id, said(hello()).message.message_id);
    assert_ne!(said(hello()).message.message_id, said(other).message.message_id);
    let mut full = hello();
    full["sessionId"] = json!("s");
    full["acceptedOutputModes"] = json!(["text/plain"]);
    full["historyLength"] = json!(3);
    full["pushNotification"] =
        json!({"url": "https://a.example", "token": "k", "authentication": {"schemes": ["Basic"]}});
    full["metadata"] = json!({"m": 1});
    let request = said(full);
    let configuration = request.configuration.unwrap();
    assert_eq!((configuration.history_length, configuration.return_immediately), (Some(3), false));
    assert_eq!(configuration.accepted_output_modes, ["text/plain"]);
    let push = configuration.task_push_notification_config.unwrap();
    assert_eq!(
        (push.id.unwrap().as_str(), push.url.as_str(), push.token.as_str()),
        ("t", "https://a.example", "k")
    );
    assert_eq!(push.authentication.unwrap().scheme, "Basic");
    assert_eq!(
        (request.message.task_id.unwrap().as_str(), request.message.context_id.unwrap().as_str()),
        ("t", "s")
    );
    assert_eq!(request.metadata.unwrap().as_str(), r#"{"m":1}"#);
    assert_eq!(said(hello()).configuration.unwrap().history_length, Some(0));
}
