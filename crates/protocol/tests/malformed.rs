//! What is wrong with a request is said by its kind and by the path of its field, and nothing ever panics.

mod refusals;
mod strategies;

use chancery_protocol::jsonrpc::{self, Envelope, RequestId};
use chancery_protocol::*;
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use refusals::{CONFIGURATIONS, ENVELOPES, MESSAGES, REQUESTS};
use strategies::damage::damage;
use strategies::{card, model, text, tries};

const EVERY_OPERATION: [Operation; 11] = [
    Operation::SendMessage,
    Operation::SendStreamingMessage,
    Operation::GetTask,
    Operation::ListTasks,
    Operation::CancelTask,
    Operation::SubscribeToTask,
    Operation::CreateTaskPushNotificationConfig,
    Operation::GetTaskPushNotificationConfig,
    Operation::ListTaskPushNotificationConfigs,
    Operation::DeleteTaskPushNotificationConfig,
    Operation::GetExtendedAgentCard,
];

/// Reads and checks parameters as a binding does.
fn accept(operation: Operation, params: &[u8]) -> Result<(), Error> {
    let limits = RequestLimits::default();
    match Request::decode(operation, params)? {
        Request::SendMessage(request) | Request::SendStreamingMessage(request) => request.validate(&limits),
        Request::GetTask(request) => request.validate(),
        Request::ListTasks(request) => request.validate(),
        Request::CreateTaskPushNotificationConfig(request) => request.validate(&limits),
        Request::GetTaskPushNotificationConfig(request)
        | Request::DeleteTaskPushNotificationConfig(request) => request.validate(),
        Request::ListTaskPushNotificationConfigs(request) => request.validate(),
        Request::CancelTask(_) | Request::SubscribeToTask(_) | Request::GetExtendedAgentCard(_) => Ok(()),
    }
}

fn names_field(operation: Operation, params: &str, field: &str) {
    let Err(error) = accept(operation, params.as_bytes()) else { panic!("accepted: {params}") };
    assert_eq!(error.code(), ErrorCode::InvalidParams, "{error}: {params}");
    assert_eq!(error.violations().len(), 1, "{error}: {params}");
    assert_eq!(error.violations()[0].field, field, "{error}: {params}");
}

