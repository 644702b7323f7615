//! Push notification configurations. v1.0 is flat; v0.3 puts what is posted to into an object of its own, and in
//! ProtoJSON names the whole by a path.

use chancery_protocol::field::{Object, null_as_default};
use chancery_protocol::{
    AuthenticationInfo, ListTaskPushNotificationConfigsResponse, PushConfigId, TaskId,
    TaskPushNotificationConfig,
};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::{Form, Newer, Older, each};

/// The part of a configuration that says where to post, and how.
pub(crate) struct OlderReceiver<'a>(pub(crate) &'a TaskPushNotificationConfig);

/// What stands before the ids in the name of a configuration.
const TASKS: &str = "tasks/";
const CONFIGS: &str = "/pushNotificationConfigs/";

/// What is assumed when credentials come without the scheme that they are for.
const BEARER: &str = "Bearer";

// === written ===

/// The path by which ProtoJSON names a configuration of a task.
fn config_name(task: &str, config: &str) -> String {
    format!("{TASKS}{task}{CONFIGS}{config}")
}

/// The ids of the task and of its configuration in such a path.
fn ids_in(name: &str) -> (Option<String>, Option<String>) {
    let Some(ids) = name.strip_prefix(TASKS) else { return (None, None) };
    let (task, config) = ids.split_once(CONFIGS).unwrap_or((ids, ""));
    (Some(task.to_owned()), Some(config.to_owned()))
}

impl Serialize for Older<'_, TaskPushNotificationConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, config) = *self;
        let task = config.task_id.as_ref().map_or("", TaskId::as_str);
        let mut map = serializer.serialize_map(Some(2))?;
        match form {
            Form::Kind => map.serialize_entry("taskId", task)?,
            Form::Proto { .. } => {
                let id = config.id.as_ref().map_or("", PushConfigId::as_str);
                map.serialize_entry("name", &config_name(task, id))?;
            }
        }
        map.serialize_entry("pushNotificationConfig", &OlderReceiver(config))?;
        map.end()
    }
}

/// The `kind` form has the bare list; ProtoJSON has it in an object.
impl Serialize for Older<'_, ListTaskPushNotificationConfigsResponse> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(form, found) = *self;
        let configs = each(form, &found.configs);
        if form.is_kind() {
            return configs.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("configs", &configs)?;
        if !found.next_page_token.is_empty() {
            map.serialize_entry("nextPageToken", &found.next_page_token)?;
        }
        map.end()
    }
}

impl Serialize for OlderReceiver<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Authentication<'a> {
            schemes: [&'a str; 1],
            #[serde(skip_serializing_if = "str::is_empty")]
            credentials: &'a str,
        }
        let Self(config) = self;
        let mut map = serializer.serialize_map(None)?;
        if let Some(id) = &config.id {
            map.serialize_entry("id", id)?;
        }
        map.serialize_entry("url", &config.url)?;
        if !config.token.is_empty() {
            map.serialize_entry("token", &config.token)?;
        }
        if let Some(info) = &config.authentication {
            let known = Authentication { schemes: [&info.scheme], credentials: &info.credentials };
            map.serialize_entry("authentication", &known)?;
        }
        map.end()
    }
}

// === read ===

/// Every shape in which a configuration has been seen: flat, in `pushNotificationConfig`, and that again in `config`
/// beside the ids.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigWire {
    #[serde(alias = "task_id")]
    task_id: Option<String>,
    name: Option<String>,
    parent: Option<String>,
    #[serde(alias = "config_id")]
    config_id: Option<String>,
    #[serde(alias = "push_notification_config")]
    push_notification_config: Option<Box<Object<ConfigWire>>>,
    config: Option<Box<Object<ConfigWire>>>,
    id: Option<String>,
    url: Option<String>,
    token: Option<String>,
    authentication: Option<Object<AuthenticationWire>>,
}

#[derive(serde::Deserialize)]
struct AuthenticationWire {
    #[serde(default, deserialize_with = "null_as_default")]
    schemes: Vec<String>,
    #[serde(default)]
    scheme: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    credentials: String,
}

