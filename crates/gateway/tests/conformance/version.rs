//! Which version of the protocol is spoken.

use serde_json::json;

use crate::client::{Binding, message, state};
use crate::errors::VERSION_NOT_SUPPORTED;
use crate::server::{Pass, Server};

#[test]
fn versions_that_are_not_served_are_refused() {
    for pass in Pass::EACH {
        let server = Server::start(pass);
        for client in server.clients() {
            for version in ["99.0", "0.3", "1.1", "1", "new", ""] {
                let client = client.with("A2A-Version", version);
                for operation in ["SendMessage", "SendStreamingMessage"] {
                    let refusal =
                        client.refusal(operation, &json!({"message": message("tck-complete-task")}));
                    refusal.expect(&VERSION_NOT_SUPPORTED);
                }
                client.refusal("GetTask", &json!({"id": "any"})).expect(&VERSION_NOT_SUPPORTED);
                client.refusal("ListTasks", &json!({})).expect(&VERSION_NOT_SUPPORTED);
            }
        }
    }
}

#[test]
fn a_call_that_names_no_version_speaks_an_old_one() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let client = client.without("A2A-Version");
        let refusal = client.refusal("SendMessage", &json!({"message": message("tck-complete-task")}));
        refusal.expect(&VERSION_NOT_SUPPORTED);
    }
}

#[test]
fn patches_make_no_difference() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for version in ["1.0", "1.0.0", "1.0.1", "1.0.99", " 1.0 "] {
            client.with("A2A-Version", version).completed();
        }
    }
}

#[test]
fn the_version_may_be_in_the_query() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let client = client.without("A2A-Version");
        let send = json!({"message": message("tck-complete-task")});
        let (path, body) = match client.binding {
            Binding::JsonRpc => {
                ("/", json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": send}))
            }
            Binding::HttpJson => ("/message:send", send),
        };
        let ask = |version: &str| {
            let response = client.raw("POST", &format!("{path}?A2A-Version={version}"), body.to_string());
            client.read(response.status, response.json())
        };
        let reply = ask("1.0").expect("a task");
        assert_eq!(state(&reply["task"]), "TASK_STATE_COMPLETED", "{:?}", client.binding);
        ask("99.0").expect_err("no version").expect(&VERSION_NOT_SUPPORTED);
    }
}
