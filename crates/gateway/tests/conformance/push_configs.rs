//! Push notification configurations: kept, shown, replaced and deleted, and refused if they lead nowhere good.

use serde_json::{Value, json};

use crate::client::{Client, id, message, with};
use crate::errors::{INVALID_PARAMS, TASK_NOT_FOUND};
use crate::server::{EXTENSION, Pass, Server};

const CREATE: &str = "CreateTaskPushNotificationConfig";
const GET: &str = "GetTaskPushNotificationConfig";
const LIST: &str = "ListTaskPushNotificationConfigs";
const DELETE: &str = "DeleteTaskPushNotificationConfig";

/// Runs something with both clients, in each pass that has push notifications.
pub(crate) fn for_each_client(run: impl Fn(&Client)) {
    for pass in [Pass::All, Pass::Extension] {
        let server = Server::start_beside_receivers(pass);
        for client in server.clients() {
            run(&client.with("A2A-Extensions", EXTENSION));
        }
    }
}

fn config(task: &str, id: &str, url: &str) -> Value {
    json!({"taskId": task, "id": id, "url": url, "token": "tck-token",
        "authentication": {"scheme": "Bearer", "credentials": "tck-test-token"}})
}

/// All configurations of a task. An empty list may be left out.
fn configs(client: &Client, task: &str) -> Vec<Value> {
    let list = client.call(LIST, &json!({"taskId": task}));
    list.get("configs").map_or(Vec::new(), |configs| configs.as_array().expect("a list").clone())
}

#[test]
fn a_configuration_is_kept_as_it_was_given() {
    for_each_client(|client| {
        let task = client.completed();
        let given = config(id(&task), "tck-push-1", "https://example.com/hook");
        assert_eq!(client.call(CREATE, &given), given, "{:?}", client.binding);
        let one = json!({"taskId": id(&task), "id": "tck-push-1"});
        assert_eq!(client.call(GET, &one), given, "{:?}", client.binding);
        assert_eq!(configs(client, id(&task)), [given], "{:?}", client.binding);
    });
}

#[test]
fn a_configuration_without_an_id_is_given_one() {
    for_each_client(|client| {
        let task = client.waiting();
        let given = json!({"taskId": id(&task), "url": "https://example.com/hook"});
        let kept = [client.call(CREATE, &given), client.call(CREATE, &given)];
        assert_ne!(id(&kept[0]), id(&kept[1]), "{:?}", client.binding);
        for config in &kept {
            assert_eq!(*config, with(given.clone(), "id", id(config)), "{:?}", client.binding);
            let one = json!({"taskId": id(&task), "id": id(config)});
            assert_eq!(client.call(GET, &one), *config, "{:?}", client.binding);
        }
        assert_eq!(configs(client, id(&task)), kept, "{:?}", client.binding);
    });
}

#[test]
fn a_configuration_takes_the_place_of_the_one_with_its_id() {
    for_each_client(|client| {
        let task = client.waiting();
        client.call(CREATE, &config(id(&task), "tck-push-1", "https://example.com/one"));
        let second = config(id(&task), "tck-push-1", "https://example.com/two");
        client.call(CREATE, &second);
        assert_eq!(configs(client, id(&task)), [second], "{:?}", client.binding);
    });
}

#[test]
fn deleting_twice_is_deleting_once() {
    for_each_client(|client| {
        let task = client.completed();
        let (one, other) =
            (json!({"taskId": id(&task), "id": "one"}), config(id(&task), "other", "https://example.com"));
        client.call(CREATE, &config(id(&task), "one", "https://example.com/hook"));
        client.call(CREATE, &other);
        for _ in 0..2 {
            client.call(DELETE, &one);
            client.refusal(GET, &one).expect(&TASK_NOT_FOUND);
            assert_eq!(configs(client, id(&task)), std::slice::from_ref(&other), "{:?}", client.binding);
        }
    });
}

#[test]
fn what_belongs_to_no_task_is_not_found() {
    for_each_client(|client| {
        let task = "tck-nonexistent-5eed";
        let one = json!({"taskId": task, "id": "one"});
        client.refusal(CREATE, &config(task, "one", "https://example.com/hook")).expect(&TASK_NOT_FOUND);
        client.refusal(LIST, &json!({"taskId": task})).expect(&TASK_NOT_FOUND);
        for operation in [GET, DELETE] {
            client.refusal(operation, &one).expect(&TASK_NOT_FOUND);
        }
        let known = client.completed();
        client.refusal(GET, &json!({"taskId": id(&known), "id": "one"})).expect(&TASK_NOT_FOUND);
        assert!(configs(client, id(&known)).is_empty(), "{:?}", client.binding);
    });
}

