//! Whatever the model holds survives the wire, in every spelling that ProtoJSON allows.

mod strategies;

use std::fmt::Debug;

use chancery_protocol::{
    Artifacts, Json, JsonObject, KeptTask, ListTasksResponse, Part, Role, SendMessageResponse, TaskState,
    TaskView, Timestamp, decode_params,
};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;

use strategies::json::{Tokens, json, object, object_tokens, tokens};
use strategies::tree::{Tree, snake_case};
use strategies::{card, model, text, tries};

fn write<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("the model is always JSON")
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// A field that no version of the protocol has, with any value.
fn unknown_field() -> impl Strategy<Value = (String, Tokens)> {
    let before_and_after_all_others = select(&["~", "", "kind", "x_y"][..]);
    (before_and_after_all_others, text(), tokens())
        .prop_map(|(prefix, text, value)| (format!("{prefix}~{text}"), value))
}

fn reads_as<T>(json: &str, value: &T) -> Result<(), TestCaseError>
where
    T: DeserializeOwned + PartialEq + Debug,
{
    let found = read::<T>(json);
    prop_assert_eq!(found.as_ref(), Ok(value), "{}", json);
    Ok(())
}

fn survives<T>(value: &T, unknown: &(String, Tokens)) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let json = write(value);
    prop_assert!(!json.contains(['\n', '\r']), "would break an SSE frame: {json}");
    reads_as(&json, value)?;

    let tree = Tree::parse(&json);
    for name in tree.field_names() {
        let is_camel_case =
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(char::is_alphanumeric);
        prop_assert!(is_camel_case, "{name} in {json}");
    }

    let mut snake = tree.clone();
    snake.change_messages(&mut |fields| fields.iter_mut().for_each(|(name, _)| *name = snake_case(name)));
    reads_as(&snake.to_string(), value)?;

    let mut later = tree;
    let (name, unknown) = unknown;
    later.change_messages(&mut |fields| {
        let place = unknown.compact().len() % (fields.len() + 1);
        fields.insert(place, (name.clone(), Tree::Raw(unknown.compact())));
    });
    reads_as(&later.to_string(), value)
}

/// `null` on input is an unset field, so it can only ever read as the field's absence does. A part's data is
/// the exception: there it is a value.
fn null_is_absent<T>(value: &T) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let tree = Tree::parse(&write(value));
    for (place, name) in tree.field_names().iter().enumerate().filter(|(_, name)| *name != "data") {
        let absent = tree.change_field(place, |fields, at| drop(fields.remove(at))).to_string();
        let null = tree.change_field(place, |fields, at| fields[at].1 = Tree::Raw("null".into())).to_string();
        prop_assert_eq!(read::<T>(&null).ok(), read::<T>(&absent).ok(), "{} in {}", name, null);
    }
    Ok(())
}

/// A message is an object wherever it stands. serde's derive alone would take a list of its fields as well.
fn no_message_is_a_list<T>(value: &T) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + Debug,
{
    let refusal = decode_params::<T>(b"[]").map(|read| panic!("{read:?}")).unwrap_err();
    prop_assert!(refusal.message().ends_with("expected an object"), "{refusal}");
    let json = write(value);
    let tree = Tree::parse(&json);
    for place in 0..tree.field_names().len() {
        let lists = tree.change_field(place, |fields, at| put_lists(&mut fields[at].1)).to_string();
        if lists != json {
            let refusal = read::<T>(&lists).map(|read| panic!("{read:?}: {lists}")).unwrap_err();
            prop_assert!(refusal.starts_with("invalid type: sequence"), "{refusal}: {lists}");
        }
    }
    Ok(())
}

/// Writes the messages of a field as lists.
fn put_lists(field: &mut Tree) {
    match field {
        Tree::Message(_) => *field = Tree::Raw("[]".into()),
        Tree::Map(entries) => entries.iter_mut().for_each(|(_, value)| put_lists(value)),
        Tree::List(items) => items.iter_mut().for_each(put_lists),
        Tree::Raw(_) => {}
    }
}

