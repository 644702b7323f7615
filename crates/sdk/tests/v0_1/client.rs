//! Our client, speaking v0.1: against our server, and against peers as they were.

use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{
    ListTasksRequest, Message, Part, SendMessageRequest, SendMessageResponse, StreamResponse, Task,
    TaskState, Version,
};
use chancery_sdk::{Client, ClientError, ErrorCode};
use serde_json::{Value, json};

use crate::agents::*;
use crate::support::{Heard, Peer, Reply, Site, serve, within};

/// A card of that time. Who reads it cannot be certain of the version unless it says how to authenticate.
fn card(url: &str, is_certain: bool) -> Value {
    let mut card = json!({"name": "peer", "url": url, "version": "1", "capabilities": {"streaming": true}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]});
    if is_certain {
        card["authentication"] = json!({"schemes": []});
    }
    card
}

/// Somebody of that time, who does not know the words that came later.
async fn peer(is_certain: bool, answer: impl Fn(&Heard, &Value) -> Reply + Send + Sync + 'static) -> Peer {
    Peer::start(move |_, heard| {
        if heard.line().starts_with("GET") {
            if !heard.line().ends_with("/agent.json") {
                return Reply::Whole(404, Vec::new(), String::new());
            }
            let host = heard.header("host").unwrap();
            return Reply::json(200, &card(&format!("http://{host}"), is_certain));
        }
        let asked = heard.json();
        let known = asked["method"].as_str().unwrap().starts_with("tasks/");
        if known { answer(heard, &asked["params"]) } else { heard.error(-32601) }
    })
    .await
}

/// A client that speaks nothing else to our server.
async fn connect(site: &Site) -> Client {
    let address = site.address;
    let front = Peer::start(move |_, _| Reply::json(200, &card(&format!("http://{address}/"), true))).await;
    Client::builder().version(Version::V0_1).egress(Egress::unrestricted()).connect(&front.url).await.unwrap()
}

fn task(sent: SendMessageResponse) -> Task {
    match sent {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("a message: {message:?}"),
    }
}

fn request(message: Message) -> SendMessageRequest {
    SendMessageRequest { tenant: String::new(), message, configuration: None, metadata: None }
}

#[tokio::test]
async fn a_client_names_its_tasks() {
    let site = serve(obedient()).await;
    let client = connect(&site).await;
    let one = task(client.send("ask").await.unwrap());
    let other = task(client.send("hello").await.unwrap());
    assert_ne!(one.id, other.id);
    assert_eq!((one.status.state, other.status.state), (TaskState::InputRequired, TaskState::Completed));
    assert!(one.context_id.is_some());
    let answer = request(Message::user("this one").in_task(one.id.clone()));
    let done = task(client.send(answer).await.unwrap());
    assert_eq!(
        (&done.id, done.status.state, &done.context_id),
        (&one.id, TaskState::Completed, &one.context_id)
    );
    assert_eq!(done.artifacts[0].parts, [Part::text("this one")]);
    assert_eq!(client.get(one.id.clone()).await.unwrap().artifacts, done.artifacts);
    let refused = client.cancel(one.id.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TaskNotCancelable));
    assert_eq!(client.get("nobody's").await.unwrap_err().code(), Some(ErrorCode::TaskNotFound));
    let again = request(Message::user("more").in_task(one.id));
    assert_eq!(client.send(again).await.unwrap_err().code(), Some(ErrorCode::UnsupportedOperation));
    let listed = client.list(ListTasksRequest::default()).await.unwrap_err();
    assert_eq!(listed.code(), Some(ErrorCode::UnsupportedOperation));
    // What v0.1 has no name for is what it was.
    assert_eq!(task(client.send("refuse").await.unwrap()).status.state, TaskState::Rejected);
}

#[tokio::test]
async fn a_stream_begins_with_the_task() {
    let site = serve(obedient()).await;
    let client = connect(&site).await;
    let mut events = client.stream("chunks").await.unwrap();
    let mut whole: Option<Task> = None;
    while let Some(event) = within("an event", events.next()).await {
        match (event.unwrap().payload().unwrap(), &mut whole) {
            (StreamResponse::Task(task), None) => whole = Some(task),
            (StreamResponse::StatusUpdate(update), Some(whole)) => whole.apply_status(update.status, None),
            (StreamResponse::ArtifactUpdate(update), Some(whole)) => {
                whole.apply_artifact(update.artifact, update.append);
            }
            (other, _) => panic!("not now: {other:?}"),
        }
    }
    let whole = whole.unwrap();
    assert_eq!((whole.status.state, whole.artifacts.len()), (TaskState::Completed, 2));
    assert_eq!(whole.artifacts[0].parts, [Part::text("one "), Part::text("two")]);
    assert_eq!(client.get(whole.id).await.unwrap().artifacts, whole.artifacts);
}