impl ConfigWire {
    /// Puts together what stands in different places.
    fn flatten(self) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let inner = self.push_notification_config.or(self.config);
        let inner = inner.map_or_else(Self::default, |inner| inner.0.flatten());
        let named = given(self.name.or(self.parent)).unwrap_or_default();
        let (task, config) = ids_in(&named);
        Self {
            task_id: given(self.task_id).or(given(task)).or(inner.task_id),
            id: given(self.config_id).or(given(self.id)).or(inner.id).or(given(config)),
            url: self.url.or(inner.url),
            token: given(self.token).or(inner.token),
            authentication: self.authentication.or(inner.authentication),
            ..Self::default()
        }
    }
}

impl AuthenticationWire {
    /// v1.0 has one scheme. None at all without credentials says nothing.
    fn into_info(self) -> Option<AuthenticationInfo> {
        let scheme = self.schemes.into_iter().chain(self.scheme).find(|scheme| !scheme.is_empty());
        match scheme {
            None if self.credentials.is_empty() => None,
            scheme => Some(AuthenticationInfo {
                scheme: scheme.unwrap_or_else(|| BEARER.to_owned()),
                credentials: self.credentials,
            }),
        }
    }
}

impl<'de> Deserialize<'de> for Newer<TaskPushNotificationConfig> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object::<ConfigWire>(wire) = Object::deserialize(deserializer)?;
        let wire = wire.flatten();
        Ok(Self(TaskPushNotificationConfig {
            tenant: String::new(),
            id: wire.id.map(PushConfigId::from),
            task_id: wire.task_id.map(TaskId::from),
            url: wire.url.ok_or_else(|| D::Error::missing_field("url"))?,
            token: wire.token.unwrap_or_default(),
            authentication: wire.authentication.and_then(|Object(wire)| wire.into_info()),
        }))
    }
}

/// A list of configurations: the list itself, or in an object.
pub(crate) fn newer_configs(
    json: &str,
) -> Result<ListTaskPushNotificationConfigsResponse, serde_json::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ConfigsWire<'a> {
        #[serde(borrow, default)]
        configs: Option<&'a RawValue>,
        #[serde(alias = "next_page_token", default, deserialize_with = "null_as_default")]
        next_page_token: String,
    }
    let list = |json: &str| serde_json::from_str::<Vec<Newer<_>>>(json).map(Newer::all);
    if json.trim_start().starts_with('[') {
        return Ok(ListTaskPushNotificationConfigsResponse {
            configs: list(json)?,
            next_page_token: String::new(),
        });
    }
    let Object::<ConfigsWire<'_>>(wire) = serde_json::from_str(json)?;
    Ok(ListTaskPushNotificationConfigsResponse {
        configs: wire.configs.map(|raw| list(raw.get())).transpose()?.unwrap_or_default(),
        next_page_token: wire.next_page_token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_found_wherever_it_stands() {
        let read = |json: &str| serde_json::from_str::<Newer<TaskPushNotificationConfig>>(json).unwrap().0;
        let receiver = r#"{"id":"c","url":"https://a.example","token":"t","authentication":{"schemes":["Basic","x"],"credentials":"s"}}"#;
        let wanted = read(&format!(r#"{{"taskId":"1","pushNotificationConfig":{receiver}}}"#));
        assert_eq!((wanted.task_id.as_ref().unwrap().as_str(), wanted.token.as_str()), ("1", "t"));
        let info = wanted.authentication.clone().unwrap();
        assert_eq!((info.scheme.as_str(), info.credentials.as_str()), ("Basic", "s"));
        let named =
            format!(r#"{{"name":"tasks/1/pushNotificationConfigs/c","pushNotificationConfig":{receiver}}}"#);
        for json in [
            named.clone(),
            format!(r#"{{"parent":"tasks/1","configId":"c","config":{named}}}"#),
            format!(
                r#"{{"parent":"tasks/1","config_id":"c","config":{{"push_notification_config":{receiver}}}}}"#
            ),
        ] {
            assert_eq!(read(&json), wanted, "{json}");
        }
        for form in [Form::Kind, Form::PROTO] {
            assert_eq!(read(&serde_json::to_string(&Older(form, &wanted)).unwrap()), wanted);
        }
        let bare = read(r#"{"url":"u","authentication":{"schemes":[],"credentials":"s"}}"#);
        assert_eq!(bare.authentication.unwrap().scheme, "Bearer");
        assert_eq!(read(r#"{"url":"u","authentication":{"schemes":[]}}"#).authentication, None);
        assert!(serde_json::from_str::<Newer<TaskPushNotificationConfig>>("{}").is_err());
    }
}