macro_rules! every_type {
    ($($name:ident: $strategy:expr;)*) => {
        mod survives_the_wire {
            use super::*;

            proptest! {
                #![proptest_config(tries(128))]
                $(#[test]
                fn $name(value in $strategy, unknown in unknown_field()) {
                    survives(&value, &unknown)?;
                })*
            }
        }

        mod reads_null_as_absent {
            use super::*;

            proptest! {
                #![proptest_config(tries(24))]
                $(#[test]
                fn $name(value in $strategy) {
                    null_is_absent(&value)?;
                })*
            }
        }

        mod refuses_lists {
            use super::*;

            proptest! {
                #![proptest_config(tries(24))]
                $(#[test]
                fn $name(value in $strategy) {
                    no_message_is_a_list(&value)?;
                })*
            }
        }
    };
}

every_type! {
    task: model::task();
    task_status: model::status();
    message: model::message();
    part: model::part();
    artifact: model::artifact();
    task_status_update_event: model::status_update();
    task_artifact_update_event: model::artifact_update();
    stream_response: model::stream_response();
    send_message_request: model::send_message();
    send_message_configuration: model::configuration();
    send_message_response: model::send_message_response();
    get_task_request: model::get_task();
    list_tasks_request: model::list_tasks();
    list_tasks_response: model::task_list();
    cancel_task_request: model::cancel_task();
    subscribe_to_task_request: model::subscribe_to_task();
    task_push_notification_config: model::push_config();
    authentication_info: model::authentication();
    push_notification_config_request: model::push_config_request();
    list_task_push_notification_configs_request: model::list_push_configs();
    list_task_push_notification_configs_response: model::push_configs();
    get_extended_agent_card_request: model::extended_card_request();
    agent_card: card::card();
    agent_interface: card::interface();
    agent_provider: card::provider();
    agent_capabilities: card::capabilities();
    agent_extension: card::extension();
    agent_skill: card::skill();
    agent_card_signature: card::signature();
    security_requirement: card::requirement();
    string_list: card::string_list();
    security_scheme: card::scheme();
    api_key_security_scheme: card::api_key();
    http_auth_security_scheme: card::http_auth();
    oauth2_security_scheme: card::oauth2();
    open_id_connect_security_scheme: card::open_id_connect();
    mutual_tls_security_scheme: card::mutual_tls();
    oauth_flows: card::flows();
    authorization_code_oauth_flow: card::authorization_code();
    client_credentials_oauth_flow: card::client_credentials();
    implicit_oauth_flow: card::implicit();
    password_oauth_flow: card::password();
    device_code_oauth_flow: card::device_code();
}

// === scalars ===

#[test]
fn enums_are_read_by_name_and_by_number() {
    for number in 0..9 {
        let state = TaskState::from_number(number).unwrap();
        assert_eq!(TaskState::from_name(state.as_str()), Some(state));
        assert_eq!(read::<TaskState>(&write(&state)), Ok(state));
        assert_eq!(read::<TaskState>(&number.to_string()), Ok(state));
    }
    for (number, role) in [Role::Unspecified, Role::User, Role::Agent].into_iter().enumerate() {
        assert_eq!(read::<Role>(&write(&role)), Ok(role));
        assert_eq!(read::<Role>(&number.to_string()), Ok(role));
    }
}

