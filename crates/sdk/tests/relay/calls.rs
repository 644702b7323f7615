//! Calls with one answer, in every pairing of bindings.

use std::time::Duration;

use chancery_sdk::{ErrorCode, Outcome, Turn};
use serde_json::json;

use crate::pair::*;
use crate::support::*;

/// Asks back until it is told something else than a question.
fn asker() -> chancery_sdk::AgentSpec {
    agent(|turn: Turn| async move {
        Ok(match turn.task() {
            None => turn.ask("Which one?"),
            Some(_) => Outcome::text(format!("So {}", turn.text())),
        })
    })
}

#[tokio::test]
async fn a_task_is_the_same_here_and_there() {
    for (caller, there) in WAYS {
        let pair = pair(echo(), there).await;
        let sent = pair.relay.client(caller).say("hello").await;
        assert_eq!((state(&sent), text(&sent["artifacts"][0])), (COMPLETED, "hello"));
        let there = newest(&pair.agent).await;
        assert_ne!(id(&sent), there, "ids are the server's own");
        assert_eq!(bare(&sent), bare(&pair.agent.client(caller).get(&there).await));
        assert_eq!(pair.relay.client(caller).get(&id(&sent)).await, sent);
        let listed = pair.relay.client(caller).call("ListTasks", json!({})).await.result();
        assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &sent["id"]));
    }
}

