//! What a client is told once and keeps to: times, limits, preferences.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{ProtocolBinding, Version};

use super::credentials::{CredentialSource, Credentials};
use super::intercept::Interceptor;
use super::origin::Origin;
use crate::dialect::v0_3::Form;
use crate::egress::Egress;

/// All settings of a client, with their defaults.
#[derive(Clone)]
pub(crate) struct Settings {
    /// What the log calls the peer, if not by its URL.
    pub(crate) log_name: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) resumes: u32,
    pub(crate) concurrent_calls: usize,
    pub(crate) streams: usize,
    pub(crate) rate: Option<(u32, u32)>,
    pub(crate) response_bytes: usize,
    pub(crate) event_bytes: usize,
    pub(crate) card_bytes: usize,
    pub(crate) preferred: Vec<ProtocolBinding>,
    /// Whether no others are to be used than those that are preferred.
    pub(crate) only_preferred: bool,
    /// The only version to speak, if there is to be only one.
    pub(crate) version: Option<Version>,
    /// How HTTP+JSON of v0.3 is written.
    pub(crate) old_form: Form,
    pub(crate) extensions: Vec<String>,
    pub(crate) credentials: Credentials,
    pub(crate) credential_source: Option<CredentialSource>,
    pub(crate) credentials_to: Vec<String>,
    /// Rules for where cards lead.
    pub(crate) egress: Egress,
    /// Whether interfaces elsewhere than where the user said are left alone.
    pub(crate) only_named: bool,
    /// Where the URL was found that the client was said to connect to, if nobody has chosen it.
    pub(crate) found_at: Option<Origin>,
    pub(crate) stale_card_on_error: bool,
    pub(crate) interceptors: Vec<Arc<dyn Interceptor>>,
    /// Judges cards.
    pub(crate) card_check: Option<CardCheck>,
}

/// Judges a card, as it came: the name of the key that it was signed with, if it had to be; or why it is not trusted.
pub(crate) type CardCheck = Arc<dyn Fn(&[u8]) -> Result<Option<String>, String> + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            retries: 3,
            resumes: 5,
            concurrent_calls: 256,
            streams: 256,
            rate: None,
            response_bytes: 16 << 20,
            event_bytes: 16 << 20,
            card_bytes: 1 << 20,
            log_name: None,
            preferred: Vec::new(),
            only_preferred: false,
            version: None,
            old_form: Form::PROTO,
            extensions: Vec::new(),
            credentials: Credentials::default(),
            credential_source: None,
            credentials_to: Vec::new(),
            egress: Egress::default(),
            only_named: false,
            found_at: None,
            stale_card_on_error: false,
            interceptors: Vec::new(),
            card_check: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("request_timeout", &self.request_timeout)
            .field("retries", &self.retries)
            .field("preferred", &self.preferred)
            .field("extensions", &self.extensions)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}
