//! The tables against the `.proto` files, and both ways of the bytes against another implementation of Protocol Buffers.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, Kind as ProtoKind,
    MessageDescriptor, SerializeOptions,
};
use serde_json::{Map, Value, json};

use super::*;

/// The `.proto` files as protox reads them.
static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(&compiled()[..]).expect("the descriptors fit together"));

/// The `.proto` files and what they import, as a `FileDescriptorSet`.
fn compiled() -> Vec<u8> {
    let mut compiler = protox::Compiler::new([folder()]).expect("the folder is there");
    compiler.include_imports(true).include_source_info(false);
    for file in ["lf/a2a/v1/a2a.proto", "a2a/v1/a2a.proto"] {
        compiler.open_file(file).expect("the .proto files are good");
    }
    compiler.encode_file_descriptor_set()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")
}

/// Set `CHANCERY_WRITE_DESCRIPTORS` to have it made anew.
#[test]
fn the_descriptors_are_those_of_the_proto_files() {
    let path = folder().join("descriptors.bin");
    if std::env::var_os("CHANCERY_WRITE_DESCRIPTORS").is_some() {
        std::fs::write(&path, compiled()).expect("it can be written");
    }
    assert!(std::fs::read(&path).expect("it is there") == compiled(), "the .proto files have changed");
}

fn descriptor(message: &Message) -> MessageDescriptor {
    POOL.get_message_by_name(message.name).unwrap_or_else(|| panic!("{} is in no .proto file", message.name))
}

#[test]
fn tables_and_proto_files_say_the_same() {
    for message in tables() {
        let proto = descriptor(message);
        assert_eq!(proto.fields().len(), message.fields.len(), "{}", message.name);
        for field in message.fields {
            let of = format!("{}.{}", message.name, field.name);
            let known = proto.get_field(field.number).unwrap_or_else(|| panic!("{of} has another number"));
            assert_eq!(known.json_name(), field.name, "{of}");
            assert_eq!(presence(&known), plain(field), "{of}");
            check_kind(&of, field.kind, &known);
        }
    }
    let declared = POOL.all_messages().filter(|proto| proto.package_name().contains("a2a"));
    assert_eq!(declared.filter(|proto| !proto.is_map_entry()).count(), tables().count());
}

fn tables() -> impl Iterator<Item = &'static Message> {
    a2a_v1::ALL.iter().chain(a2a_v0_3::ALL).copied()
}

fn presence(known: &FieldDescriptor) -> Presence {
    match known {
        known if known.is_list() => Presence::Repeated,
        known if known.is_map() => Presence::Implicit,
        known if known.field_descriptor_proto().proto3_optional() => Presence::Explicit,
        known if known.containing_oneof().is_some() => Presence::OneOf,
        _ => Presence::Implicit,
    }
}

/// What is required is so by the words of the specification, not by its bytes.
fn plain(field: &Field) -> Presence {
    match field.presence {
        Presence::Required => Presence::Implicit,
        Presence::RequiredList => Presence::Repeated,
        other => other,
    }
}

fn check_kind(of: &str, kind: Kind, known: &FieldDescriptor) {
    let proto = known.kind();
    let is_message = |name: &str| proto.as_message().is_some_and(|message| message.full_name() == name);
    let fits = match kind {
        Kind::Text => proto == ProtoKind::String,
        Kind::Bytes => proto == ProtoKind::Bytes,
        Kind::Bool => proto == ProtoKind::Bool,
        Kind::Int32 => proto == ProtoKind::Int32,
        Kind::Enum(names) => {
            let values = proto.as_enum().expect("an enum").clone();
            let known: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
            let in_order = values.values().enumerate().all(|(index, value)| value.number() == index as i32);
            in_order && known == names
        }
        Kind::Message(message) => is_message(message.name),
        Kind::Map(inner) => {
            let entry = proto.as_message().expect("a map").clone();
            check_kind(of, *inner, &entry.map_entry_value_field());
            known.is_map()
        }
        Kind::Object => is_message("google.protobuf.Struct"),
        Kind::Value => is_message("google.protobuf.Value"),
        Kind::Timestamp => is_message("google.protobuf.Timestamp"),
        Kind::Duration => is_message("google.protobuf.Duration"),
        Kind::Any(_) => is_message("google.protobuf.Any"),
    };
    assert!(fits, "{of} is a {proto:?}");
}