#[tokio::test]
async fn a_task_is_watched_and_canceled() {
    let site = serve(obedient()).await;
    let client = connect(&site).await;
    let mut events = client.stream("wait").await.unwrap();
    let first = within("the first event", events.next()).await.unwrap().unwrap().payload().unwrap();
    let StreamResponse::Task(begun) = first else { panic!("no task: {first:?}") };
    let mut watched = client.subscribe(begun.id.clone()).await.unwrap();
    assert_eq!(client.cancel(begun.id.clone()).await.unwrap().status.state, TaskState::Canceled);
    for stream in [&mut events, &mut watched] {
        let mut last = None;
        while let Some(event) = within("an event", stream.next()).await {
            last = Some(event.unwrap().payload().unwrap());
        }
        let state = match last {
            Some(StreamResponse::StatusUpdate(update)) => update.status.state,
            Some(StreamResponse::Task(task)) => task.status.state,
            other => panic!("no status: {other:?}"),
        };
        assert_eq!(state, TaskState::Canceled);
    }
}

#[tokio::test]
async fn a_peer_of_that_time_is_found_out_once() {
    for is_certain in [true, false] {
        let peer = peer(is_certain, |heard, params| {
            heard.result(&json!({"id": params["id"], "sessionId": "s", "status": {"state": "completed"},
                "artifacts": [{"parts": [{"type": "text", "text": "hi"}], "index": 0}]}))
        })
        .await;
        let client = Client::connect(&peer.url).await.unwrap();
        for _ in 0..2 {
            let task = task(client.send("hello").await.unwrap());
            assert_eq!((task.context_id.unwrap().as_str(), task.artifacts.len()), ("s", 1));
        }
        let methods: Vec<_> = peer
            .heard()
            .iter()
            .filter(|heard| !heard.line().starts_with("GET"))
            .map(|heard| heard.json()["method"].clone())
            .collect();
        let wanted: &[&str] = match is_certain {
            true => &["tasks/send", "tasks/send"],
            false => &["message/send", "tasks/send", "tasks/send"],
        };
        assert_eq!(methods, wanted);
    }
}

#[tokio::test]
async fn a_task_is_looked_at_before_anybody_knows_the_version() {
    let peer = peer(false, |heard, params| {
        heard.result(&json!({"id": params["id"], "sessionId": "s", "status": {"state": "working"},
            "artifacts": [{"parts": [{"type": "text", "text": "hi"}]}]}))
    })
    .await;
    let task = Client::connect(&peer.url).await.unwrap().get("1").await.unwrap();
    assert_eq!((task.id.as_str(), task.context_id.unwrap().as_str()), ("1", "s"));
    assert_eq!(task.artifacts[0].artifact_id.as_str(), "0");
}

#[tokio::test]
async fn numbers_of_errors_mean_what_they_meant() {
    for (number, code) in [
        (-32001, ErrorCode::TaskNotFound),
        (-32004, ErrorCode::UnsupportedOperation),
        (-32005, ErrorCode::ContentTypeNotSupported),
        (-32006, ErrorCode::UnsupportedOperation),
        (-32007, ErrorCode::Unauthenticated),
        (-32008, ErrorCode::PermissionDenied),
        (-32009, ErrorCode::UnsupportedOperation),
        (-32010, ErrorCode::ResourceExhausted),
        (-32011, ErrorCode::Unavailable),
        (-32602, ErrorCode::InvalidParams),
    ] {
        let peer = peer(true, move |heard, _| heard.error(number)).await;
        let client = Client::builder().version(Version::V0_1).retries(0).connect(&peer.url).await.unwrap();
        let failed = client.send("hello").await.unwrap_err();
        assert_eq!(failed.code(), Some(code), "{number}: {failed}");
        let failed = client.stream("hello").await.map(|_| ()).unwrap_err();
        assert!(matches!(&failed, ClientError::Peer(error) if error.code() == code), "{number}: {failed}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_by_the_name_of_its_task() {
    let status = |id: &Value, state: &str, is_last: bool| json!({"id": id, "status": {"state": state}, "final": is_last});
    let peer = peer(true, move |heard, params| {
        let id = &params["id"];
        let chunk = |text: &str, append: bool| {
            json!({"id": id, "artifact": {"parts": [{"type": "text", "text": text}], "index": 0, "append": append}})
        };
        match heard.json()["method"].as_str() {
            Some("tasks/sendSubscribe") => {
                Reply::cut(&heard.stream(&[(0, status(id, "working", false)), (0, chunk("one", false))]))
            }
            Some("tasks/resubscribe") => {
                Reply::events(heard.stream(&[(0, chunk("two", true)), (0, status(id, "completed", true))]))
            }
            // What came between the two streams would be in the task.
            Some("tasks/get") => {
                let artifacts = json!([{"parts": [{"type": "text", "text": "one"}], "index": 0}]);
                heard.result(&json!({"id": id, "status": {"state": "working"}, "artifacts": artifacts}))
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
    let client = Client::connect(&peer.url).await.unwrap();
    let mut events = client.stream("hello").await.unwrap();
    let mut said = Vec::new();
    while let Some(event) = within("an event", events.next()).await {
        if let StreamResponse::ArtifactUpdate(update) = event.unwrap().payload().unwrap() {
            said.push((update.artifact.parts[0].as_text().unwrap().to_owned(), update.append));
        }
    }
    assert_eq!(said, [("one".to_owned(), false), ("two".to_owned(), true)]);
    let ids: Vec<_> = peer
        .heard()
        .iter()
        .filter(|heard| !heard.line().starts_with("GET"))
        .map(|heard| heard.json()["params"]["id"].clone())
        .collect();
    assert!(ids.len() >= 3, "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}
