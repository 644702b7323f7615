//! What is wrong with a request is said precisely, with the code that the protocol has for it.

mod support;

use chancery_sdk::protocol::{AgentExtension, MAX_DEPTH};
use chancery_sdk::{AgentSkill, AgentSpec, ErrorCode, Outcome, Server, ServerBuilder, Turn};
use http::Method;
use serde_json::{Value, json};
use support::*;

async fn post(client: &Client, path: &str, body: &str) -> Answer {
    client.fetch(Method::POST, path, body.to_owned()).await
}

#[tokio::test]
async fn calls_of_version_1_0_say_so() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        for version in ["99.0", "0.3", "1.1", "2.0", "1", "", " ", "x", "1.0.x"] {
            for (method, params) in
                [("SendMessage", json!({"message": message("hi")})), ("GetTask", json!({"id": "x"}))]
            {
                let answer = client.clone().with("a2a-version", version).call(method, params).await;
                let refused = answer.refused(ErrorCode::VersionNotSupported);
                assert_eq!(refused.metadata["supportedVersions"], "0.1,0.3,1.0", "{version}");
            }
        }
        let missing = client.clone().without("a2a-version").call("ListTasks", json!({})).await;
        missing.refused(ErrorCode::VersionNotSupported);
        for version in ["1.0", "1.0.3", " 1.0 "] {
            let client = client.clone().with("a2a-version", version);
            assert_eq!(state(&client.say("hi").await), COMPLETED);
        }
        assert_eq!(
            client.call("ListTasks", json!({})).await.result()["tasks"][0]["status"]["state"],
            COMPLETED
        );
    }
}

#[tokio::test]
async fn the_version_may_be_in_the_query() {
    let site = serve(echo()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
    for (query, served) in
        [("?A2A-Version=1.0", true), ("?a2a-version=1.0", true), ("?A2A-Version=99.0", false)]
    {
        let jsonrpc = site.jsonrpc().without("a2a-version");
        let rest = site.rest().without("a2a-version");
        let answers = [
            post(&jsonrpc, &format!("/{query}"), &call).await,
            rest.fetch(Method::GET, &format!("/tasks{query}"), String::new()).await,
        ];
        for answer in answers {
            match served {
                true => assert_eq!(answer.result()["totalSize"], 0),
                false => drop(answer.refused(ErrorCode::VersionNotSupported)),
            }
        }
        // The header is what counts if there are both.
        let both = site.rest().fetch(Method::GET, &format!("/tasks{query}"), String::new()).await;
        assert_eq!(both.result()["totalSize"], 0);
    }
}

#[tokio::test]
async fn a_lenient_server_takes_calls_without_a_version() {
    let site = serve_with(|server| server.agent(echo()).lenient_version(true)).await;
    for wire in WIRES {
        let client = site.client(wire).without("a2a-version");
        assert_eq!(state(&client.say("hi").await), COMPLETED);
        assert_eq!(state(&client.clone().with("a2a-version", "").say("hi").await), COMPLETED);
        for version in ["99.0", "0.3"] {
            let answer = client.clone().with("a2a-version", version).call("ListTasks", json!({})).await;
            answer.refused(ErrorCode::VersionNotSupported);
        }
    }
}

#[tokio::test]
async fn an_incomplete_message_is_refused_with_the_field_that_is_missing() {
    let runs = Counter::default();
    let spec = agent({
        let runs = runs.clone();
        move |_| {
            runs.add();
            async { Ok(Outcome::completed()) }
        }
    });
    let site = serve(spec).await;
    let part = json!({"text": "x"});
    let whole = |name: &str, value: Value| {
        let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [part]});
        message[name] = value;
        json!({"message": message})
    };
    let cases = [
        (json!({}), "message"),
        (json!({"message": null}), "message"),
        (json!({"message": {}}), "message.messageId"),
        (whole("messageId", json!("")), "message.messageId"),
        (whole("messageId", json!("m".repeat(300))), "message.messageId"),
        (whole("role", json!("ROLE_AGENT")), "message.role"),
        (whole("role", json!("ROLE_UNSPECIFIED")), "message.role"),
        (whole("role", json!("admin")), "message.role"),
        (whole("parts", json!([])), "message.parts"),
        (whole("parts", json!([part, {}])), "message.parts[1]"),
        (whole("parts", json!([{"text": "x", "url": "https://x"}])), "message.parts[0]"),
        (whole("parts", json!([{"url": "not absolute"}])), "message.parts[0].url"),
        (whole("parts", json!([{"raw": "***"}])), "message.parts[0].raw"),
        (whole("parts", json!(vec![part.clone(); 257])), "message.parts"),
        (whole("referenceTaskIds", json!(vec!["x"; 65])), "message.referenceTaskIds"),
        (whole("metadata", json!(7)), "message.metadata"),
    ];
    for wire in WIRES {
        let client = site.client(wire);
        for (params, field) in &cases {
            for method in ["SendMessage", "SendStreamingMessage"] {
                let answer = client.call(method, params.clone()).await;
                assert_eq!(answer.refused(ErrorCode::InvalidParams).field, *field, "{params}");
            }
        }
        for length in [-1, i32::MIN] {
            let configuration = json!({"historyLength": length});
            let params = json!({"message": message("hi"), "configuration": configuration});
            let answer = client.call("SendMessage", params).await;
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, "configuration.historyLength");
        }
        let config = json!({"taskPushNotificationConfig": {"url": "https://169.254.169.254/latest"}});
        let params = json!({"message": message("x"), "configuration": config});
        let refusal = client.call("SendMessage", params).await.refused(ErrorCode::InvalidParams);
        assert_eq!(refusal.field, "configuration.taskPushNotificationConfig.url");
    }
    assert_eq!(runs.get(), 0);
}

