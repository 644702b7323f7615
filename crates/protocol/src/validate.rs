//! What a request must hold before anybody looks anything up. The first thing that is wrong is named by its path.

use crate::decode::excerpt;
use crate::error::{Error, ErrorCode};
use crate::message::{Content, Message, Part, Role};
use crate::push::TaskPushNotificationConfig;
use crate::request::{
    GetTaskRequest, ListTaskPushNotificationConfigsRequest, ListTasksRequest, PushNotificationConfigRequest,
    SendMessageRequest,
};

/// How much of everything a request may bring. The body's size is bounded before it gets here.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Parts in a message.
    pub parts: usize,
    /// Entries in any other list: extensions, reference tasks, output modes.
    pub entries: usize,
    /// Bytes in an id.
    pub id_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { parts: 256, entries: 64, id_bytes: 256 }
    }
}

/// The page size when none is asked for.
pub const DEFAULT_PAGE_SIZE: i32 = 50;
/// The largest page.
pub const MAX_PAGE_SIZE: i32 = 100;

impl SendMessageRequest {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self, limits: &RequestLimits) -> Result<(), Error> {
        validate_message(&self.message, limits)?;
        let Some(configuration) = &self.configuration else { return Ok(()) };
        validate_history_length(configuration.history_length, "configuration.historyLength")?;
        at_most(
            limits.entries,
            configuration.accepted_output_modes.len(),
            "configuration.acceptedOutputModes",
        )?;
        match &configuration.task_push_notification_config {
            Some(config) => validate_push(config, limits, "configuration.taskPushNotificationConfig."),
            None => Ok(()),
        }
    }
}

impl GetTaskRequest {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self) -> Result<(), Error> {
        present(self.id.as_str(), "id")?;
        validate_history_length(self.history_length, "historyLength")
    }
}

impl ListTasksRequest {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self) -> Result<(), Error> {
        validate_history_length(self.history_length, "historyLength")?;
        match self.page_size {
            Some(size) if !(1..=MAX_PAGE_SIZE).contains(&size) => {
                Err(Error::invalid_field("pageSize", format!("must be 1 to {MAX_PAGE_SIZE}, is {size}")))
            }
            _ => Ok(()),
        }
    }
}

impl TaskPushNotificationConfig {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self, limits: &RequestLimits) -> Result<(), Error> {
        present(self.task_id.as_ref().map_or("", |id| id.as_str()), "taskId")?;
        validate_push(self, limits, "")
    }
}

impl PushNotificationConfigRequest {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self) -> Result<(), Error> {
        present(self.task_id.as_str(), "taskId")?;
        present(self.id.as_str(), "id")
    }
}

impl ListTaskPushNotificationConfigsRequest {
    /// Checks everything that can be checked without looking anything up.
    pub fn validate(&self) -> Result<(), Error> {
        present(self.task_id.as_str(), "taskId")?;
        if self.page_size < 0 || self.page_size > MAX_PAGE_SIZE {
            return Err(Error::invalid_field("pageSize", format!("must be 0 to {MAX_PAGE_SIZE}")));
        }
        Ok(())
    }
}

fn validate_message(message: &Message, limits: &RequestLimits) -> Result<(), Error> {
    present(message.message_id.as_str(), "message.messageId")?;
    if message.role != Role::User {
        return Err(Error::invalid_field("message.role", "must be ROLE_USER in a request"));
    }
    if message.parts.is_empty() {
        return Err(Error::invalid_field("message.parts", "must not be empty"));
    }
    at_most(limits.parts, message.parts.len(), "message.parts")?;
    at_most(limits.entries, message.extensions.len(), "message.extensions")?;
    at_most(limits.entries, message.reference_task_ids.len(), "message.referenceTaskIds")?;
    short(limits, message.message_id.as_str(), "message.messageId")?;
    short(limits, message.context_id.as_ref().map_or("", |id| id.as_str()), "message.contextId")?;
    for (index, part) in message.parts.iter().enumerate() {
        validate_part(part)
            .map_err(|text| Error::invalid_field(format!("message.parts[{index}].url"), text))?;
    }
    Ok(())
}

fn validate_part(part: &Part) -> Result<(), &'static str> {
    match &part.content {
        Content::Url(url) if !is_absolute_url(url) => Err("must be an absolute URL"),
        _ => Ok(()),
    }
}

/// How long the token and the credentials of a receiver may be, together.
const MAX_PUSH_SECRETS_BYTES: usize = 4 << 10;

