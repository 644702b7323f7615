//! Push notifications: refused where they are switched off.

use serde_json::json;

use crate::client::{id, message, state};
use crate::errors::PUSH_NOT_SUPPORTED;
use crate::server::{Pass, Server};

#[test]
fn push_configurations_are_refused() {
    let server = Server::start(Pass::None);
    for client in server.clients() {
        let task = client.completed();
        for task in [id(&task), "tck-error-code-003"] {
            let one = json!({"taskId": task, "id": "tck-push-5eed"});
            let config = json!({"taskId": task, "id": "tck-push-5eed", "url": "https://example.com/hook"});
            for (operation, params) in [
                ("CreateTaskPushNotificationConfig", &config),
                ("GetTaskPushNotificationConfig", &one),
                ("ListTaskPushNotificationConfigs", &json!({"taskId": task})),
                ("DeleteTaskPushNotificationConfig", &one),
            ] {
                client.refusal(operation, params).expect(&PUSH_NOT_SUPPORTED);
            }
        }
    }
}

#[test]
fn a_message_with_a_push_configuration_is_refused_and_starts_nothing() {
    let server = Server::start_with(&["--agent", "conformance", "--capabilities", "streaming"]);
    for client in server.clients() {
        let config = json!({"id": "tck-push-5eed", "url": "https://example.com/hook",
            "authentication": {"scheme": "Bearer", "credentials": "tck-test-token"}});
        let send = json!({"message": message("tck-input-required"),
            "configuration": {"taskPushNotificationConfig": config}});
        for operation in ["SendMessage", "SendStreamingMessage"] {
            client.refusal(operation, &send).expect(&PUSH_NOT_SUPPORTED);
        }
        assert_eq!(client.call("ListTasks", &json!({}))["totalSize"], 0, "{:?}", client.binding);
    }
}

#[test]
fn a_follow_up_with_a_push_configuration_changes_nothing() {
    let server = Server::start(Pass::None);
    for client in server.clients() {
        let waiting = client.waiting();
        let mut follow_up = message("tck-complete-task");
        follow_up["taskId"] = waiting["id"].clone();
        let configuration = json!({"taskPushNotificationConfig": {"url": "https://example.com/hook"}});
        let send = json!({"message": follow_up, "configuration": configuration});
        client.refusal("SendMessage", &send).expect(&PUSH_NOT_SUPPORTED);
        assert_eq!(state(&client.get(id(&waiting))), "TASK_STATE_INPUT_REQUIRED", "{:?}", client.binding);
    }
}
