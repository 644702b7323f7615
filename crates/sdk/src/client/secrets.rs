//! What was sent along with a request and proves something, taken out of what the peer says: it stands in no log, and nobody is told.

use chancery_protocol::Error;

use super::error::ClientError;
use super::settings::Settings;

/// Credentials of ours and a lineage token, the longest first.
pub(crate) struct Secrets(Vec<String>);

const SCRUBBED: &str = "[credential]";
/// What is shorter is a word like others.
const SHORTEST: usize = 4;

impl Secrets {
    /// Those of requests of a client, and a lineage token that went along.
    pub(crate) fn of(settings: &Settings, lineage: Option<&str>) -> Self {
        let mut secrets: Vec<_> = settings.credentials.secrets().collect();
        if let Some(source) = &settings.credential_source {
            secrets.extend(source().secrets());
        }
        secrets.extend(lineage.map(str::to_owned));
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// A text without them, also where only the beginning of one is left at its end.
    pub(crate) fn without(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.0 {
            if clean.contains(secret) {
                clean = clean.replace(secret, SCRUBBED);
            }
            let begun = (SHORTEST..secret.len()).rev();
            let mut begun = begun.filter(|length| secret.is_char_boundary(*length));
            if let Some(length) = begun.find(|length| clean.ends_with(&secret[..*length])) {
                clean.truncate(clean.len() - length);
                clean.push_str(SCRUBBED);
            }
        }
        clean
    }

    /// An error without them.
    pub(crate) fn scrubbed(&self, error: ClientError) -> ClientError {
        if self.0.is_empty() {
            return error;
        }
        match error {
            ClientError::Status { status, body, retry_after } => {
                ClientError::Status { status, body: self.without(&body), retry_after }
            }
            ClientError::BadAnswer(why) => ClientError::BadAnswer(self.without(&why)),
            ClientError::BadEvent { why, task } => ClientError::BadEvent { why: self.without(&why), task },
            ClientError::Peer(error) if self.are_told_by(&error) => {
                let told = Error::with_message(error.code(), self.without(error.message()));
                ClientError::Peer(error.wait().into_iter().fold(told, Error::retry_after))
            }
            error => error,
        }
    }

    fn are_told_by(&self, error: &Error) -> bool {
        let details = serde_json::to_string(&error.details()).unwrap_or_default();
        self.without(error.message()) != error.message()
            || self.0.iter().any(|secret| details.contains(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Credentials;

    #[test]
    fn a_secret_is_taken_out_of_errors_whole_or_cut() {
        let credentials = Credentials::bearer("s3cr3t-of-ours").unwrap();
        let settings = Settings { credentials, ..Settings::default() };
        let secrets = Secrets::of(&settings, Some("head.claims.mac"));
        let said = "you sent Bearer s3cr3t-of-ours and head.claims.mac; again: s3cr3t-o";
        let clean = secrets.without(said);
        assert_eq!(clean, "you sent [credential] and [credential]; again: [credential]");
        let json = r#"{"code":-32602,"message":"no","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",
            "reason":"X","domain":"d","metadata":{"seen":"Bearer s3cr3t-of-ours"}}]}"#;
        let error = Error::decode(json.as_bytes()).unwrap();
        let ClientError::Peer(error) = secrets.scrubbed(ClientError::Peer(error)) else {
            panic!("the same kind")
        };
        assert_eq!((error.message(), error.fact("seen")), ("no", None));
        let status = ClientError::Status {
            status: http::StatusCode::BAD_GATEWAY,
            body: said.into(),
            retry_after: None,
        };
        assert!(!secrets.scrubbed(status).to_string().contains("s3cr3t"));
    }
}