#[tokio::test]
async fn tasks_whose_agent_tells_no_time_are_listed_as_they_came() {
    let peer = Peer::agent("JSONRPC", false, |_, heard| {
        let id = heard.json()["params"]["message"]["parts"][0]["text"].clone();
        heard.result(
            &json!({"task": {"id": id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}),
        )
    })
    .await;
    let client = serve_relay(&peer.url, Wire::JsonRpc).await.jsonrpc();
    let mut sent = Vec::new();
    for text in ["b", "c", "a"] {
        let task = client.say(text).await;
        assert!(task["status"]["timestamp"].is_string(), "{task}");
        sent.insert(0, id(&task));
        // Tasks of one millisecond have no order but that of their ids.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let listed = client.call("ListTasks", json!({})).await.result();
    let ids: Vec<_> = listed["tasks"].as_array().expect("tasks").iter().map(id).collect();
    assert_eq!(ids, sent);
}

#[tokio::test]
async fn a_send_is_one_exchange() {
    let peer = Peer::agent("JSONRPC", true, |_, heard| {
        let status = json!({"state": "TASK_STATE_COMPLETED"});
        heard.result(&json!({"task": {"id": "there/1", "contextId": "c", "status": status}}))
    })
    .await;
    let relay = serve_relay(&peer.url, Wire::JsonRpc).await;
    let configuration = json!({"historyLength": 3, "acceptedOutputModes": ["text/plain"]});
    let mut said = message("hello");
    said["contextId"] = json!("c");
    let sent = json!({"message": said, "configuration": configuration, "metadata": {"a": 1.0}});
    let task = relay.jsonrpc().call("SendMessage", sent).await.task();
    assert_ne!(id(&task), "there/1");
    assert_eq!(task["contextId"], "c");
    let [call] = &peer.calls()[..] else { panic!("one call: {:?}", peer.calls()) };
    let params = &call.json()["params"];
    let there = params["message"]["contextId"].as_str().expect("a context").to_owned();
    assert_ne!(there, "c", "a context of its own for each caller");
    said["contextId"] = json!(there);
    assert_eq!((&params["message"], &params["metadata"]), (&said, &json!({"a": 1.0})));
    // What is shown of the history is cut here; the journal has it whole.
    assert_eq!(params["configuration"], json!({"acceptedOutputModes": ["text/plain"]}));
    // A look at a task that has ended needs no look there.
    assert_eq!(relay.rest().get(&id(&task)).await, task);
    assert_eq!(peer.calls().len(), 1);
}

#[tokio::test]
async fn a_direct_answer_is_passed_on_and_not_kept() {
    for (caller, there) in WAYS {
        let run = |turn: Turn| async move { Ok(Outcome::reply(format!("You said {}", turn.text()))) };
        let direct = chancery_sdk::AgentSpec::new("tester", script(run).direct());
        let pair = pair(direct, there).await;
        let client = pair.relay.client(caller);
        let answer = client.send(message("hello")).await.result();
        assert_eq!(text(&answer["message"]), "You said hello", "{answer}");
        let mut events = client.stream(message("again")).await;
        assert_eq!(text(&events.one().await.payload()["message"]), "You said again");
        assert_eq!(events.next().await, None);
        let listed = client.call("ListTasks", json!({})).await.result();
        assert_eq!(listed["totalSize"], 0);
    }
}

#[tokio::test]
async fn a_question_is_answered_in_the_same_task() {
    for (caller, there) in WAYS {
        let pair = pair(asker(), there).await;
        let client = pair.relay.client(caller);
        let asked = client.say("one of them").await;
        assert_eq!((state(&asked), text(&asked["status"]["message"])), (INPUT_REQUIRED, "Which one?"));
        let wrong = json!({"messageId": "w", "role": "ROLE_USER", "parts": [{"text": "x"}],
            "taskId": id(&asked), "contextId": "another"});
        client.send(wrong).await.refused(ErrorCode::InvalidParams);
        let done = client.send(follow_up(&id(&asked), "this one")).await.task();
        assert_eq!((state(&done), text(&done["artifacts"][0])), (COMPLETED, "So this one"));
        let said: Vec<_> = done["history"].as_array().expect("a history").iter().map(text).collect();
        assert_eq!(said, ["one of them", "Which one?", "this one"]);
        assert_eq!(done["contextId"], asked["contextId"]);
        // Nothing follows the end.
        let late = client.send(follow_up(&id(&asked), "more")).await;
        late.refused(ErrorCode::UnsupportedOperation);
    }
}

#[tokio::test]
async fn a_cancel_stops_the_work_there() {
    for (caller, there) in WAYS {
        let pair = pair(sleeper(), there).await;
        let client = pair.relay.client(caller);
        let task = client.start("work").await;
        let mut events = client.subscribe(&id(&task)).await;
        events.one().await;
        let canceled = client.cancel(&id(&task)).await.task();
        assert_eq!(state(&canceled), CANCELED);
        assert!(events.rest().await.pop().expect("an end").is(CANCELED));
        let id_there = newest(&pair.agent).await;
        assert_eq!(state(&pair.agent.client(caller).get(&id_there).await), CANCELED);
        // Once more is no mistake, and neither is a look.
        assert_eq!(client.cancel(&id(&task)).await.task(), client.get(&id(&task)).await);
        let done = crate::pair::pair(echo(), there).await;
        let ended = done.relay.client(caller).say("x").await;
        done.relay.client(caller).cancel(&id(&ended)).await.refused(ErrorCode::TaskNotCancelable);
    }
}

#[tokio::test]
async fn what_is_not_waited_for_is_followed_to_its_end() {
    for (caller, there) in WAYS {
        let go = std::sync::Arc::new(tokio::sync::Notify::new());
        let gate = go.clone();
        let spec = agent(move |turn: Turn| {
            let gate = gate.clone();
            async move {
                turn.working("going on").await?;
                gate.notified().await;
                Ok(Outcome::text("done"))
            }
        });
        let pair = pair(spec, there).await;
        let client = pair.relay.client(caller);
        let task = client.start("work").await;
        assert!([WORKING, "TASK_STATE_SUBMITTED"].contains(&state(&task)));
        client.wait_for(&id(&task), WORKING).await;
        go.notify_one();
        let done = client.wait_for(&id(&task), COMPLETED).await;
        let there = newest(&pair.agent).await;
        assert_eq!(bare(&done), bare(&pair.agent.client(caller).get(&there).await));
    }
}

#[tokio::test]
async fn a_look_at_a_task_that_waits_asks_there() {
    let pair = pair(asker(), Wire::JsonRpc).await;
    let client = pair.relay.jsonrpc();
    let asked = client.say("one of them").await;
    // Somebody else answers, behind our back.
    let there = newest(&pair.agent).await;
    let done = pair.agent.rest().send(follow_up(&there, "this one")).await.task();
    let found = client.get(&id(&asked)).await;
    assert_eq!((state(&found), &found["artifacts"]), (COMPLETED, &done["artifacts"]));
    let shown = client.call("GetTask", json!({"id": id(&asked), "historyLength": 1})).await.task();
    assert_eq!(shown["history"].as_array().expect("a history").len(), 1);
}

#[tokio::test]
async fn a_repeated_send_is_the_first_one() {
    let pair = pair(asker(), Wire::JsonRpc).await;
    let ann = pair.relay.jsonrpc().by("r", "ann").with("idempotency-key", "k");
    let said = message("hello");
    let first = ann.send(said.clone()).await.task();
    assert_eq!(ann.send(said.clone()).await.task(), first);
    ann.send(message("other")).await.refused_with(ErrorCode::InvalidParams, "IDEMPOTENCY_KEY_REUSED");
    // Another caller's key is another key, there too.
    let bob = pair.relay.jsonrpc().by("r", "bob").with("idempotency-key", "k");
    assert_ne!(id(&bob.send(said).await.task()), id(&first));
}

#[tokio::test]
async fn what_was_asked_with_goes_along_and_who_asked_does_not() {
    let peer = Peer::agent("HTTP+JSON", false, |_, _| {
        let status = json!({"state": "TASK_STATE_COMPLETED"});
        Reply::json(200, &json!({"task": {"id": "t", "contextId": "c", "status": status}}))
    })
    .await;
    let relay = serve_relay(&peer.url, Wire::Rest).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let client = relay
        .jsonrpc()
        .by("r", "ann")
        .with("traceparent", trace)
        .with("a2a-extensions", "urn:x:one, urn:x:two");
    client.say("hello").await;
    let call = &peer.calls()[0];
    assert_eq!(call.line(), "POST /message:send");
    assert_eq!(call.header("traceparent"), Some(trace));
    assert_eq!(call.header("a2a-extensions"), Some("urn:x:one, urn:x:two"));
    assert_eq!(call.header("a2a-version"), Some("1.0"));
    assert_eq!(call.header("authorization"), None);
    assert!(!call.head.contains("ann"), "{}", call.head);
}

/// As `tests/fidelity.rs` has it.
const TOKENS: &str = r#"{"z":7,"a":7.0,"big":12345678901234567890,"huge":1e400,"small":-0.0,"exp":1E+2,"nested":{"b":[1.10,null,true],"a":{}},"esc":"\u0041\/é"}"#;

#[tokio::test]
async fn user_json_is_kept_token_for_token() {
    for &(caller, there) in WAYS_IN_JSON {
        let spec = agent(|turn: Turn| async move {
            let part = turn.message().parts[0].clone();
            turn.artifact(chancery_sdk::Artifact::new("mirror", vec![part.clone()])).await?;
            Ok(Outcome::completed().with_message(vec![part]))
        });
        let pair = pair(spec, there).await;
        let client = pair.relay.client(caller);
        let params = format!(
            r#"{{"message":{{"messageId":"m","role":"ROLE_USER","metadata":{TOKENS},"parts":[{{"data":{TOKENS}}}]}}}}"#
        );
        // Twice in the history, once in the artifact, once in the status.
        let answer = client.call_text("SendMessage", &params).await;
        assert_eq!(answer.body.matches(TOKENS).count(), 4, "{}", answer.body);
        let mut stream = client.try_open("SendStreamingMessage", &params).await.expect("a stream");
        let events = stream.rest().await;
        let counts: usize = events.iter().map(|event| event.data.matches(TOKENS).count()).sum();
        assert_eq!(counts, 4, "{events:?}");
        let listed = client.call("ListTasks", json!({"includeArtifacts": true})).await;
        assert_eq!(listed.body.matches(TOKENS).count(), 8, "{}", listed.body);
    }
}

#[tokio::test]
async fn the_card_is_the_agents_with_our_interfaces() {
    let spec = echo().description("Says it again").provider("Somebody", "https://somebody.example");
    let spec = spec.skill(chancery_sdk::AgentSkill::new("echo", "Echo", "Repeats").tag("demo"));
    let spec = spec.streaming(false).push_notifications(false).input_modes(["text/plain"]);
    let agent = serve(spec).await;
    let relay = serve_relay(&format!("http://{}", agent.address), Wire::Rest).await;
    let path = "/.well-known/agent-card.json";
    let there = agent.rest().fetch(http::Method::GET, path, String::new()).await.json();
    let here = relay.rest().fetch(http::Method::GET, path, String::new()).await.json();
    for same in
        ["name", "description", "version", "provider", "skills", "defaultInputModes", "defaultOutputModes"]
    {
        assert_eq!(here[same], there[same], "{same}");
    }
    for interface in here["supportedInterfaces"].as_array().expect("interfaces") {
        let url = interface["url"].as_str().expect("a URL");
        // That of gRPC is the bare place.
        assert!(url.trim_start_matches("http://").starts_with(&relay.address.to_string()), "{here}");
    }
    // The agent can do neither; here both can be done.
    let capabilities = &here["capabilities"];
    assert_eq!(
        (&capabilities["streaming"], &capabilities["pushNotifications"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(capabilities["extendedAgentCard"], json!(false));
    let mut extensions = capabilities["extensions"].as_array().expect("extensions").clone();
    extensions.retain(|known| known["uri"] != chancery_sdk::PROVENANCE_EXTENSION);
    assert_eq!(json!(extensions), there["capabilities"]["extensions"]);
    relay.rest().call("GetExtendedAgentCard", json!({})).await.refused(ErrorCode::UnsupportedOperation);
}