#[test]
fn an_enum_value_of_a_later_version_does_not_spoil_the_payload() {
    for unknown in ["\"TASK_STATE_PAUSED\"", "\"\"", "2147483648", "18446744073709551615"] {
        assert_eq!(read::<TaskState>(unknown), Ok(TaskState::Unspecified), "{unknown}");
        assert_eq!(read::<Role>(unknown), Ok(Role::Unspecified), "{unknown}");
    }
    for number in [9, 42, i32::MAX, -1, i32::MIN] {
        let (state, role) = (TaskState::Unknown(number), Role::Unknown(number));
        assert_eq!(read::<TaskState>(&number.to_string()), Ok(state));
        assert_eq!(read::<Role>(&number.to_string()), Ok(role));
        assert_eq!((write(&state), write(&role)), (number.to_string(), number.to_string()));
        assert!(!state.is_terminal() && !state.is_interrupted() && TaskState::Working.may_become(state));
        assert!(!TaskState::Completed.may_become(state));
    }
}

/// Milliseconds within, and also far beyond, the years that can be written.
fn millis() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -1_000_000_000_000_000..1_000_000_000_000_000i64]
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn bindings_survive(binding in card::binding()) {
        prop_assert_eq!(read(&write(&binding)), Ok(binding));
    }

    #[test]
    fn timestamps_of_any_millisecond_survive(millis in millis(), ordinary in model::timestamp()) {
        for timestamp in [Timestamp::from_millis(millis), ordinary] {
            let written = timestamp.to_string();
            prop_assert!(written.ends_with('Z'), "{written}");
            prop_assert_eq!(Timestamp::parse(&written).ok(), Some(timestamp));
            prop_assert_eq!(read(&write(&timestamp)), Ok(timestamp));
        }
    }

    #[test]
    fn times_in_order_stay_in_order(one in millis(), other in millis()) {
        let (earlier, later) = (one.min(other), one.max(other));
        prop_assert!(Timestamp::from_millis(earlier) <= Timestamp::from_millis(later));
    }

    #[test]
    fn bytes_are_read_from_either_alphabet_with_or_without_padding(bytes in any::<Vec<u8>>()) {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
        let part = Part::raw(bytes.clone());
        let standard = STANDARD.encode(&bytes);
        prop_assert_eq!(write(&part), format!(r#"{{"raw":"{standard}"}}"#));
        let without_padding = STANDARD_NO_PAD.encode(&bytes);
        let url_safe = [URL_SAFE.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)];
        for text in [standard, without_padding].into_iter().chain(url_safe) {
            reads_as(&format!(r#"{{"raw":"{text}"}}"#), &part)?;
        }
    }
}

// === user JSON ===

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn user_json_keeps_every_token(tokens in tokens()) {
        let text = tokens.compact();
        let json = Json::parse(&text).unwrap();
        prop_assert_eq!(json.as_str(), &text);
        prop_assert_eq!(&write(&json), &text);
        prop_assert_eq!(read::<Json>(&text), Ok(json.clone()));
        prop_assert_eq!(write(&Part::data(json)), format!(r#"{{"data":{text}}}"#));
    }

    #[test]
    fn white_space_between_tokens_is_dropped(tokens in tokens(), gap in select(&[" ", "\n", "\r\n\t "][..])) {
        let spaced = format!("{gap}{}{gap}", tokens.spaced(gap));
        prop_assert_eq!(write(&Json::parse(&spaced).unwrap()), tokens.compact());
        prop_assert_eq!(write(&read::<Json>(&spaced).unwrap()), tokens.compact());
    }

    #[test]
    fn objects_keep_every_token(tokens in object_tokens()) {
        let object = JsonObject::parse(&tokens.spaced(" ")).unwrap();
        prop_assert_eq!(object.as_str(), tokens.compact());
        prop_assert_eq!(read(&write(&object)), Ok(object));
    }

    #[test]
    fn only_objects_are_objects(json in json()) {
        let is_object = json.as_str().starts_with('{');
        prop_assert_eq!(JsonObject::try_from(json.clone()).is_ok(), is_object);
        prop_assert_eq!(read::<JsonObject>(json.as_str()).is_ok(), is_object);
    }

    #[test]
    fn merging_nothing_only_drops_what_was_repeated(object in object()) {
        let nothing = JsonObject::parse("{}").unwrap();
        let mut once = Vec::new();
        keys(&object).into_iter().for_each(|key| if !once.contains(&key) { once.push(key) });
        prop_assert_eq!(keys(&object.merged(&nothing)), &once[..]);
        prop_assert_eq!(keys(&nothing.merged(&object)), once);
    }

    #[test]
    fn merging_never_loses_a_key(one in object(), over in object()) {
        let merged = keys(&one.merged(&over));
        for key in keys(&one).iter().chain(&keys(&over)) {
            prop_assert!(merged.contains(key), "{key} of {one:?} and {over:?}");
        }
    }
}

/// The keys of an object, unescaped.
fn keys(object: &JsonObject) -> Vec<String> {
    let Tree::Message(entries) = Tree::parse(object.as_str()) else { panic!("{object:?}") };
    entries.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_key_that_is_half_a_surrogate_pair_costs_no_other_key() {
    let odd = JsonObject::parse(r#"{"\ud800":1,"a":2}"#).unwrap();
    assert_eq!(odd.entry::<u8>("a").unwrap(), Some(2));
    let merged = odd.merged(&JsonObject::parse(r#"{"b":3}"#).unwrap());
    assert_eq!(merged.as_str(), r#"{"\ud800":1,"a":2,"b":3}"#);
}

/// A gate reads one entry and an agent reads the object: were a key written twice, they must see the same.
#[test]
fn a_repeated_key_reads_the_same_in_every_way() {
    let twice = JsonObject::parse(r#"{"a":1,"a":2}"#).unwrap();
    let as_map: std::collections::BTreeMap<String, u8> = twice.to_value().unwrap();
    assert_eq!(twice.entry::<u8>("a").unwrap(), Some(as_map["a"]));
    let merged = twice.merged(&JsonObject::parse(r#"{"b":1}"#).unwrap());
    assert_eq!(merged.as_str(), r#"{"a":2,"b":1}"#);
}

// === views ===

fn view() -> impl Strategy<Value = TaskView> {
    let artifacts = select(&[Artifacts::Shown, Artifacts::Hidden][..]);
    let parts = (model::task(), of(0usize..4), artifacts, any::<bool>());
    parts.prop_map(|(task, history_length, artifacts, ended)| TaskView {
        task: if ended { KeptTask::ended(&task).expect("JSON") } else { task.into() },
        history_length,
        artifacts,
    })
}

proptest! {
    #![proptest_config(tries(64))]

    #[test]
    fn a_view_is_written_as_the_task_it_shows(view in view()) {
        let task = view.clone().into_task().unwrap();
        prop_assert_eq!(write(&view), write(&task));
        let mut answer = Vec::new();
        view.write_json(&mut answer).unwrap();
        prop_assert_eq!(String::from_utf8(answer).unwrap(), write(&task));
        prop_assert!(task.history.len() <= view.history_length.unwrap_or(usize::MAX));
        prop_assert!(view.task.value().unwrap().history.ends_with(&task.history));
        if view.artifacts == Artifacts::Hidden {
            let Tree::Message(fields) = Tree::parse(&write(&view)) else { panic!("{view:?}") };
            prop_assert!(fields.iter().all(|(name, _)| name != "artifacts"));
        }
    }

    #[test]
    fn answers_with_views_are_read_as_answers_with_tasks(view in view(), total_size in any::<i32>()) {
        let task = view.clone().into_task().unwrap();
        let sent = write(&SendMessageResponse::Task(view.clone()));
        prop_assert_eq!(read(&sent), Ok(SendMessageResponse::Task(task.clone())));

        let next_page_token = String::new();
        let page = ListTasksResponse { tasks: vec![view], next_page_token, page_size: 1, total_size };
        let next_page_token = String::new();
        let read_page = ListTasksResponse { tasks: vec![task], next_page_token, page_size: 1, total_size };
        prop_assert_eq!(read(&write(&page)), Ok(read_page));
    }
}