#[tokio::test]
async fn user_json_may_not_be_too_deep() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let params = |depth| {
            let message = r#""messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]"#;
            format!(r#"{{"message":{{{message},"metadata":{}}}}}"#, nested(depth))
        };
        let fits = client.call_text("SendMessage", &params(MAX_DEPTH)).await;
        assert_eq!(state(&fits.task()), COMPLETED);
        for depth in [MAX_DEPTH + 1, 10_000] {
            let answer = client.call_text("SendMessage", &params(depth)).await;
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, "message.metadata");
        }
    }
}

#[tokio::test]
async fn lists_and_looks_with_bad_parameters_are_refused() {
    let site = serve(echo()).await;
    for wire in WIRES {
        let client = site.client(wire);
        client.say("hi").await;
        for (name, value) in [
            ("pageSize", json!(0)),
            ("pageSize", json!(101)),
            ("pageSize", json!(-5)),
            ("pageToken", json!("bm90IGEgdG9rZW4")),
            ("pageToken", json!("!!")),
            ("status", json!("TASK_STATE_DONE")),
            ("status", json!("working")),
            ("historyLength", json!(-1)),
            ("statusTimestampAfter", json!("yesterday")),
            ("includeArtifacts", json!("perhaps")),
        ] {
            let answer = client.call("ListTasks", json!({name: value})).await;
            assert_eq!(answer.refused(ErrorCode::InvalidParams).field, name, "{value}");
        }
        let answer = client.call("GetTask", json!({"id": "x", "historyLength": -1})).await;
        assert_eq!(answer.refused(ErrorCode::InvalidParams).field, "historyLength");
        let unspecified = client.call("ListTasks", json!({"status": "TASK_STATE_UNSPECIFIED"})).await;
        assert!(unspecified.result()["totalSize"].as_u64() > Some(0));
    }
}

