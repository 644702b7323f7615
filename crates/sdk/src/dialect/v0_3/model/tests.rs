//! Round trips: whatever v0.3 can carry comes back as it went, in both forms, and nothing that comes in panics.

#[path = "../../../../../protocol/tests/strategies/mod.rs"]
mod strategies;

use chancery_protocol::{
    Artifact, Content, Message, Part, Role, SendMessageRequest, StreamResponse, Task,
    TaskPushNotificationConfig, TaskStatus, decode_params, decode_reply, write_json,
};
use proptest::prelude::*;
use serde::Serialize;

use super::*;
use crate::dialect::{card, v0_3};

const FORMS: [Form; 2] = [Form::Kind, Form::PROTO];

fn written<T: Serialize>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(&mut out, value).expect("JSON is written into memory");
    out
}

/// What is left of a value when v0.3 has carried it.
trait Carried {
    fn carried(self, form: Form) -> Self;
}

impl<T: Carried> Carried for Vec<T> {
    fn carried(self, form: Form) -> Self {
        self.into_iter().map(|value| value.carried(form)).collect()
    }
}

impl Carried for Part {
    fn carried(mut self, _: Form) -> Self {
        match &mut self.content {
            Content::Raw(_) => return self,
            Content::Url(url) => {
                if url.is_empty() {
                    "u".clone_into(url);
                }
                return self;
            }
            Content::Text(_) => {}
            // What marks them is put over metadata of their own, which loses a key that is written twice.
            Content::Data(data) if !data.as_str().starts_with('{') => self.metadata = None,
            Content::Data(_) => {}
        }
        Self { filename: None, media_type: None, ..self }
    }
}

impl Carried for Message {
    fn carried(mut self, form: Form) -> Self {
        self.parts = self.parts.carried(form);
        if form.is_kind() && self.role == Role::Unspecified {
            self.role = Role::User;
        }
        if !form.is_kind() {
            self.reference_task_ids = Vec::new();
        }
        self
    }
}

impl Carried for Artifact {
    fn carried(self, form: Form) -> Self {
        Self { parts: self.parts.carried(form), ..self }
    }
}

impl Carried for TaskStatus {
    fn carried(self, form: Form) -> Self {
        Self { message: self.message.map(|message| Box::new(message.carried(form))), ..self }
    }
}

impl Carried for Task {
    fn carried(self, form: Form) -> Self {
        let (artifacts, history) = (self.artifacts.carried(form), self.history.carried(form));
        Self { status: self.status.carried(form), artifacts, history, ..self }
    }
}

impl Carried for StreamResponse {
    fn carried(self, form: Form) -> Self {
        match self {
            Self::Task(task) => Self::Task(task.carried(form)),
            Self::Message(message) => Self::Message(message.carried(form)),
            Self::StatusUpdate(mut update) => {
                update.status = update.status.carried(form);
                Self::StatusUpdate(update)
            }
            Self::ArtifactUpdate(mut update) => {
                update.artifact = update.artifact.carried(form);
                Self::ArtifactUpdate(update)
            }
        }
    }
}

impl Carried for TaskPushNotificationConfig {
    fn carried(self, _: Form) -> Self {
        let authentication = self.authentication.filter(|info| !info.scheme.is_empty());
        Self { tenant: String::new(), authentication, ..self }
    }
}

impl Carried for SendMessageRequest {
    fn carried(mut self, form: Form) -> Self {
        let mut configuration = self.configuration.take().unwrap_or_default();
        if !form.is_kind() {
            configuration.history_length = configuration.history_length.filter(|length| *length != 0);
        }
        let config = configuration.task_push_notification_config.take();
        configuration.task_push_notification_config =
            config.map(|config| TaskPushNotificationConfig { task_id: None, ..config.carried(form) });
        let message = self.message.carried(form);
        Self { tenant: String::new(), message, configuration: Some(configuration), metadata: self.metadata }
    }
}

proptest! {
    #![proptest_config(strategies::tries(200))]

    #[test]
    fn tasks_come_back(task in strategies::model::task()) {
        for form in FORMS {
            let task = task.clone().carried(form);
            let Newer(read) = decode_reply::<Newer<Task>>(&written(&Older(form, &task))).unwrap();
            prop_assert_eq!(read, task);
        }
    }

    #[test]
    fn events_come_back(event in strategies::model::stream_response()) {
        for form in FORMS {
            let event = event.clone().carried(form);
            let json = written(&OlderEvent { form, event: &event, question_is_last: true });
            let heard = Heard::read(std::str::from_utf8(&json).unwrap()).unwrap();
            let is_last = match &event {
                StreamResponse::StatusUpdate(update) => {
                    let state = update.status.state;
                    state.is_terminal() || state == chancery_protocol::TaskState::InputRequired
                }
                _ => false,
            };
            prop_assert_eq!(heard.is_last, is_last);
            prop_assert_eq!(heard.event, event);
        }
    }

    #[test]
    fn messages_are_sent_as_they_are(request in strategies::model::send_message()) {
        for form in FORMS {
            let request = request.clone().carried(form);
            let json = written(&OlderSend(form, &request));
            let read = decode_params::<SendParams>(&json).unwrap().into_request(form);
            prop_assert_eq!(*read, request);
        }
    }

    #[test]
    fn configurations_come_back(found in strategies::model::push_configs()) {
        for form in FORMS {
            let mut found = found.clone();
            found.configs = found.configs.carried(form);
            for config in &found.configs {
                let json = written(&Older(form, config));
                let Newer(read) = decode_reply::<Newer<TaskPushNotificationConfig>>(&json).unwrap();
                prop_assert_eq!(&read, config);
            }
            let json = written(&Older(form, &found));
            let read = newer_configs(std::str::from_utf8(&json).unwrap()).unwrap();
            prop_assert_eq!(read.configs, found.configs);
        }
    }

    #[test]
    fn a_card_is_the_same_beside_its_older_self(card in strategies::card::card()) {
        let mut card = card;
        for interface in card.supported_interfaces.iter_mut().filter(|found| found.protocol_version.is_empty()) {
            "1.0".clone_into(&mut interface.protocol_version);
        }
        let mut json = Vec::new();
        v0_3::card::write_union(&mut json, &card, true).unwrap();
        let mut read = card::read(&json).unwrap();
        // Where v0.1 is taken is said by its own keys.
        read.supported_interfaces.truncate(card.supported_interfaces.len());
        prop_assert_eq!(read, card);
    }

    #[test]
    fn nothing_that_comes_in_panics(tokens in strategies::json::tokens(), task in strategies::model::task()) {
        let whole = String::from_utf8(written(&Older(Form::Kind, &task))).unwrap();
        let cut: String = whole.chars().take(whole.chars().count() / 2).collect();
        let texts = [tokens.compact(), format!(r#"{{"kind":"task","id":"t","status":{}}}"#, tokens.compact()), cut];
        for text in texts {
            let json = text.as_bytes();
            let failed = [
                decode_params::<SendParams>(json).is_err(),
                decode_params::<ListParams>(json).is_err(),
                decode_params::<Newer<TaskPushNotificationConfig>>(json).is_err(),
                Heard::read(&text).is_err(),
                newer_configs(&text).is_err(),
                card::read(json).is_err(),
            ];
            // A list asks for nothing that must be there, so an object may be one.
            prop_assert!(failed[0] && failed[2]);
        }
    }
}
