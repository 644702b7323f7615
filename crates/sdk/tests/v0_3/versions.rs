//! Which version a call speaks, and what becomes of one that is not served.

use chancery_sdk::protocol::Version;
use http::Method;
use serde_json::json;

use crate::agents::*;
use crate::support::{serve, serve_with};

#[tokio::test]
async fn the_method_decides_and_the_header_must_agree() {
    let site = serve(obedient()).await;
    let client = site.jsonrpc();
    let params = json!({"message": message("hi")});
    for version in ["", "0.3", "0.3.0", "0.2.5"] {
        let old = client.clone().with("a2a-version", version);
        assert_eq!(old.call("message/send", params.clone()).await.result()["kind"], "task", "{version}");
    }
    for (version, code) in [("1.0", -32601), ("9.0", -32004), ("x", -32004)] {
        let answer = client.clone().with("a2a-version", version).call("message/send", params.clone()).await;
        assert_eq!(answer.json()["error"]["code"], code, "{answer:?}");
    }
    // Both versions see the same task.
    let old = client.clone().without("a2a-version");
    let id = old.call("message/send", params).await.result()["id"].clone();
    assert_eq!(
        client.call("GetTask", json!({"id": id})).await.result()["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
    // To a caller of v1.0, `v1` is a tenant.
    let tenant = site.rest().fetch(Method::GET, "/v1/tasks", String::new()).await;
    assert_eq!(tenant.json()["error"]["code"], 400, "{tenant:?}");
}

#[tokio::test]
async fn a_version_that_is_switched_off_is_refused_in_its_own_words() {
    let site = serve_with(|server| server.agent(obedient()).without_version(Version::V0_3)).await;
    let old = site.jsonrpc().without("a2a-version");
    let answer = old.call("message/send", json!({"message": message("hi")})).await.json();
    assert_eq!(answer["error"]["code"], -32004);
    assert_eq!(answer["error"]["data"][0]["reason"], "VERSION_NOT_SUPPORTED");
    assert_eq!(answer["error"]["data"][0]["metadata"]["supportedVersions"], "0.1,1.0");
    let rest = site.rest().without("a2a-version").fetch(Method::GET, "/v1/tasks/x", String::new()).await;
    assert_eq!((rest.status, &rest.json()["code"]), (501, &json!(-32004)));
    assert_eq!(site.jsonrpc().say("hi").await["status"]["state"], "TASK_STATE_COMPLETED");
}
