//! What goes wrong there, told here in the way the caller speaks.

use std::net::TcpListener;

use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::testing::{Peer, Reply};
use serde_json::json;

use crate::pair::*;
use crate::support::{Wire, follow_up, message};

const PASSED_ON: [ErrorCode; 5] = [
    ErrorCode::ContentTypeNotSupported,
    ErrorCode::UnsupportedOperation,
    ErrorCode::ExtensionSupportRequired,
    ErrorCode::InvalidParams,
    ErrorCode::InvalidAgentResponse,
];

#[tokio::test]
async fn an_error_is_told_in_the_callers_binding() {
    for &(caller, there) in WAYS_IN_JSON {
        for code in PASSED_ON {
            let peer = Peer::script().card(binding(there)).answer_with(move |heard| heard.error(code));
            let peer = peer.start().expect("a port");
            let relay = serve_relay(peer.url(), there).await;
            let client = relay.client(caller);
            let told = client.send(message("hello")).await.refused(code);
            assert_eq!(told.message, code.row().message);
            let params = json!({"message": message("hello")}).to_string();
            let streamed = client.try_open("SendStreamingMessage", &params).await;
            streamed.err().expect("an error").refused(code);
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_message_is_named_by_its_field() {
    for (caller, there) in WAYS {
        let pair = pair(crate::support::echo().input_modes(["text/plain"]), there).await;
        let client = pair.relay.client(caller);
        let picture = json!({"messageId": "m", "role": "ROLE_USER",
            "parts": [{"text": "see"}, {"url": "https://x.example/a.png", "mediaType": "image/png"}]});
        client.send(picture).await.refused(ErrorCode::ContentTypeNotSupported);
        let empty = json!({"messageId": "m", "role": "ROLE_USER", "parts": []});
        let refused = client.send(empty).await.refused(ErrorCode::InvalidParams);
        assert_eq!(refused.field, "message.parts");
    }
}

#[tokio::test]
async fn that_the_agent_refuses_us_is_not_the_callers_fault() {
    for code in [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied] {
        let peer = Peer::script().card(ProtocolBinding::HttpJson).answer_with(move |heard| heard.error(code));
        let peer = peer.start().expect("a port");
        let relay = serve_relay(peer.url(), Wire::Rest).await;
        relay.rest().send(message("hello")).await.refused(ErrorCode::Internal);
    }
}

#[tokio::test]
async fn an_agent_out_of_reach_is_unavailable_and_leaves_nothing() {
    for &(caller, there) in WAYS_IN_JSON {
        let peer = Peer::script().card(binding(there)).answer(Reply::close()).start().expect("a port");
        let relay = serve_relay(peer.url(), there).await;
        let address = peer.url().trim_start_matches("http://").to_owned();
        let client = relay.client(caller);
        client.send(message("cut off")).await.refused(ErrorCode::Unavailable);
        drop(peer);
        // Nobody else is to get the port meanwhile; a listener that accepts nothing is as good as none.
        let silent = TcpListener::bind(&address).ok();
        drop(silent);
        let refused = client.send(message("nobody there")).await;
        let told = refused.refused(ErrorCode::Unavailable);
        assert!(told.message.contains("try again"), "{told:?}");
        if caller == Wire::Rest {
            assert_eq!(refused.status, 503);
        }
        let params = json!({"message": message("hello")}).to_string();
        let streamed = client.try_open("SendStreamingMessage", &params).await;
        streamed.err().expect("an error").refused(ErrorCode::Unavailable);
        let listed = client.call("ListTasks", json!({})).await.result();
        assert_eq!(listed["totalSize"], 0);
    }
}

#[tokio::test]
async fn a_task_that_the_agent_has_forgotten_has_failed() {
    let peer = Peer::script()
        .card(ProtocolBinding::JsonRpc)
        .answer_with(|heard| {
            let status = json!({"state": "TASK_STATE_INPUT_REQUIRED"});
            heard.result(&json!({"task": {"id": "t", "contextId": "c", "status": status}}))
        })
        .answer_with(|heard| heard.error(ErrorCode::TaskNotFound))
        .start()
        .expect("a port");
    let relay = serve_relay(peer.url(), Wire::JsonRpc).await;
    let client = relay.rest();
    let task = crate::support::id(&client.say("hello").await);
    client.send(follow_up(&task, "more")).await.refused(ErrorCode::TaskNotFound);
    let failed = client.get(&task).await;
    assert_eq!(crate::support::state(&failed), crate::support::FAILED);
    assert!(crate::support::text(&failed["status"]["message"]).contains("no longer knows"));
}