/// A message around these fields, each of which replaces the valid one of its name.
fn message(fields: &str) -> String {
    let valid = [r#""messageId":"m""#, r#""role":"ROLE_USER""#, r#""parts":[{"text":"x"}]"#];
    let name = |field: &str| field.split(':').next().map(str::to_owned);
    let kept = valid.into_iter().filter(|field| name(field) != name(fields));
    let fields: Vec<_> = kept.chain([fields]).filter(|field| !field.is_empty()).collect();
    format!(r#"{{"message":{{{}}}}}"#, fields.join(","))
}

fn configuration(fields: &str) -> String {
    let message = message("");
    format!(r#"{},"configuration":{{{fields}}}}}"#, &message[..message.len() - 1])
}

// === messages ===

#[test]
fn a_message_that_is_wrong_is_refused_by_field() {
    accept(Operation::SendMessage, message("").as_bytes()).unwrap();
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        for (fields, field) in MESSAGES {
            names_field(operation, &message(fields), field);
        }
    }
}

#[test]
fn what_a_message_must_have_is_named_when_it_is_missing() {
    for (params, field) in [
        ("{}", "message"),
        (r#"{"message":null}"#, "message"),
        (r#"{"message":7}"#, "message"),
        (r#"{"message":"hi"}"#, "message"),
        (r#"{"message":{}}"#, "message.messageId"),
        (r#"{"message":{"messageId":"m"}}"#, "message.role"),
        (r#"{"message":{"messageId":"m","role":"ROLE_USER"}}"#, "message.parts"),
        (r#"{"request":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#, "message"),
        (r#"{"tenant":7}"#, "tenant"),
        ("null", ""),
        ("7", ""),
        (r#""x""#, ""),
    ] {
        names_field(Operation::SendMessage, params, field);
    }
}

#[test]
fn a_configuration_that_is_wrong_is_refused_by_field() {
    accept(Operation::SendMessage, configuration("").as_bytes()).unwrap();
    for (fields, field) in CONFIGURATIONS {
        names_field(Operation::SendMessage, &configuration(fields), &format!("configuration.{field}"));
    }
}

#[test]
fn what_is_too_much_is_refused_by_field() {
    let limits = RequestLimits::default();
    let many = |count: usize, item: &str| vec![item; count].join(",");
    let long = "x".repeat(limits.id_bytes + 1);
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    let endless = r#"{"a":"#.repeat(100_000);
    for (fields, field) in [
        (format!(r#""parts":[{}]"#, many(limits.parts + 1, r#"{"text":"x"}"#)), "message.parts"),
        (format!(r#""extensions":[{}]"#, many(limits.entries + 1, "\"u\"")), "message.extensions"),
        (
            format!(r#""referenceTaskIds":[{}]"#, many(limits.entries + 1, "\"t\"")),
            "message.referenceTaskIds",
        ),
        (format!(r#""messageId":"{long}""#), "message.messageId"),
        (format!(r#""contextId":"{long}""#), "message.contextId"),
        (format!(r#""metadata":{{"a":{deep}}}"#), "message.metadata"),
        (format!(r#""parts":[{{"data":[{deep}]}}]"#), "message.parts[0].data"),
        (format!(r#""metadata":{endless}1{}"#, "}".repeat(100_000)), "message.metadata"),
    ] {
        names_field(Operation::SendMessage, &message(&fields), field);
    }
    let modes = format!(r#""acceptedOutputModes":[{}]"#, many(limits.entries + 1, "\"m\""));
    names_field(Operation::SendMessage, &configuration(&modes), "configuration.acceptedOutputModes");

    let just_enough = [
        format!(r#""parts":[{}]"#, many(limits.parts, r#"{"text":"x"}"#)),
        format!(r#""extensions":[{}]"#, many(limits.entries, "\"u\"")),
        format!(r#""messageId":"{}""#, &long[1..]),
        format!(r#""parts":[{{"data":{deep}}}]"#),
        format!(r#""later":{endless}1{}"#, "}".repeat(100_000)),
    ];
    for fields in just_enough {
        accept(Operation::SendMessage, message(&fields).as_bytes()).unwrap();
    }
}

#[test]
fn an_id_that_is_too_long_in_an_inline_push_configuration_is_named_by_its_whole_path() {
    let long = "x".repeat(RequestLimits::default().id_bytes + 1);
    let config = format!(r#"{{"url":"https://a.example","id":"{long}"}}"#);
    names_field(Operation::CreateTaskPushNotificationConfig, &config.replace('{', r#"{"taskId":"t","#), "id");
    names_field(
        Operation::SendMessage,
        &configuration(&format!(r#""taskPushNotificationConfig":{config}"#)),
        "configuration.taskPushNotificationConfig.id",
    );
}

#[test]
fn the_scheme_of_a_receiver_may_be_in_capitals() {
    let config = br#"{"taskId":"t","url":"HTTPS://a.example"}"#;
    accept(Operation::CreateTaskPushNotificationConfig, config).unwrap();
}

// === the other operations ===

#[test]
fn a_request_that_is_wrong_is_refused_by_field() {
    for (operation, params, field) in REQUESTS {
        names_field(*operation, params, field);
    }
}

#[test]
fn a_field_given_in_both_spellings_is_refused() {
    for (operation, params) in [
        (Operation::ListTasks, r#"{"pageSize":1,"page_size":1}"#),
        (Operation::GetTask, r#"{"id":"t","id":"u"}"#),
        (Operation::SendMessage, &message(r#""message_id":"n""#)),
    ] {
        let error = accept(operation, params.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidParams, "{params}");
        assert!(error.message().contains("duplicate"), "{error}");
    }
}

#[test]
fn what_is_not_json_is_a_parse_error() {
    let bodies: [&[u8]; 17] = [
        b"",
        b" ",
        b"{",
        b"nul",
        b"{}{}",
        b"{} x",
        b"{,}",
        b"{'tenant':'t'}",
        b"{\"tenant\":\"t\",}",
        b"{\"tenant\":\"t\"/* */}",
        b"{\"tenant\":\"a\nb\"}",
        b"{\"tenant\":\"\xff\"}",
        b"{\"tenant\":\"\\ud800\"}",
        b"{\"later\":NaN}",
        b"{\"later\":[1,]}",
        b"{\"later\":\"\\x\"}",
        b"\xef\xbb\xbf{}",
    ];
    for body in bodies {
        for operation in [Operation::ListTasks, Operation::GetExtendedAgentCard] {
            let Err(error) = Request::decode(operation, body) else { panic!("accepted: {body:?}") };
            assert_eq!(error.code(), ErrorCode::ParseError, "{error}: {body:?}");
            assert!(error.violations().is_empty());
        }
    }
}

#[test]
fn a_number_that_is_too_large_is_a_wrong_parameter_and_not_broken_json() {
    names_field(Operation::GetTask, r#"{"id":"t","historyLength":1e400}"#, "historyLength");
    names_field(Operation::ListTasks, r#"{"status":1e400}"#, "status");
}

#[test]
fn whole_numbers_are_read_in_every_spelling() {
    for five in ["5", "5.0", "0.5e1", r#""5""#] {
        let task = format!(r#"{{"id":"t","historyLength":{five}}}"#);
        assert_eq!(decode_params::<GetTaskRequest>(task.as_bytes()).unwrap().history_length, Some(5));
        let tasks = format!(r#"{{"page_size":{five}}}"#);
        assert_eq!(decode_params::<ListTasksRequest>(tasks.as_bytes()).unwrap().page_size, Some(5));
        let configs = format!(r#"{{"taskId":"t","pageSize":{five}}}"#);
        let configs = decode_params::<ListTaskPushNotificationConfigsRequest>(configs.as_bytes()).unwrap();
        assert_eq!(configs.page_size, 5);
        accept(Operation::SendMessage, configuration(&format!(r#""historyLength":{five}"#)).as_bytes())
            .unwrap();
    }
}

#[test]
fn what_is_wrong_is_said_without_repeating_it() {
    let long = "hunter2".repeat(1000);
    for (operation, params) in [
        (Operation::SendMessage, format!(r#"{{"message":"{long}"}}"#)),
        (Operation::SendMessage, message(&format!(r#""parts":"{long}""#))),
        (Operation::SendMessage, message(&format!(r#""parts":[{{"raw":"*{long}"}}]"#))),
        (Operation::SendMessage, message(&format!(r#""role":"{long}""#))),
        (Operation::SendMessage, configuration(&format!(r#""historyLength":"{long}""#))),
        (Operation::ListTasks, format!(r#"{{"status":"{long}"}}"#)),
        (Operation::ListTasks, format!(r#"{{"includeArtifacts":"{long}"}}"#)),
        (Operation::ListTasks, format!(r#"{{"statusTimestampAfter":"{long}"}}"#)),
        (Operation::GetTask, format!(r#""{long}""#)),
        (Operation::CreateTaskPushNotificationConfig, format!(r#"{{"taskId":"t","url":"{long}"}}"#)),
    ] {
        let Err(error) = accept(operation, params.as_bytes()) else { panic!("accepted: {params}") };
        let told = format!("{error} {}", serde_json::to_string(&error.details()).unwrap());
        assert!(!told.contains("hunter2") && told.len() < 600, "{told}");
    }
}

#[test]
fn a_request_is_an_object_and_never_a_list() {
    for (operation, params) in [
        (Operation::GetTask, r#"["","t",null]"#),
        (Operation::ListTasks, "[]"),
        (Operation::CancelTask, r#"["","t",null]"#),
        (Operation::SubscribeToTask, r#"["","t"]"#),
        (Operation::GetTaskPushNotificationConfig, r#"["","t","p"]"#),
        (Operation::GetExtendedAgentCard, r#"["billing"]"#),
    ] {
        names_field(operation, params, "");
    }
}

#[test]
fn a_message_within_a_request_is_an_object_and_never_a_list() {
    let message_list = r#"{"message":["m",null,null,"ROLE_USER",[{"text":"x"}],null,[],[]]}"#;
    names_field(Operation::SendMessage, message_list, "message");
    let configuration_list = configuration("").replace(r#""configuration":{}"#, r#""configuration":[]"#);
    names_field(Operation::SendMessage, &configuration_list, "configuration");
}

#[test]
fn a_card_that_is_wrong_is_refused_by_field() {
    let valid = r#"{"name":"n","description":"d","supportedInterfaces":[{"url":"u","protocolBinding":"GRPC","protocolVersion":"1.0"}],"version":"1","capabilities":{}}"#;
    decode_params::<AgentCard>(valid.as_bytes()).unwrap();
    for (from, to, field) in [
        (r#""name":"n","#, "", "name"),
        (r#""version":"1""#, r#""version":1"#, "version"),
        (r#""capabilities":{}"#, r#""capabilities":null"#, "capabilities"),
        (r#""capabilities":{}"#, r#""capabilities":{"streaming":"yes"}"#, "capabilities.streaming"),
        (r#""capabilities":{}"#, r#""capabilities":{"extensions":[{}]}"#, "capabilities.extensions[0].uri"),
        (r#""url":"u","#, "", "supportedInterfaces[0].url"),
        (r#""protocolBinding":"GRPC""#, r#""protocolBinding":7"#, "supportedInterfaces[0].protocolBinding"),
        (r#"{"name""#, r#"{"skills":[{"id":"s","name":"s"}],"name""#, "skills[0].description"),
        (r#"{"name""#, r#"{"securitySchemes":{"a":{}},"name""#, "securitySchemes.a"),
        (
            r#"{"name""#,
            r#"{"securitySchemes":{"a":{"apiKeySecurityScheme":{"location":"header"}}},"name""#,
            "securitySchemes.a.apiKeySecurityScheme.name",
        ),
        (
            r#"{"name""#,
            r#"{"securityRequirements":[{"schemes":[]}],"name""#,
            "securityRequirements[0].schemes",
        ),
        (r#"{"name""#, r#"{"signatures":[{"protected":"p"}],"name""#, "signatures[0].signature"),
    ] {
        let card = valid.replacen(from, to, 1);
        let error =
            decode_params::<AgentCard>(card.as_bytes()).map(|_| panic!("accepted: {card}")).unwrap_err();
        assert_eq!(error.violations()[0].field, field, "{error}: {card}");
        let error = decode_reply::<AgentCard>(card.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidAgentResponse);
    }
}

// === envelopes ===

#[test]
fn an_envelope_that_is_wrong_is_answered_with_its_id() {
    for (body, expected_id, code) in ENVELOPES {
        let Err((id, error)) = Envelope::decode(body.as_bytes()) else { panic!("accepted: {body}") };
        assert_eq!((id.as_str(), error.code()), (*expected_id, *code), "{body}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"GetTask"}}"#, "x".repeat(2000));
    assert_eq!(Envelope::decode(long.as_bytes()).unwrap_err().0, RequestId::NULL);
}

#[test]
fn a_list_is_never_an_envelope() {
    let body = br#"["2.0",1,"GetTask",{"id":"t"}]"#;
    let (_, error) = Envelope::decode(body).map(|envelope| panic!("accepted: {envelope:?}")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
}

// === versions, times, paths ===

#[test]
fn what_is_no_version_is_refused() {
    for text in [
        "", ".", "1", "1.", ".0", "1.0.", "1..0", "1.0.0.0", "1.0-rc", "v1.0", " 1.0", "1,0", "65536.0",
        "-1.0",
    ] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

#[test]
fn a_version_is_digits_only() {
    for text in ["+1.0", "1.+0", "1.0.+0"] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

#[test]
fn what_is_no_time_is_refused() {
    for text in [
        "",
        "now",
        "1767323045",
        "2026-01-02",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-02T25:00:00Z",
        "2026-01-02T03:04:05.0000000001Z",
        "99999-01-01T00:00:00Z",
    ] {
        assert!(Timestamp::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_path_with_another_verb_names_each_verb_that_works_once() {
    for (path, verbs) in [
        ("/message:send", vec![Method::POST]),
        ("/tasks", vec![Method::GET]),
        ("/tasks/t/pushNotificationConfigs", vec![Method::POST, Method::GET]),
        ("/tasks/t/pushNotificationConfigs/p", vec![Method::GET, Method::DELETE]),
        ("/tasks/t:subscribe", vec![Method::GET, Method::POST]),
        ("/tasks/t:cancel", vec![Method::POST]),
        ("/tasks/t:x", vec![Method::GET]),
    ] {
        assert_eq!(Operation::from_path(&Method::PATCH, path), Err(NoRoute::Verb(verbs)), "{path}");
    }
}

#[test]
fn what_is_no_path_is_refused() {
    for path in [
        "",
        "/",
        "tasks",
        "//tasks",
        "/tasks/",
        "/tasks//pushNotificationConfigs",
        "/tasks/t/x",
        "/message:sends",
        "/tasks/t/pushNotificationConfigs/",
        "/tasks/t/pushNotificationConfigs/p/x",
    ] {
        assert_eq!(Operation::from_path(&Method::GET, path), Err(NoRoute::Path), "{path}");
    }
}

// === never a panic ===

/// Feeds bytes to everything that reads bytes from strangers, and checks that what it says can be said.
fn nothing_panics(bytes: &[u8]) -> Result<(), TestCaseError> {
    for operation in EVERY_OPERATION {
        if let Err(error) = accept(operation, bytes) {
            let is_about_the_request =
                matches!(error.code(), ErrorCode::ParseError | ErrorCode::InvalidParams);
            prop_assert!(is_about_the_request, "{error:?}");
            prop_assert_eq!(error.violations().is_empty(), error.code() == ErrorCode::ParseError);
            can_be_told(&RequestId::NULL, &error)?;
        }
    }
    match Envelope::decode(bytes) {
        Ok(envelope) => {
            let Some(operation) = Operation::from_method(&envelope.method) else { return Ok(()) };
            if let Err(error) = accept(operation, envelope.params()) {
                can_be_told(&envelope.id, &error)?;
            }
        }
        Err((id, error)) => can_be_told(&id, &error)?,
    }
    let _ = decode_reply::<AgentCard>(bytes);
    let _ = decode_reply::<StreamResponse>(bytes);
    let _ = decode_reply::<SendMessageResponse>(bytes);
    Ok(())
}

fn can_be_told(id: &RequestId<'_>, error: &Error) -> Result<(), TestCaseError> {
    let mut answer = Vec::new();
    jsonrpc::write_error(&mut answer, id, error);
    prop_assert!(!answer.contains(&b'\n'));
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&answer).is_ok();
    prop_assert!(is_json, "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

proptest! {
    #![proptest_config(tries(384))]

    #[test]
    fn arbitrary_bytes_are_survived(bytes in vec(any::<u8>(), 0..64)) {
        nothing_panics(&bytes)?;
    }

    #[test]
    fn arbitrary_json_is_survived(tokens in strategies::json::tokens()) {
        nothing_panics(tokens.compact().as_bytes())?;
    }

    #[test]
    fn damaged_requests_are_survived((_, params) in model::params(), damage in damage()) {
        nothing_panics(&damage.apply(&params))?;
    }

    #[test]
    fn damaged_envelopes_are_survived(
        (operation, params) in model::params(),
        id in select(&["1", "\"r\"", "-0.0", "null"][..]),
        damage in damage(),
    ) {
        let method = operation.method();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        nothing_panics(&damage.apply(&body))?;
    }

    #[test]
    fn damaged_cards_are_survived(card in card::card(), damage in damage()) {
        let body = serde_json::to_string(&card).unwrap();
        if let Err(error) = decode_reply::<AgentCard>(&damage.apply(&body)) {
            prop_assert_eq!(error.code(), ErrorCode::InvalidAgentResponse);
        }
    }

    #[test]
    fn damaged_events_are_survived(event in model::stream_response(), damage in damage()) {
        let body = serde_json::to_string(&event).unwrap();
        let event = Event { number: 0, json: damage.apply(&body).into() };
        if let Err(error) = event.payload() {
            prop_assert_eq!(error.code(), ErrorCode::InvalidAgentResponse);
        }
    }

    #[test]
    fn undamaged_requests_are_read((operation, params) in model::params()) {
        let mut request = Request::decode(operation, params.as_bytes()).unwrap();
        prop_assert_eq!(request.operation(), operation);
        request.tenant_mut().clear();
    }
}

const SEGMENTS: &[&str] =
    &["", "tasks", "t", "t:cancel", ":subscribe", "message:send", "pushNotificationConfigs"];

proptest! {
    #![proptest_config(tries(1024))]

    #[test]
    fn arbitrary_versions_are_survived(
        noise in text(),
        numbers in vec(any::<u32>(), 0..4),
        separator in select(&[".", "..", ",", ""][..]),
    ) {
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        for text in [noise, numbers.join(separator)] {
            if let Some(version) = Version::parse(&text) {
                prop_assert_eq!(Version::parse(&version.to_string()), Some(version));
            }
            let negotiated = Version::negotiate(Some(&text), &[Version::V1_0], false);
            prop_assert_eq!(negotiated.is_ok(), Version::parse(text.trim()) == Some(Version::V1_0));
        }
    }

    #[test]
    fn arbitrary_times_are_survived(time in model::timestamp(), damage in damage(), noise in text()) {
        // Quotes make it JSON, which is what damage knows how to change.
        let damaged = damage.apply(&format!("\"{time}\""));
        for text in [String::from_utf8_lossy(&damaged).into_owned(), noise] {
            if let Ok(time) = Timestamp::parse(text.trim_matches('"')) {
                prop_assert_eq!(Timestamp::parse(&time.to_string()).ok(), Some(time));
            }
        }
    }

    #[test]
    fn arbitrary_paths_are_survived(
        segments in vec(prop_oneof![text(), select(SEGMENTS).prop_map(str::to_owned)], 0..6),
        verb in select(&[Method::GET, Method::POST, Method::DELETE, Method::PUT][..]),
    ) {
        let path = format!("/{}", segments.join("/"));
        if let Ok(route) = Operation::from_path(&verb, &path) {
            for variable in [route.task, route.config].into_iter().flatten() {
                prop_assert!(!variable.is_empty() && !variable.contains('/'), "{path}");
            }
        }
    }
}