#[tokio::test]
async fn what_is_no_json_rpc_request_is_refused_with_the_right_code() {
    let client = serve(echo()).await.jsonrpc();
    let cases = [
        ("", ErrorCode::ParseError, "null"),
        ("{", ErrorCode::ParseError, "null"),
        ("nonsense", ErrorCode::ParseError, "null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks"} x"#, ErrorCode::ParseError, "null"),
        ("[]", ErrorCode::InvalidRequest, "null"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]"#, ErrorCode::InvalidRequest, "null"),
        ("7", ErrorCode::InvalidRequest, "null"),
        (r#"{"id":1,"method":"ListTasks"}"#, ErrorCode::InvalidRequest, "1"),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ListTasks"}"#, ErrorCode::InvalidRequest, "\"a\""),
        (r#"{"jsonrpc":"2.0","method":"ListTasks"}"#, ErrorCode::InvalidRequest, "null"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ListTasks"}"#, ErrorCode::InvalidRequest, "null"),
        (r#"{"jsonrpc":"2.0","id":[],"method":"ListTasks"}"#, ErrorCode::InvalidRequest, "null"),
        (r#"{"jsonrpc":"2.0","id":1}"#, ErrorCode::InvalidRequest, "1"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tasks/get"}"#, ErrorCode::MethodNotFound, "7"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"getTask"}"#, ErrorCode::MethodNotFound, "7"),
        (
            r#"{"jsonrpc":"2.0","id":-1.50,"method":"ListTasks","params":[]}"#,
            ErrorCode::InvalidParams,
            "-1.50",
        ),
        (r#"{"jsonrpc":"2.0","id":7,"method":"GetTask"}"#, ErrorCode::InvalidParams, "7"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{}}"#, ErrorCode::InvalidParams, "7"),
    ];
    for (body, code, id) in cases {
        for path in ["/", "/rpc", "/jsonrpc/"] {
            let answer = post(&client, path, body).await;
            answer.refused(code);
            assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
            assert!(answer.body.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn rest_bodies_that_are_no_json_are_refused() {
    let client = serve(echo()).await.rest();
    for body in ["", "{", "nonsense"] {
        post(&client, "/message:send", body).await.refused(ErrorCode::ParseError);
    }
    for body in ["[]", "7", "\"x\""] {
        post(&client, "/message:send", body).await.refused(ErrorCode::InvalidParams);
    }
    post(&client, "/message:send", "{}").await.refused(ErrorCode::InvalidParams);
}

#[tokio::test]
async fn only_json_is_taken() {
    let site = serve(echo().input_modes(["text/plain"])).await;
    let send = json!({"message": message("hi")});
    for wire in WIRES {
        for kind in ["text/plain", "application/xml", "application/x-www-form-urlencoded"] {
            let answer = site.client(wire).with("content-type", kind).call("SendMessage", send.clone()).await;
            assert_eq!(answer.status, 415, "{answer:?}");
            assert!(answer.body.contains("CONTENT_TYPE_NOT_SUPPORTED"), "{answer:?}");
        }
        let unsaid = site.client(wire).without("content-type").call("SendMessage", send.clone()).await;
        assert_eq!(unsaid.status, 415, "{unsaid:?}");
        assert!(unsaid.body.contains("The body has no Content-Type; send"), "{unsaid:?}");
        let kind = "Application/JSON; charset=utf-8";
        assert_eq!(state(&site.client(wire).with("content-type", kind).say("hi").await), COMPLETED);
        let mut odd = message("hi");
        odd["parts"] = json!([{"raw": "AA==", "mediaType": "image/png"}]);
        site.client(wire).send(odd).await.refused(ErrorCode::ContentTypeNotSupported);
    }
    let without_body = site.rest().without("content-type");
    let canceled = without_body.fetch(Method::POST, "/tasks/none:cancel", String::new()).await;
    assert_eq!(canceled.status, 404, "what has no body need not say of what type it is: {canceled:?}");
    let grpc = site.rest().fetch(Method::POST, "/lf.a2a.v1.A2AService/SendMessage", send.to_string()).await;
    assert_eq!(grpc.status, 415, "{grpc:?}");
    let a2a = "application/a2a+json";
    let plain = site.rest().call("SendMessage", send.clone()).await;
    assert_eq!(plain.header("content-type"), "application/json");
    for (header, value) in [("content-type", a2a), ("accept", a2a)] {
        let answer = site.rest().with(header, value).call("SendMessage", send.clone()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, a2a));
        let failed = site.rest().with(header, value).call("GetTask", json!({"id": "x"})).await;
        assert_eq!((failed.status, failed.header("content-type")), (404, a2a));
    }
}

#[tokio::test]
async fn a_wrong_path_is_404_and_a_wrong_verb_405() {
    let client = serve(echo()).await.rest();
    for (verb, path) in
        [(Method::GET, "/nothing"), (Method::POST, "/tasks/a/b/c"), (Method::GET, "/v1/tasks/")]
    {
        let answer = client.fetch(verb, path, String::new()).await;
        assert_eq!((answer.status, answer.header("allow")), (404, ""), "{path}");
    }
    for (verb, path, allow) in [
        (Method::GET, "/message:send", "POST"),
        (Method::PUT, "/tester/message:stream", "POST"),
        (Method::DELETE, "/tasks", "GET"),
        (Method::PATCH, "/tasks/x", "GET"),
        (Method::DELETE, "/tasks/x:subscribe", "GET, POST"),
    ] {
        let answer = client.fetch(verb, path, String::new()).await;
        assert_eq!((answer.status, answer.header("allow")), (405, allow), "{path}");
    }
}

#[tokio::test]
async fn a_required_extension_must_be_activated() {
    const URI: &str = "https://example.com/ext/v1";
    let mut required = AgentExtension::new(URI);
    required.required = true;
    let spec = agent(|turn: Turn| async move { Ok(Outcome::text(turn.extensions().join(" "))) });
    let site = serve(spec.extension(required)).await;
    for wire in WIRES {
        let client = site.client(wire);
        for (method, params) in [
            ("SendMessage", json!({"message": message("hi")})),
            ("GetTask", json!({"id": "x"})),
            ("ListTasks", json!({})),
        ] {
            client.call(method, params.clone()).await.refused(ErrorCode::ExtensionSupportRequired);
            let other = client.clone().with("a2a-extensions", "https://example.com/ext/v2");
            other.call(method, params).await.refused(ErrorCode::ExtensionSupportRequired);
        }
        let client = client.with("a2a-extensions", &format!("urn:other , {URI},{URI}"));
        let answer = client.send(message("hi")).await;
        assert_eq!(answer.header("a2a-extensions"), URI, "only what the agent knows is active");
        assert_eq!(text(&answer.task()["artifacts"][0]), format!("urn:other {URI}"));
    }
}

#[tokio::test]
async fn a_server_that_is_put_together_wrongly_says_everything_at_once() {
    let spec = |name: &str| AgentSpec::new(name, script(|_| async { Ok(Outcome::completed()) }));
    let bad = spec("Not A Name")
        .description("")
        .version("")
        .input_modes([])
        .turn_timeout(std::time::Duration::ZERO)
        .skill(AgentSkill::new("twice", "a", "b"))
        .skill(AgentSkill::new("twice", "a", "b"))
        .extended_card(|_, card| card);
    let builder: ServerBuilder = Server::builder()
        .agent(bad)
        .agent(spec("fine"))
        .agent_at("no-slash", spec("other"))
        .jsonrpc_path("rpc")
        .public_url("ftp://example.com");
    let error = builder.build().expect_err("it is all wrong");
    let all = error.problems.join("\n");
    for part in [
        "Not A Name",
        "description",
        "version",
        "input mode",
        "timeout of zero",
        "skill `twice` twice",
        "extended card",
        "two agents are mounted",
        "`no-slash`",
        "JSON-RPC path `rpc`",
        "ftp://example.com",
    ] {
        assert!(all.contains(part), "`{part}` is not in:\n{all}");
    }
    let nothing = Server::builder().build().expect_err("nothing is mounted");
    assert_eq!(nothing.problems.len(), 2, "{nothing}");
}