#[test]
fn every_operation_has_the_messages_of_its_method() {
    let service = POOL.get_service_by_name("lf.a2a.v1.A2AService").unwrap();
    assert_eq!(service.methods().len(), 11);
    for method in service.methods() {
        let operation = chancery_protocol::Operation::from_method(method.name()).unwrap();
        let (request, reply) = a2a_v1::messages(operation);
        assert_eq!(method.input().full_name(), request.name);
        assert_eq!(method.output().full_name(), reply.name);
        assert_eq!(method.is_server_streaming(), operation.is_streaming());
        assert!(!method.is_client_streaming());
    }
    let service = POOL.get_service_by_name("a2a.v1.A2AService").unwrap();
    assert_eq!(service.methods().len(), 10);
    for method in service.methods() {
        let operation = crate::dialect::v0_3::grpc::operation(method.name()).unwrap();
        assert_eq!(crate::dialect::v0_3::grpc::method(operation), Some(method.name()));
        let (request, reply) = a2a_v0_3::messages(operation).unwrap();
        assert_eq!((method.input().full_name(), method.output().full_name()), (request.name, reply.name));
        assert_eq!(method.is_server_streaming(), operation.is_streaming());
    }
}

// === messages of all shapes ===

fn user_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1.0e20..1.0e20).prop_map(|float: f64| json!(float)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn user_object() -> impl Strategy<Value = Value> {
    btree_map(".{0,6}", user_json(), 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// Any value of a kind but its default.
fn value_of(kind: Kind) -> BoxedStrategy<Value> {
    match kind {
        Kind::Text => ".{1,12}".prop_map(Value::from).boxed(),
        Kind::Bytes => vec(any::<u8>(), 1..20)
            .prop_map(|bytes| {
                use base64::Engine as _;
                json!(base64::engine::general_purpose::STANDARD.encode(bytes))
            })
            .boxed(),
        Kind::Bool => Just(json!(true)).boxed(),
        Kind::Int32 => any::<i32>().prop_filter("a default", |n| *n != 0).prop_map(Value::from).boxed(),
        Kind::Enum(names) => (1..names.len()).prop_map(|index| json!(names[index])).boxed(),
        Kind::Message(message) => message_of(message),
        Kind::Map(kind) => btree_map(".{0,6}", value_of(*kind), 1..3)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
            .boxed(),
        Kind::Object => user_object().boxed(),
        Kind::Value => user_json().boxed(),
        // Whole seconds are written with and without a fraction, and both are right.
        Kind::Timestamp => (0_i64..4_000_000_000_000)
            .prop_filter("a whole second", |millis| millis % 1000 != 0)
            .prop_map(|millis| json!(chancery_protocol::Timestamp::from_millis(millis).to_string()))
            .boxed(),
        Kind::Duration | Kind::Any(_) => unreachable!("no message of A2A's has one"),
    }
}

fn message_of(message: &'static Message) -> BoxedStrategy<Value> {
    let members: Vec<_> = message.fields.iter().filter(|field| field.presence == Presence::OneOf).collect();
    let mut fields: Vec<BoxedStrategy<Option<(&'static str, Value)>>> = Vec::new();
    for field in message.fields.iter().filter(|field| field.presence != Presence::OneOf) {
        let name = field.name;
        let value = match field.presence {
            Presence::Repeated | Presence::RequiredList => {
                vec(value_of(field.kind), 1..3).prop_map(Value::from).boxed()
            }
            _ => value_of(field.kind),
        };
        let entry = value.prop_map(move |value| (name, value));
        let is_required = matches!(field.presence, Presence::Required | Presence::RequiredList);
        fields.push(if is_required { entry.prop_map(Some).boxed() } else { option::of(entry).boxed() });
    }
    if !members.is_empty() {
        let one = members.into_iter().map(|field| {
            let name = field.name;
            value_of(field.kind).prop_map(move |value| Some((name, value))).boxed()
        });
        fields.push(proptest::strategy::Union::new(one).boxed());
    }
    fields
        .prop_map(|fields| {
            let entries = fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
            Value::Object(entries.collect::<Map<_, _>>())
        })
        .boxed()
}

/// Two JSON values, in which a number is a number.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.iter().map(floats).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), floats(value))).collect(),
        other => other.clone(),
    }
}

fn written(message: &'static Message, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    from_json(&mut bytes, message, value.to_string().as_bytes()).expect("it can be written");
    bytes
}

fn read(message: &'static Message, bytes: &[u8]) -> Value {
    let json = to_json(message, bytes).expect("it can be read");
    serde_json::from_slice(&json).expect("it is JSON")
}

/// What the other implementation makes of bytes.
fn read_by_other(message: &Message, bytes: &[u8]) -> Value {
    let read = DynamicMessage::decode(descriptor(message), bytes).expect("the other can read it");
    let options = SerializeOptions::new().use_proto_field_name(false);
    let mut json = Vec::new();
    read.serialize_with_options(&mut serde_json::Serializer::new(&mut json), &options).expect("JSON");
    serde_json::from_slice(&json).expect("JSON")
}

fn written_by_other(message: &Message, value: &Value) -> Vec<u8> {
    let options = DeserializeOptions::new();
    let text = value.to_string();
    let mut json = serde_json::Deserializer::from_str(&text);
    let read = DynamicMessage::deserialize_with_options(descriptor(message), &mut json, &options);
    read.expect("the other can write it").encode_to_vec()
}

fn any_message() -> impl Strategy<Value = (&'static Message, Value)> {
    let each = tables().map(|message| message_of(message).prop_map(move |value| (message, value)));
    proptest::strategy::Union::new(each.map(Strategy::boxed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn both_implementations_agree((message, value) in any_message()) {
        let wanted = floats(&value);
        let bytes = written(message, &value);
        prop_assert_eq!(&floats(&read(message, &bytes)), &wanted);
        prop_assert_eq!(&floats(&read_by_other(message, &bytes)), &wanted);
        prop_assert_eq!(&floats(&read(message, &written_by_other(message, &value))), &wanted);
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..200), index in 0..a2a_v1::ALL.len()) {
        if let Ok(json) = to_json(a2a_v1::ALL[index], &bytes) {
            prop_assert!(serde_json::from_slice::<Value>(&json).is_ok());
        }
    }

    #[test]
    fn damaged_messages_are_survived((message, value) in any_message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = written(message, &value);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(json) = to_json(message, &bytes) {
            prop_assert!(serde_json::from_slice::<Value>(&json).is_ok());
        }
    }

    #[test]
    fn any_text_is_survived(text in "[\\[\\]{}\",:a-z0-9\\\\ ]{0,60}", index in 0..a2a_v1::ALL.len()) {
        let mut bytes = Vec::new();
        if from_json(&mut bytes, a2a_v1::ALL[index], text.as_bytes()).is_ok() {
            prop_assert!(wire::records(&bytes).is_ok());
        }
    }
}

// === rules that a generator does not find ===

#[test]
fn defaults_are_written_where_they_mean_something() {
    let bytes = written(&a2a_v1::GET_TASK_REQUEST, &json!({"tenant": "", "id": "", "historyLength": 0}));
    assert_eq!(read(&a2a_v1::GET_TASK_REQUEST, &bytes), json!({"id": "", "historyLength": 0}));
    assert_eq!(read(&a2a_v1::GET_TASK_REQUEST, b""), json!({"id": ""}));
    assert_eq!(request_to_json(&a2a_v1::GET_TASK_REQUEST, b"").unwrap(), b"{}");
    let text = written(&a2a_v1::PART, &json!({"text": ""}));
    assert_eq!(read(&a2a_v1::PART, &text), json!({"text": ""}));
    let null = written(&a2a_v1::PART, &json!({"data": null, "metadata": null}));
    assert_eq!(read(&a2a_v1::PART, &null), json!({"data": null}));
    let page = json!({"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0});
    assert_eq!(written(&a2a_v1::LIST_TASKS_RESPONSE, &page), b"");
    assert_eq!(read(&a2a_v1::LIST_TASKS_RESPONSE, b""), page);
    assert_eq!(read(&a2a_v1::TASK_STATUS, b""), json!({"state": "TASK_STATE_UNSPECIFIED"}));
}

#[test]
fn whole_numbers_stay_whole() {
    let data = json!({"data": [7, -3, 0.5, 1e300, 9007199254740991_i64, 12345678901234567890_u64]});
    let json = to_json(&a2a_v1::PART, &written(&a2a_v1::PART, &data)).unwrap();
    let expected = r#"{"data":[7,-3,0.5,1e+300,9007199254740991,1.2345678901234567e+19]}"#;
    assert_eq!(String::from_utf8(json).unwrap(), expected);
}

#[test]
fn what_json_has_and_bytes_have_not_comes_near() {
    let mut bytes = Vec::new();
    from_json(&mut bytes, &a2a_v1::PART, br#"{"data":["\ud800",1e999,-1e999]}"#).unwrap();
    assert_eq!(read(&a2a_v1::PART, &bytes), json!({"data": ["\u{fffd}", f64::MAX, f64::MIN]}));
}

#[test]
fn the_last_one_counts_and_messages_are_merged() {
    let mut bytes = written(&a2a_v1::PART, &json!({"text": "a", "filename": "x"}));
    bytes.extend(written(&a2a_v1::PART, &json!({"url": "b", "filename": "y"})));
    assert_eq!(read(&a2a_v1::PART, &bytes), json!({"url": "b", "filename": "y"}));
    assert_eq!(read_by_other(&a2a_v1::PART, &bytes), json!({"url": "b", "filename": "y"}));
    let half = |status: Value| json!({"id": "t", "status": status});
    let mut bytes = written(&a2a_v1::TASK, &half(json!({"state": "TASK_STATE_WORKING"})));
    bytes.extend(written(&a2a_v1::TASK, &half(json!({"timestamp": "2026-01-02T03:04:05.678Z"}))));
    let both = json!({"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05.678Z"});
    assert_eq!(read(&a2a_v1::TASK, &bytes), half(both));
}

#[test]
fn names_and_numbers_of_tomorrow_are_passed_over() {
    let mut bytes = written(&a2a_v1::GET_TASK_REQUEST, &json!({"id": "t", "novelty": {"a": [1, "}"]}}));
    wire::put_bytes(&mut bytes, 99, b"new");
    wire::put_double(&mut bytes, 98, 1.0);
    assert_eq!(read(&a2a_v1::GET_TASK_REQUEST, &bytes), json!({"id": "t"}));
    let mut status = Vec::new();
    wire::put_number(&mut status, 1, 77);
    assert_eq!(read(&a2a_v1::TASK_STATUS, &status), json!({"state": 77}));
    assert_eq!(written(&a2a_v1::TASK_STATUS, &json!({"state": "TASK_STATE_NEW"})), b"");
    let snake = written(&a2a_v1::MESSAGE, &json!({"message_id": "m", "reference_task_ids": ["t"]}));
    let camel = json!({"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": [], "referenceTaskIds": ["t"]});
    assert_eq!(read(&a2a_v1::MESSAGE, &snake), camel);
}

#[test]
fn times_keep_their_nanoseconds() {
    for time in ["2026-01-02T03:04:05.000Z", "1969-12-31T23:59:59.000000001Z", "0001-01-01T00:00:00.000Z"] {
        let status = json!({"state": "TASK_STATE_WORKING", "timestamp": time});
        assert_eq!(read(&a2a_v1::TASK_STATUS, &written(&a2a_v1::TASK_STATUS, &status)), status);
    }
    for seconds in [i64::MIN, i64::MAX, 253_402_300_800] {
        let mut bytes = Vec::new();
        wire::put_nested(&mut bytes, 3, |out| {
            wire::put_number(out, 1, seconds.cast_unsigned());
            Ok::<_, Malformed>(())
        })
        .unwrap();
        assert!(to_json(&a2a_v1::TASK_STATUS, &bytes).is_err());
    }
}

#[test]
fn durations_keep_their_sign_and_their_bounds() {
    let delay = |seconds: i64, nanos: i64| {
        let mut bytes = Vec::new();
        wire::put_nested(&mut bytes, 1, |out| {
            wire::put_number(out, 1, seconds.cast_unsigned());
            wire::put_number(out, 2, nanos.cast_unsigned());
            Ok::<_, Malformed>(())
        })
        .unwrap();
        bytes
    };
    let longest = 315_576_000_000;
    for (seconds, nanos, text) in [
        (1, 500_000_000, "1.500000000s"),
        (-1, -500_000_000, "-1.500000000s"),
        (0, -1, "-0.000000001s"),
        (longest, 999_999_999, "315576000000.999999999s"),
        (-longest, 0, "-315576000000.000000000s"),
    ] {
        let json = json!({"retryDelay": text});
        assert_eq!(read(&rpc::RETRY_INFO, &delay(seconds, nanos)), json);
        assert_eq!(read(&rpc::RETRY_INFO, &written(&rpc::RETRY_INFO, &json)), json);
    }
    for (seconds, nanos) in [
        (1, 1_000_000_000),
        (1, 2_146_264_320),
        (1, -1),
        (-1, 1),
        (longest + 1, 0),
        (i64::MIN, 0),
        (0, i64::MIN),
    ] {
        assert!(to_json(&rpc::RETRY_INFO, &delay(seconds, nanos)).is_err(), "{seconds} {nanos}");
    }
    for text in ["1", "s", "-s", "--1s", "+1s", "1.+5s", "1.2.3s", "315576000001s"] {
        let json = json!({"retryDelay": text}).to_string();
        assert!(from_json(&mut Vec::new(), &rpc::RETRY_INFO, json.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_is_too_deep_is_refused() {
    let mut value = Vec::new();
    wire::put_number(&mut value, 1, 0);
    for _ in 0..5_000 {
        let mut list = Vec::new();
        wire::put_bytes(&mut list, 1, &value);
        value.clear();
        wire::put_bytes(&mut value, 6, &list);
    }
    let mut part = Vec::new();
    wire::put_bytes(&mut part, 4, &value);
    assert!(to_json(&a2a_v1::PART, &part).is_err());
}
