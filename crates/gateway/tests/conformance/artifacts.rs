//! Artifacts: what an agent makes, in every kind of part.

use serde_json::json;

use crate::client::{id, message, state};
use crate::schema;
use crate::server::{Pass, Server};

#[test]
fn artifacts_come_in_every_kind_of_part() {
    let file = json!({
        "raw": "R2VuZXJhdGVkIGZpbGUgY29udGVudA==", "filename": "output.txt", "mediaType": "text/plain",
    });
    let by_url = json!({
        "url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain",
    });
    let server = Server::start(Pass::All);
    for client in server.clients() {
        for (prefix, part) in [
            ("tck-artifact-text", &json!({"text": "Generated text content"})),
            ("tck-artifact-file", &file),
            ("tck-artifact-file-url", &by_url),
            ("tck-artifact-data", &json!({"data": {"key": "value", "count": 42}})),
        ] {
            let task = client.task(&message(prefix));
            schema::check(&schema::TASK, &task);
            assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{:?}: {prefix}", client.binding);
            let artifacts = task["artifacts"].as_array().expect("artifacts");
            assert_eq!(artifacts.len(), 1, "{:?}: {prefix}", client.binding);
            assert_eq!(artifacts[0]["parts"], json!([part]), "{:?}: {prefix}", client.binding);
            assert_eq!(client.get(id(&task)), task, "{:?}: {prefix}", client.binding);
        }
    }
}
