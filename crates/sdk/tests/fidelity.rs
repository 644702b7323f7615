//! What belongs to the user comes back as it was written, token for token, however it travels.

mod support;

use chancery_sdk::{Artifact, Content, JsonObject, Outcome, Part, Turn};
use serde_json::json;
use support::*;

/// Numbers that a parser would like to improve, keys in no order, a key that looks like ours, escapes.
const TOKENS: &str = r#"{"z":7,"a":7.0,"big":12345678901234567890,"huge":1e400,"small":-0.0,"exp":1E+2,"timestamp":"2020-01-01 not a time","nested":{"timestamp":5,"b":[1.10,null,true],"a":{}},"esc":"\u0041\/é","a":"twice"}"#;

/// The same with white space of every kind between the tokens.
fn pretty() -> String {
    let spaced = TOKENS.replace(",\"", ",\r\n\t\"").replace(":{", ": {\n ").replace('}', "\n}");
    assert!(spaced.contains('\n') && spaced.contains('\r') && spaced.contains('\t'));
    spaced
}

/// Gives back what it was given: the data part as an artifact, the metadata on it, both in a status too.
fn mirror() -> chancery_sdk::AgentSpec {
    agent(|turn: Turn| async move {
        let part = turn.message().parts[0].clone();
        let metadata = turn.message().metadata.clone();
        let mut artifact = Artifact::new("mirror", vec![part.clone()]);
        artifact.metadata.clone_from(&metadata);
        turn.artifact(artifact).await?;
        Ok(Outcome::completed().with_message(vec![Part { metadata, ..part }]))
    })
}

/// A send whose data, part metadata and message metadata are all this text.
fn params(json: &str) -> String {
    format!(
        r#"{{"message":{{"messageId":"m","role":"ROLE_USER","metadata":{json},
        "parts":[{{"data":{json},"metadata":{json}}}]}}}}"#
    )
}

/// How often the compact text stands in an answer.
fn count(body: &str) -> usize {
    body.matches(TOKENS).count()
}

#[tokio::test]
async fn user_json_survives_send_get_and_list_on_both_bindings() {
    let site = serve(mirror()).await;
    for wire in WIRES {
        let client = site.client(wire);
        for sent in [TOKENS.to_owned(), pretty()] {
            let answer = client.call_text("SendMessage", &params(&sent)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            // Three times in the history, three in the artifact, two in the status message.
            assert_eq!(count(&answer.body), 8, "{}", answer.body);
            let id = id_in(&answer.body);
            let got = client.call("GetTask", json!({"id": id})).await;
            assert_eq!(count(&got.body), 8, "{}", got.body);
        }
        let listed = client.call("ListTasks", json!({"includeArtifacts": true})).await;
        assert_eq!(count(&listed.body) % 16, 0, "{}", listed.body);
        assert!(count(&listed.body) >= 16);
    }
}

/// The id of the first task in an answer. The answer itself holds numbers that few parsers take.
fn id_in(body: &str) -> String {
    let start = body.find(r#""task":{"id":""#).expect("a task") + 14;
    body[start..].split('"').next().expect("an id").to_owned()
}

#[tokio::test]
async fn user_json_survives_streams_in_one_line() {
    let site = serve(mirror()).await;
    for wire in WIRES {
        let client = site.client(wire);
        for sent in [TOKENS.to_owned(), pretty()] {
            // The reader itself refuses an event of more than one data line.
            let mut stream = client.try_open("SendStreamingMessage", &params(&sent)).await.expect("a stream");
            let events = stream.rest().await;
            let counts: Vec<_> = events.iter().map(|event| count(&event.data)).collect();
            assert_eq!(counts, [3, 0, 3, 2], "{events:?}");
            let replayed = client.resume(&id_in(&events[0].data), 0).await.rest().await;
            assert_eq!(replayed, events);
        }
    }
}

#[tokio::test]
async fn values_that_are_no_objects_survive_as_data() {
    let site = serve(mirror()).await;
    for wire in WIRES {
        let client = site.client(wire);
        for data in ["null", "7", "7.0", "1e400", "-0", "\"x\"", "[]", "[ 1 ,2.0 ]", "false", "{}"] {
            let params = format!(
                r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{data}}}]}}}}"#
            );
            let answer = client.call_text("SendMessage", &params).await;
            let expected = format!(r#""data":{}}}"#, data.replace(' ', ""));
            assert_eq!(answer.body.matches(&expected).count(), 3, "{data} in {}", answer.body);
        }
    }
}

#[tokio::test]
async fn the_agent_sees_the_very_tokens() {
    let spec = agent(|turn: Turn| async move {
        let Content::Data(data) = &turn.message().parts[0].content else {
            return Ok(Outcome::failed("no data"));
        };
        let metadata = turn.message().metadata.as_ref().map(JsonObject::as_str);
        Ok(Outcome::text((data.as_str() == TOKENS && metadata == Some(TOKENS)).to_string()))
    });
    let client = serve(spec).await.rest();
    for sent in [TOKENS.to_owned(), pretty()] {
        let answer = client.call_text("SendMessage", &params(&sent)).await;
        assert!(answer.body.contains(r#"[{"text":"true"}]"#), "{}", answer.body);
    }
}

#[tokio::test]
async fn texts_with_newlines_and_odd_characters_survive_streams() {
    const ODD: &str =
        "one\ntwo\r\nthree\u{2028}four\u{0}five \"six\" \\seven\u{1F600}\n\ndata: not a field\n";
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let events = client.stream(message(ODD)).await.rest().await;
        let artifact = events.iter().find(|event| event.kind() == "artifactUpdate").expect("an artifact");
        assert_eq!(text(&artifact.payload()["artifactUpdate"]["artifact"]), ODD);
        assert_eq!(text(&client.say(ODD).await["artifacts"][0]), ODD);
    }
}

#[tokio::test]
async fn bytes_urls_and_names_come_back_whole() {
    let site = serve(agent(|turn: Turn| async move {
        Ok(Outcome::artifact(Artifact::new("a", turn.message().parts.clone())))
    }))
    .await;
    let parts = json!([
        {"raw": "AAEC/w==", "filename": "a.bin", "mediaType": "application/octet-stream"},
        {"url": "https://example.com/a%20b?c=d", "mediaType": "text/html"},
        {"text": ""},
    ]);
    for wire in WIRES {
        let sent = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
        let task = site.client(wire).send(sent).await.task();
        assert_eq!(task["artifacts"][0]["parts"], parts);
    }
}
