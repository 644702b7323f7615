//! What proves to an agent elsewhere that this gateway may call it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Complaint;

/// A credential that the gateway sends to an agent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialSection {
    /// How it is sent.
    pub(crate) scheme: CredentialScheme,
    /// Of `header`: the name of the header, such as `X-API-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) header: Option<String>,
    /// Of `basic`: the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The environment variable that holds the token, key or password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_env: Option<String>,
    /// The file that holds it. A changed file counts within a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Hosts, with a port or without, that get it besides the one in `url`, if the agent's card leads there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
}

/// How a credential is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CredentialScheme {
    /// `Authorization: Bearer SECRET`.
    Bearer,
    /// `Authorization: Basic …`, of `user` and the secret.
    Basic,
    /// The secret alone, in a header of its own.
    Header,
}

impl CredentialSection {
    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        match (self.secret_env.is_some(), self.secret_file.is_some()) {
            (false, false) => {
                complaints
                    .push(("scheme", "there is no secret: add `secret_env` or `secret_file`".to_owned()));
            }
            (true, true) => {
                complaints.push((
                    "secret_file",
                    "there is one secret: say `secret_env` or `secret_file`".to_owned(),
                ));
            }
            _ => {}
        }
        let is_header = self.scheme == CredentialScheme::Header;
        let is_name = |name: &String| http::HeaderName::try_from(name).is_ok();
        let wrong = match &self.header {
            Some(name) if is_header && !is_name(name) => {
                Some(("header", format!("`{name}` is no name of a header")))
            }
            Some(_) if !is_header => Some(("header", "only with the scheme `header`".to_owned())),
            None if is_header => Some(("scheme", "add `header`, such as \"X-API-Key\"".to_owned())),
            _ => None,
        };
        complaints.extend(wrong);
        let is_basic = self.scheme == CredentialScheme::Basic;
        if is_basic != self.user.is_some() {
            let what =
                if is_basic { ("scheme", "add `user`") } else { ("user", "only with the scheme `basic`") };
            complaints.push((what.0, what.1.to_owned()));
        }
        complaints
    }
}
