//! Push notifications as they reach a receiver.

use serde_json::{Value, json};

use crate::client::{id, message, with};
use crate::push_configs::for_each_client;
use crate::receiver::Receiver;

#[test]
fn a_receiver_is_posted_what_a_stream_shows() {
    for_each_client(|client| {
        let receiver = Receiver::start();
        let config = json!({"url": receiver.url("/hook?of=mine"), "token": "tck-token",
            "authentication": {"scheme": "Bearer", "credentials": "tck-test-token"}});
        for behaviour in ["tck-stream-artifact-chunked", "tck-stream-001"] {
            let send = json!({"message": message(behaviour),
                "configuration": {"taskPushNotificationConfig": config}});
            let shown: Vec<_> = client.open("SendStreamingMessage", &send).collect();
            let notices = receiver.rest();
            let posted: Vec<_> = notices.iter().map(|notice| notice.event.clone()).collect();
            assert_eq!(posted, shown, "{:?}", client.binding);
            for notice in notices {
                assert_eq!(notice.request_line, "POST /hook?of=mine HTTP/1.1");
                assert_eq!(notice.header("content-type"), Some("application/a2a+json"));
                assert_eq!(notice.header("authorization"), Some("Bearer tck-test-token"));
                assert_eq!(notice.header("x-a2a-notification-token"), Some("tck-token"));
                assert_eq!(notice.header("a2a-version"), Some("1.0"));
            }
        }
        assert!(receiver.is_silent());
    });
}

#[test]
fn a_unary_send_is_posted_to_its_end() {
    for_each_client(|client| {
        let receiver = Receiver::start();
        for immediately in [true, false] {
            let send = json!({"message": message("tck-artifact-text"), "configuration":
                {"returnImmediately": immediately, "taskPushNotificationConfig": {"url": receiver.url("/")}}});
            let task = client.call("SendMessage", &send)["task"].take();
            let notices = receiver.rest();
            assert_eq!(notices[0].event["task"]["id"], task["id"], "{:?}", client.binding);
            assert_eq!(notices.last().and_then(|last| last.state()), Some("TASK_STATE_COMPLETED"));
            let artifact = notices.iter().find_map(|notice| notice.event.get("artifactUpdate"));
            let text = |artifact: &Value| artifact["artifact"]["parts"][0]["text"].clone();
            assert_eq!(artifact.map(text), Some(json!("Generated text content")), "{:?}", client.binding);
            assert!(notices.iter().all(|notice| notice.header("authorization").is_none()));
        }
    });
}

#[test]
fn who_registers_later_is_posted_what_comes_later() {
    for_each_client(|client| {
        let (receiver, gone) = (Receiver::start(), Receiver::start());
        let task = client.waiting();
        for (name, url) in [("gone", gone.url("/")), ("here", receiver.url("/"))] {
            let config = json!({"taskId": id(&task), "id": name, "url": url});
            client.call("CreateTaskPushNotificationConfig", &config);
        }
        client.call("DeleteTaskPushNotificationConfig", &json!({"taskId": id(&task), "id": "gone"}));
        client.task(&with(message("tck-complete-task"), "taskId", id(&task)));
        let states: Vec<_> = receiver.rest().iter().map(|notice| notice.state().map(str::to_owned)).collect();
        let expected = ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"].map(|state| Some(state.to_owned()));
        assert_eq!(states, expected, "{:?}", client.binding);
        assert!(gone.is_silent(), "{:?}", client.binding);
    });
}

#[test]
fn a_cancel_is_posted_to_every_receiver() {
    for_each_client(|client| {
        let receivers = [Receiver::start(), Receiver::start()];
        let task = client.waiting();
        for receiver in &receivers {
            let config = json!({"taskId": id(&task), "url": receiver.url("/")});
            client.call("CreateTaskPushNotificationConfig", &config);
        }
        client.call("CancelTask", &json!({"id": id(&task)}));
        for receiver in &receivers {
            let notice = receiver.next();
            assert_eq!(notice.state(), Some("TASK_STATE_CANCELED"), "{:?}", client.binding);
            assert_eq!(notice.event["statusUpdate"]["taskId"], task["id"], "{:?}", client.binding);
        }
    });
}