fn validate_push(
    config: &TaskPushNotificationConfig,
    limits: &RequestLimits,
    path: &str,
) -> Result<(), Error> {
    if !is_http(&config.url) || !is_absolute_url(&config.url) {
        return Err(Error::invalid_field(format!("{path}url"), "must be an absolute http or https URL"));
    }
    if let Some(authentication) = &config.authentication
        && authentication.scheme.is_empty()
    {
        return Err(Error::invalid_field(format!("{path}authentication.scheme"), "must not be empty"));
    }
    let authentication = config.authentication.as_ref();
    let secrets = [
        ("token", config.token.as_str()),
        ("authentication.scheme", authentication.map_or("", |info| &info.scheme)),
        ("authentication.credentials", authentication.map_or("", |info| &info.credentials)),
    ];
    for (field, secret) in secrets {
        // They become headers of every notification.
        if !secret.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(Error::invalid_field(format!("{path}{field}"), "must be visible ASCII"));
        }
    }
    if secrets.iter().map(|(_, secret)| secret.len()).sum::<usize>() > MAX_PUSH_SECRETS_BYTES {
        let text =
            format!("must have at most {MAX_PUSH_SECRETS_BYTES} bytes, together with `authentication`");
        return Err(Error::invalid_field(format!("{path}token"), text));
    }
    short(limits, config.id.as_ref().map_or("", |id| id.as_str()), &format!("{path}id"))
}

fn is_http(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    })
}

fn validate_history_length(length: Option<i32>, field: &str) -> Result<(), Error> {
    match length {
        Some(length) if length < 0 => Err(Error::invalid_field(field, "must not be negative")),
        _ => Ok(()),
    }
}

/// A scheme, a colon, and something after it, with nothing in it that a URL cannot have.
pub fn is_absolute_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    let scheme_is_valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let host_is_present = match rest.strip_prefix("//") {
        Some(after) => scheme.eq_ignore_ascii_case("file") || has_host(after),
        None => !rest.is_empty(),
    };
    scheme_is_valid && host_is_present && !url.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Whether there is anything between the user and the port of what follows `//`.
fn has_host(after_slashes: &str) -> bool {
    let authority = after_slashes.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    !host_and_port.is_empty() && !host_and_port.starts_with(':')
}

fn present(value: &str, field: &str) -> Result<(), Error> {
    if value.is_empty() { Err(Error::invalid_field(field, "must not be empty")) } else { Ok(()) }
}

fn short(limits: &RequestLimits, value: &str, field: &str) -> Result<(), Error> {
    if value.len() > limits.id_bytes {
        return Err(Error::invalid_field(field, format!("must have at most {} bytes", limits.id_bytes)));
    }
    Ok(())
}

fn at_most(limit: usize, count: usize, field: &str) -> Result<(), Error> {
    if count > limit {
        return Err(Error::invalid_field(field, format!("must have at most {limit} entries, has {count}")));
    }
    Ok(())
}

/// Media types that an agent takes or gives, `*/*` and `type/*` included. Parameters are ignored.
pub fn media_type_matches(accepted: &str, actual: &str) -> bool {
    let bare = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (accepted, actual) = (bare(accepted), bare(actual));
    accepted == "*/*"
        || accepted == actual
        || accepted.strip_suffix("/*").is_some_and(|kind| actual.split('/').next() == Some(kind))
}

/// Refuses a message with a part of a media type that the agent does not take. Only a type that the sender
/// states is judged, and an empty list takes everything.
pub fn check_input_modes(message: &Message, accepted: &[String]) -> Result<(), Error> {
    for (index, part) in message.parts.iter().enumerate() {
        let Some(actual) = &part.media_type else { continue };
        if !accepted.is_empty() && !accepted.iter().any(|mode| media_type_matches(mode, actual)) {
            let error = Error::with_message(
                ErrorCode::ContentTypeNotSupported,
                format!("Content type not supported: `{}` in message.parts[{index}]", excerpt(actual, 64)),
            );
            return Err(error.about("accepted", accepted.join(",")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_urls() {
        for url in [
            "https://a.example/x",
            "HTTPS://a.example",
            "http://[::1]:80",
            "http://u:p@a.example?x",
            "urn:isbn:1",
            "file:///etc/hosts",
            "gs://b/k",
        ] {
            assert!(is_absolute_url(url), "{url}");
        }
        for url in [
            "",
            "a",
            "/x",
            "//host/x",
            "https://",
            "https:///x",
            "ht tp://x",
            "http://a b",
            ":x",
            "1a:x",
            "https://?x",
            "https://#x",
            "https://:80",
            "https://u@",
            "https://u@:80/x",
            "https://\\a.example",
        ] {
            assert!(!is_absolute_url(url), "{url}");
        }
    }

    #[test]
    fn receivers_are_reached_over_http() {
        assert!(is_http("http://a.example") && is_http("HTTPS://a.example"));
        assert!(!is_http("https:a.example") && !is_http("ftp://a.example") && !is_http("a.example"));
    }

    #[test]
    fn a_media_type_is_not_repeated_in_full() {
        let part = Part::text("x").with_media_type("text/\u{7}".to_owned() + &"x".repeat(10_000));
        let error = check_input_modes(&Message::new(Role::User, vec![part]), &["image/*".to_owned()]);
        let message = error.unwrap_err().to_string();
        assert!(message.len() < 128 && !message.contains('\u{7}'), "{message}");
    }

    #[test]
    fn media_types_match_with_wildcards_and_parameters() {
        assert!(media_type_matches("text/plain", "Text/Plain; charset=utf-8"));
        assert!(media_type_matches("text/*", "text/csv"));
        assert!(media_type_matches("*/*", "image/png"));
        assert!(!media_type_matches("text/*", "image/png"));
    }
}
