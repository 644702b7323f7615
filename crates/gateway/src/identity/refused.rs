//! Credentials that let nobody in: what the caller is told, what is counted, and what is written down.

use std::net::IpAddr;
use std::sync::Arc;

use chancery_control::identity::{API_KEY_HEADER, KeyRefusal, TokenRefusal, Unauthenticated, api_key_id};
use chancery_protocol::{Error, ErrorCode};
use chancery_sdk::asks_for_card;
use http::request::Parts;

use crate::audit::{Audit, Origin};
use crate::govern::Governor;
use crate::metrics::Metrics;

/// Why nobody knows who is calling.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// This header cannot be read, or is there twice.
    Unreadable(&'static str),
    Credential(Unauthenticated),
}

/// Where refused credentials are counted and written down.
pub(crate) struct RefusedCredentials {
    audit: Arc<Audit>,
    metrics: Arc<Metrics>,
}

impl RefusedCredentials {
    pub(crate) fn of(governor: &Governor) -> Self {
        Self { audit: governor.audit().clone(), metrics: governor.metrics().clone() }
    }

    pub(super) fn write_down(&self, head: &Parts, refusal: &Refusal) {
        // Whoever only looks for a card is not asked for a credential.
        if matches!(refusal, Refusal::Credential(Unauthenticated::Missing)) && asks_for_card(head) {
            return;
        }
        let reason = refusal.reason();
        self.metrics.refused_credential(reason);
        let origin = Origin { key: shown_key_id(head).map(Arc::from), ..Origin::of_head(head, None) };
        self.audit.refused(&origin, reason);
    }

    /// Somebody wanted to look after the gateway, and has not its token.
    pub(crate) fn of_operator(&self, head: &Parts, source: Option<IpAddr>) {
        self.metrics.refused_credential("admin_token");
        self.audit.refused(&Origin { source, ..Origin::of_head(head, None) }, "admin_token");
    }
}

/// The id of the API key that a request shows, which is no secret.
fn shown_key_id(head: &Parts) -> Option<&str> {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    text(API_KEY_HEADER).or(bearer).and_then(api_key_id)
}

impl Refusal {
    /// A name for it in metrics and in the audit log.
    fn reason(self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Credential(Unauthenticated::Missing) => "missing",
            Self::Credential(Unauthenticated::Twice) => "twice",
            Self::Credential(Unauthenticated::Scheme) => "scheme",
            Self::Credential(Unauthenticated::Key(key)) => match key {
                KeyRefusal::Unknown => "key_unknown",
                KeyRefusal::Expired => "key_expired",
                KeyRefusal::Revoked => "key_revoked",
                _ => "key",
            },
            Self::Credential(Unauthenticated::Token(token)) => match token {
                TokenRefusal::Malformed => "token_malformed",
                TokenRefusal::UnknownAgent => "token_unknown_agent",
                TokenRefusal::Audience => "token_audience",
                TokenRefusal::Time => "token_time",
                TokenRefusal::Signature => "token_signature",
                TokenRefusal::Body => "token_body",
                TokenRefusal::Used => "token_used",
                TokenRefusal::TooMany => "token_too_many",
                _ => "token",
            },
            Self::Credential(_) => "other",
        }
    }
}

impl From<Unauthenticated> for Refusal {
    fn from(refusal: Unauthenticated) -> Self {
        Self::Credential(refusal)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreadable(name) => {
                let text = format!("`{name}` cannot be read, or is there twice");
                Self::with_message(ErrorCode::Unauthenticated, text)
                    .challenge(r#"Bearer error="invalid_request""#)
            }
            Refusal::Credential(refusal) => refusal.into(),
        }
    }
}
