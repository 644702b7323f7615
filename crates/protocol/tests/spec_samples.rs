//! The samples of the specification, read and written back. What is canonical comes back byte for byte.

use std::collections::BTreeMap;
use std::fmt::Debug;

use chancery_protocol::jsonrpc::{self, Envelope, RequestId};
use chancery_protocol::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn write<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("the model is always JSON")
}

/// Reads a sample that is already in the form we write.
fn canonical<T: Serialize + DeserializeOwned + PartialEq + Debug>(json: &str) -> T {
    let value: T = read(json);
    assert_eq!(write(&value), json);
    value
}

/// Reads a sample whose fields come in another order than ours.
fn same_fields<T: Serialize + DeserializeOwned>(json: &str) -> T {
    let value: T = read(json);
    assert_eq!(read::<Value>(&write(&value)), read::<Value>(json));
    value
}

// === 1. data model ===

#[test]
fn parts() {
    assert_eq!(canonical::<Part>(r#"{"text":"hi"}"#), Part::text("hi"));
    assert_eq!(canonical::<Part>(r#"{"text":""}"#), Part::text(""));
    assert_eq!(
        canonical::<Part>(r#"{"raw":"iVBORw0KGgo=","filename":"a.png","mediaType":"image/png"}"#),
        Part::raw(&b"\x89PNG\r\n\x1a\n"[..]).named("a.png").with_media_type("image/png")
    );
    assert_eq!(
        canonical::<Part>(r#"{"url":"https://a.example/x.pdf"}"#),
        Part::url("https://a.example/x.pdf")
    );
    assert_eq!(
        canonical::<Part>(r#"{"data":{"a":[1,2.0,null]}}"#),
        Part::data(Json::parse(r#"{"a":[1,2.0,null]}"#).unwrap())
    );
    assert_eq!(canonical::<Part>(r#"{"data":null}"#), Part::data(Json::parse("null").unwrap()));
}

#[test]
fn every_kind_of_part_may_have_every_annotation() {
    for content in [r#""text":"x""#, r#""raw":"eA==""#, r#""url":"https://a.example""#, r#""data":7"#] {
        let json =
            format!(r#"{{{content},"metadata":{{"urn:x":1}},"filename":"f","mediaType":"text/plain"}}"#);
        canonical::<Part>(&json);
    }
}

#[test]
fn task_states() {
    let states = [
        "TASK_STATE_UNSPECIFIED",
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_AUTH_REQUIRED",
    ];
    let (terminal, interrupted) = ([3, 4, 5, 7], [6, 8]);
    for (number, name) in states.into_iter().enumerate() {
        let state: TaskState = canonical(&format!("\"{name}\""));
        assert_eq!(read::<TaskState>(&number.to_string()), state);
        assert_eq!(state.is_terminal(), terminal.contains(&number), "{name}");
        assert_eq!(state.is_interrupted(), interrupted.contains(&number), "{name}");
    }
}

#[test]
fn roles() {
    for (number, name) in ["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"].into_iter().enumerate() {
        let role: Role = canonical(&format!("\"{name}\""));
        assert_eq!(read::<Role>(&number.to_string()), role);
    }
}

#[test]
fn timestamps_are_written_in_utc() {
    for (sample, written) in [
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.678901Z"),
        ("2026-01-02T03:04:05.678901234Z", "2026-01-02T03:04:05.678901234Z"),
        ("2026-01-02T05:34:05.678+02:30", "2026-01-02T03:04:05.678Z"),
    ] {
        assert_eq!(Timestamp::parse(sample).unwrap().to_string(), written);
        assert_eq!(write(&read::<Timestamp>(&format!("\"{sample}\""))), format!("\"{written}\""));
    }
}

#[test]
fn required_fields_are_written_at_their_defaults() {
    canonical::<ListTasksResponse>(r#"{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}"#);
    canonical::<GetTaskRequest>(r#"{"id":""}"#);
    canonical::<Message>(r#"{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}"#);
    canonical::<Artifact>(r#"{"artifactId":"","parts":[]}"#);
    canonical::<Task>(r#"{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}"#);
    canonical::<AuthenticationInfo>(r#"{"scheme":""}"#);
    canonical::<PushNotificationConfigRequest>(r#"{"taskId":"","id":""}"#);
    canonical::<AgentProvider>(r#"{"url":"","organization":""}"#);
}

#[test]
fn optional_fields_are_written_when_set_even_to_a_default() {
    canonical::<GetTaskRequest>(r#"{"id":"t","historyLength":0}"#);
    canonical::<ListTasksRequest>(r#"{"pageSize":0,"historyLength":0,"includeArtifacts":false}"#);
    canonical::<SendMessageConfiguration>(r#"{"historyLength":0}"#);
    canonical::<AgentCapabilities>(
        r#"{"streaming":false,"pushNotifications":false,"extendedAgentCard":false}"#,
    );
}

#[test]
fn fields_of_implicit_presence_are_not_written_at_their_defaults() {
    let empty = read::<ListTasksRequest>(r#"{"tenant":"","contextId":"","status":0,"pageToken":""}"#);
    assert_eq!(write(&empty), "{}");
    let chunk = r#"{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","name":"","description":"","parts":[{"text":"x","filename":"","mediaType":""}],"extensions":[]},"append":false,"lastChunk":false}"#;
    assert_eq!(
        write(&read::<TaskArtifactUpdateEvent>(chunk)),
        r#"{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}"#
    );
    let config = r#"{"taskId":"t","pageSize":0,"pageToken":"","tenant":""}"#;
    assert_eq!(write(&read::<ListTaskPushNotificationConfigsRequest>(config)), r#"{"taskId":"t"}"#);
}

#[test]
fn security_requirements() {
    let json = r#"[{"schemes":{"oauth":{"list":["read"]}}},{"schemes":{"key":{},"mtls":{}}}]"#;
    let requirements = canonical::<Vec<SecurityRequirement>>(json);
    let one_of_these = [
        SecurityRequirement::default().and("oauth", &["read"]),
        SecurityRequirement::default().and("key", &[]).and("mtls", &[]),
    ];
    assert_eq!(requirements, one_of_these);
}

#[test]
fn security_schemes() {
    let json = concat!(
        r#"{"code":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://id.example/auth","#,
        r#""tokenUrl":"https://id.example/token","scopes":{"read":"Reads"},"pkceRequired":true}},"#,
        r#""oauth2MetadataUrl":"https://id.example/.well-known/oauth-authorization-server"}},"#,
        r#""device":{"oauth2SecurityScheme":{"flows":{"deviceCode":{"deviceAuthorizationUrl":"https://id.example/device","#,
        r#""tokenUrl":"https://id.example/token","scopes":{}}}}},"#,
        r#""google":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://id.example/.well-known/openid-configuration"}},"#,
        r#""http":{"httpAuthSecurityScheme":{"scheme":"Bearer","bearerFormat":"JWT"}},"#,
        r#""implicit":{"oauth2SecurityScheme":{"flows":{"implicit":{"authorizationUrl":"https://id.example/auth"}}}},"#,
        r#""key":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}},"#,
        r#""mtls":{"mtlsSecurityScheme":{}},"#,
        r#""password":{"oauth2SecurityScheme":{"flows":{"password":{"tokenUrl":"https://id.example/token"}}}},"#,
        r#""service":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://id.example/token","scopes":{"read":"Reads"}}}}}}"#,
    );
    assert_eq!(canonical::<BTreeMap<String, SecurityScheme>>(json).len(), 9);
}

// === 2. operations ===

#[test]
fn methods_and_paths() {
    use http::Method;
    for (method, verb, path) in [
        ("SendMessage", Method::POST, "/message:send"),
        ("SendStreamingMessage", Method::POST, "/message:stream"),
        ("GetTask", Method::GET, "/tasks/t1"),
        ("ListTasks", Method::GET, "/tasks"),
        ("CancelTask", Method::POST, "/tasks/t1:cancel"),
        ("SubscribeToTask", Method::GET, "/tasks/t1:subscribe"),
        ("SubscribeToTask", Method::POST, "/tasks/t1:subscribe"),
        ("CreateTaskPushNotificationConfig", Method::POST, "/tasks/t1/pushNotificationConfigs"),
        ("GetTaskPushNotificationConfig", Method::GET, "/tasks/t1/pushNotificationConfigs/p1"),
        ("ListTaskPushNotificationConfigs", Method::GET, "/tasks/t1/pushNotificationConfigs"),
        ("DeleteTaskPushNotificationConfig", Method::DELETE, "/tasks/t1/pushNotificationConfigs/p1"),
        ("GetExtendedAgentCard", Method::GET, "/extendedAgentCard"),
    ] {
        let route = Operation::from_path(&verb, path).unwrap_or_else(|error| panic!("{path}: {error:?}"));
        assert_eq!(Operation::from_method(method), Some(route.operation));
        assert_eq!(route.task.as_deref(), path.contains("t1").then_some("t1"));
        assert_eq!(route.config.as_deref(), path.contains("p1").then_some("p1"));
    }
}

#[test]
fn a_json_rpc_request_and_its_answer() {
    let body = r#"{"jsonrpc":"2.0","id":"r1","method":"SendMessage","params":{"tenant":"billing","message":{"messageId":"m1","role":"ROLE_USER",
 "parts":[{"text":"hi"}]},"configuration":{"acceptedOutputModes":["text/plain"],"returnImmediately":true,"historyLength":0}}}"#;
    let envelope = Envelope::decode(body.as_bytes()).unwrap();
    assert_eq!(envelope.id.as_str(), r#""r1""#);
    let operation = Operation::from_method(&envelope.method).unwrap();
    let Request::SendMessage(request) = Request::decode(operation, envelope.params()).unwrap() else {
        panic!("{operation:?}");
    };
    request.validate(&RequestLimits::default()).unwrap();
    assert_eq!(request, same_fields(envelope.params.unwrap().get()));
    assert_eq!((request.tenant.as_str(), &*request.message.text()), ("billing", "hi"));
    let configuration = request.configuration.unwrap();
    assert_eq!(configuration.accepted_output_modes, ["text/plain"]);
    assert!(configuration.return_immediately);
    assert_eq!(configuration.history_length, Some(0));

    let task: Task = read(
        r#"{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.678Z"}}"#,
    );
    let mut answer = Vec::new();
    jsonrpc::write_result_head(&mut answer, &envelope.id);
    let sent = SendMessageResponse::Task(TaskView::whole(task));
    Reply::Sent(sent).write_json(&mut answer).unwrap();
    answer.push(b'}');
    assert_eq!(
        String::from_utf8(answer).unwrap(),
        r#"{"jsonrpc":"2.0","id":"r1","result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.678Z"}}}}"#
    );
}

const FRAMES: [&str; 4] = [
    r#"{"task":{"id":"t2","contextId":"c1","status":{"state":"TASK_STATE_SUBMITTED"}}}"#,
    r#"{"artifactUpdate":{"taskId":"t2","contextId":"c1","artifact":{"artifactId":"a1","parts":[{"text":"par"}]}}}"#,
    r#"{"artifactUpdate":{"taskId":"t2","contextId":"c1","artifact":{"artifactId":"a1","parts":[{"text":"t"}]},"append":true,"lastChunk":true}}"#,
    r#"{"statusUpdate":{"taskId":"t2","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}"#,
];

#[test]
fn a_rest_request_and_the_stream_that_answers_it() {
    let body = r#"{"message":{"messageId":"m2","role":"ROLE_USER","parts":[{"text":"go"}]}}"#;
    let request: SendMessageRequest = canonical(body);
    request.validate(&RequestLimits::default()).unwrap();

    let mut task = None::<Task>;
    for frame in FRAMES {
        match canonical::<StreamResponse>(frame) {
            StreamResponse::Task(first) => task = Some(first),
            StreamResponse::ArtifactUpdate(event) => {
                task.as_mut().unwrap().apply_artifact(event.artifact, event.append);
            }
            StreamResponse::StatusUpdate(event) => {
                task.as_mut().unwrap().apply_status(event.status, event.metadata.as_ref());
            }
            StreamResponse::Message(message) => panic!("{message:?}"),
        }
    }
    let whole = r#"{"id":"t2","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a1","parts":[{"text":"par"},{"text":"t"}]}]}"#;
    assert_eq!(write(&task.unwrap()), whole);
}

#[test]
fn an_event_is_read_back_from_its_bytes() {
    for frame in FRAMES {
        let event = Event { number: 1, json: frame.into() };
        assert_eq!(write(&event.payload().unwrap()), frame);
    }
    let broken = Event { number: 1, json: "{}".into() };
    assert_eq!(broken.payload().unwrap_err().code(), ErrorCode::InvalidAgentResponse);
}

#[test]
fn the_other_answers() {
    let task = r#"{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_CANCELED"}}"#;
    let mut page = Vec::new();
    let tasks = vec![TaskView::whole(read::<Task>(task))];
    let answer = TaskPage { tasks, next_page_token: String::new(), page_size: 50, total_size: 1 };
    Reply::Tasks(answer).write_json(&mut page).unwrap();
    let expected = format!(r#"{{"tasks":[{task}],"nextPageToken":"","pageSize":50,"totalSize":1}}"#);
    assert_eq!(String::from_utf8(page).unwrap(), expected);

    let mut deleted = Vec::new();
    Reply::Empty.write_json(&mut deleted).unwrap();
    assert_eq!(deleted, b"{}");

    let message =
        r#"{"message":{"messageId":"m","contextId":"c1","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}"#;
    canonical::<SendMessageResponse>(message);
    canonical::<StreamResponse>(message);
}

#[test]
fn push_notification_configurations() {
    let config = r#"{"id":"p1","taskId":"t1","url":"https://a.example/hook","token":"s","authentication":{"scheme":"Bearer","credentials":"k"}}"#;
    canonical::<TaskPushNotificationConfig>(config).validate(&RequestLimits::default()).unwrap();
    canonical::<ListTaskPushNotificationConfigsResponse>(&format!(
        r#"{{"configs":[{config}],"nextPageToken":"2"}}"#
    ));
    canonical::<SendMessageConfiguration>(r#"{"taskPushNotificationConfig":{"url":"https://a.example"}}"#);
}

#[test]
fn the_extended_card_may_be_asked_for_without_params() {
    let envelope = Envelope::decode(br#"{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}"#).unwrap();
    let request = Request::decode(Operation::GetExtendedAgentCard, envelope.params()).unwrap();
    assert_eq!(request.operation(), Operation::GetExtendedAgentCard);
}

// === 3. errors ===

#[test]
fn a_json_rpc_error() {
    let mut body = Vec::new();
    let envelope =
        Envelope::decode(br#"{"jsonrpc":"2.0","id":2,"method":"GetTask","params":{"id":"x"}}"#).unwrap();
    jsonrpc::write_error(&mut body, &envelope.id, &Error::task_not_found(&TaskId::from("x")));
    let sample = concat!(
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"Task not found","data":["#,
        r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"x"}}]}}"#,
    );
    assert_eq!(String::from_utf8(body).unwrap(), sample);
}

#[test]
fn a_rest_error() {
    let error = Error::task_not_found(&TaskId::from("x")).about("timestamp", "2026-01-02T03:04:05.678Z");
    let row = error.code().row();
    let details = serde_json::to_value(error.details()).unwrap();
    let body = json!({"error": {
        "code": row.http.as_u16(), "status": row.grpc.1, "message": error.message(), "details": details
    }});
    let sample = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": [{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {"taskId": "x", "timestamp": "2026-01-02T03:04:05.678Z"}
    }]}});
    assert_eq!(body, sample);
}

#[test]
fn a_validation_error_names_its_field() {
    let mut body = Vec::new();
    jsonrpc::write_error(
        &mut body,
        &RequestId::NULL,
        &Error::invalid_field("message.parts", "must not be empty"),
    );
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["id"], Value::Null);
    assert_eq!(body["error"]["code"], -32602);
    assert_eq!(
        body["error"]["data"][1],
        json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "message.parts", "description": "must not be empty"}]
        })
    );
}

#[test]
fn the_table_of_errors() {
    use ErrorCode as E;
    for (code, reason, jsonrpc, http, grpc) in [
        (E::TaskNotFound, "TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"),
        (E::TaskNotCancelable, "TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION"),
        (
            E::PushNotificationNotSupported,
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            -32003,
            400,
            "FAILED_PRECONDITION",
        ),
        (E::UnsupportedOperation, "UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION"),
        (E::ContentTypeNotSupported, "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, "INVALID_ARGUMENT"),
        (E::InvalidAgentResponse, "INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL"),
        (
            E::ExtendedAgentCardNotConfigured,
            "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            -32007,
            400,
            "FAILED_PRECONDITION",
        ),
        (E::ExtensionSupportRequired, "EXTENSION_SUPPORT_REQUIRED", -32008, 400, "FAILED_PRECONDITION"),
        (E::VersionNotSupported, "VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION"),
    ] {
        let row = code.row();
        assert_eq!((row.reason, row.jsonrpc, row.http.as_u16(), row.grpc.1), (reason, jsonrpc, http, grpc));
        assert!(code.is_a2a());
        let details = serde_json::to_value(Error::new(code).details()).unwrap();
        assert_eq!(details[0]["reason"], reason);
        assert_eq!(details[0]["domain"], "a2a-protocol.org");
    }
    for (code, jsonrpc, message, http, grpc) in [
        (E::ParseError, -32700, "Invalid JSON payload", 400, "INVALID_ARGUMENT"),
        (E::InvalidRequest, -32600, "Request payload validation error", 400, "INVALID_ARGUMENT"),
        (E::MethodNotFound, -32601, "Method not found", 404, "UNIMPLEMENTED"),
        (E::InvalidParams, -32602, "Invalid parameters", 400, "INVALID_ARGUMENT"),
        (E::Internal, -32603, "Internal error", 500, "INTERNAL"),
    ] {
        let row = code.row();
        assert_eq!((row.jsonrpc, row.message, row.http.as_u16(), row.grpc.1), (jsonrpc, message, http, grpc));
    }
}

#[test]
fn every_error_is_told_in_the_same_shape() {
    for code in ALL_ERROR_CODES {
        let mut body = Vec::new();
        let error = Error::new(code).about("k", "v").retry_after(std::time::Duration::from_millis(1500));
        jsonrpc::write_error(&mut body, &RequestId::NULL, &error);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], code.row().jsonrpc);
        assert_eq!(body["error"]["data"][0]["metadata"], json!({"k": "v"}));
        let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"});
        assert_eq!(body["error"]["data"][1], retry);
    }
}

// === 4. versions, extensions, frames ===

#[test]
fn versions() {
    let served = [Version::V0_3, Version::V1_0];
    assert_eq!(Version::negotiate(Some("1.0"), &served, false).unwrap(), Version::V1_0);
    assert_eq!(Version::negotiate(Some("1.0.1"), &served, false).unwrap(), Version::V1_0);
    for missing in [None, Some("")] {
        assert_eq!(Version::negotiate(missing, &served, false).unwrap(), Version::V0_3);
    }
    let refusal = Version::negotiate(Some("2.0"), &served, false).unwrap_err();
    let details = serde_json::to_value(refusal.details()).unwrap();
    assert_eq!(details[0]["reason"], "VERSION_NOT_SUPPORTED");
    assert_eq!(details[0]["metadata"], json!({"supportedVersions": "0.3,1.0"}));
}

#[test]
fn an_extensions_header() {
    let mut uris = Vec::new();
    parse_extensions("https://example.com/ext/x/v1, urn:y", &mut uris);
    assert_eq!(uris, ["https://example.com/ext/x/v1", "urn:y"]);
}

#[test]
fn a_json_rpc_frame_is_one_line() {
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"SubscribeToTask","params":{"id":"t2"}}"#;
    let envelope = Envelope::decode(body).unwrap();
    for frame in FRAMES {
        let mut line = Vec::new();
        jsonrpc::write_result_head(&mut line, &envelope.id);
        line.extend_from_slice(frame.as_bytes());
        line.push(b'}');
        let expected = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{frame}}}"#);
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}

// === 5. discovery ===

#[test]
fn a_card_keeps_what_its_signature_covers() {
    // The specification's example of presence, with the fields it leaves out.
    let sample = concat!(
        r#"{"name":"Zoë","description":"","capabilities":{"extensions":[],"streaming":false},"securitySchemes":{},"skills":[],"#,
        r#""supportedInterfaces":[{"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"#,
        r#""version":"1","defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"]}"#,
    );
    let covered = concat!(
        r#"{"name":"Zoë","description":"","#,
        r#""supportedInterfaces":[{"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"#,
        r#""version":"1","capabilities":{"streaming":false},"#,
        r#""defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#,
    );
    assert_eq!(write(&read::<AgentCard>(sample)), covered);
    canonical::<AgentCard>(covered);
}

#[test]
fn a_card_for_clients_of_both_versions() {
    let v1 = concat!(
        r#"{"name":"n","description":"d","supportedInterfaces":["#,
        r#"{"url":"https://a.example/rpc","protocolBinding":"JSONRPC","tenant":"t","protocolVersion":"1.0"},"#,
        r#"{"url":"https://a.example/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},"#,
        r#"{"url":"a.example:443","protocolBinding":"GRPC","protocolVersion":"1.0"},"#,
        r#"{"url":"https://a.example/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"}],"#,
        r#""version":"1","capabilities":{"streaming":true},"#,
        r#""securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}}},"#,
        r#""defaultInputModes":[],"defaultOutputModes":[],"skills":[],"#,
        r#""signatures":[{"protected":"eyJhbGciOiJFUzI1NiJ9","signature":"c2ln","header":{"kid":"1"}}]}"#,
    );
    let card = canonical::<AgentCard>(v1);
    let mut union: Value = read(v1);
    union["url"] = json!("https://a.example/old");
    union["protocolVersion"] = json!("0.3.0");
    union["preferredTransport"] = json!("JSONRPC");
    union["security"] = json!([{"k": []}]);
    union["securitySchemes"]["k"]["type"] = json!("apiKey");
    union["securitySchemes"]["k"]["in"] = json!("header");
    union["securitySchemes"]["k"]["name"] = json!("X-Key");
    union["capabilities"]["stateTransitionHistory"] = json!(true);
    assert_eq!(read::<AgentCard>(&union.to_string()), card);
}