#[test]
fn a_configuration_that_comes_with_a_message_is_one_of_the_task_s() {
    for_each_client(|client| {
        let given = json!({"id": "tck-push-1", "url": "https://example.com/hook", "token": "tck-token"});
        let mut send = json!({"message": message("tck-input-required"),
            "configuration": {"taskPushNotificationConfig": given}});
        let task = client.call("SendMessage", &send)["task"].take();
        let kept = with(given, "taskId", id(&task));
        assert_eq!(configs(client, id(&task)), std::slice::from_ref(&kept), "{:?}", client.binding);
        // A follow-up brings another one, without an id.
        send["message"]["taskId"] = task["id"].clone();
        send["configuration"]["taskPushNotificationConfig"] = json!({"url": "https://example.com/other"});
        client.open("SendStreamingMessage", &send).for_each(drop);
        let found = configs(client, id(&task));
        assert_eq!((found.len(), &found[0]), (2, &kept), "{:?}: {found:?}", client.binding);
        assert_eq!(found[1]["url"], "https://example.com/other");
        assert!(!id(&found[1]).is_empty());
    });
}

/// What is no place to post to, or one that only this machine or its neighbours can reach.
const HOSTILE: [&str; 16] = [
    "",
    "hook",
    "/hook",
    "file:///etc/passwd",
    "ftp://example.com/hook",
    "gopher://example.com/",
    "http://user:password@example.com/hook",
    "http://10.0.0.1/hook",
    "http://192.168.1.1/hook",
    "http://169.254.169.254/latest/meta-data/",
    "http://0.0.0.0/hook",
    "http://2130706433/hook",
    "http://0x7f000001/hook",
    "http://[::1]/hook",
    "http://[::ffff:10.0.0.1]/hook",
    "http://example.com:25/hook",
];

#[test]
fn hostile_urls_are_refused_when_they_come() {
    for_each_client(|client| {
        let task = client.waiting();
        let before = client.call("ListTasks", &json!({}))["totalSize"].take();
        for url in HOSTILE {
            let refusal = client.refusal(CREATE, &config(id(&task), "one", url));
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some("url"), "{:?} {url}", client.binding);
            let send = json!({"message": message("tck-complete-task"),
                "configuration": {"taskPushNotificationConfig": {"url": url}}});
            for operation in ["SendMessage", "SendStreamingMessage"] {
                let refusal = client.refusal(operation, &send);
                refusal.expect(&INVALID_PARAMS);
                let field = Some("configuration.taskPushNotificationConfig.url");
                assert_eq!(refusal.field(), field, "{:?} {url}", client.binding);
            }
        }
        assert!(configs(client, id(&task)).is_empty(), "{:?}", client.binding);
        assert_eq!(client.call("ListTasks", &json!({}))["totalSize"], before, "nothing was started");
    });
}

#[test]
fn this_machine_is_no_receiver_unless_it_is_allowed() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let task = client.waiting();
        for host in ["127.0.0.1", "127.9.9.9:8080", "[::ffff:127.0.0.1]", "localhost", "a.localhost"] {
            let url = &format!("http://{host}/hook");
            let refusal = client.refusal(CREATE, &config(id(&task), "one", url));
            refusal.expect(&INVALID_PARAMS);
            assert_eq!(refusal.field(), Some("url"), "{:?} {url}", client.binding);
        }
    }
}

#[test]
fn secrets_that_could_be_no_header_are_refused_when_they_are_given() {
    for_each_client(|client| {
        let task = client.waiting();
        let long = "x".repeat(4097);
        for secret in ["a\r\nX-Injected: 1", "a\nb", "a\u{0}", "a\u{7f}", "ü", &long] {
            for place in ["/token", "/authentication/scheme", "/authentication/credentials"] {
                let mut given = config(id(&task), "tck-push-1", "https://example.com/hook");
                *given.pointer_mut(place).expect("it is there") = json!(secret);
                client.refusal(CREATE, &given).expect(&INVALID_PARAMS);
            }
        }
        assert_eq!(configs(client, id(&task)), [] as [Value; 0], "{:?}", client.binding);
    });
}
