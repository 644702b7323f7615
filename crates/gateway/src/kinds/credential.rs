//! The credential of an agent elsewhere: read from where the operator keeps it, and read again while the gateway runs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chancery_sdk::Credentials;
use http::HeaderName;
use parking_lot::Mutex;

use crate::config::{CredentialScheme, CredentialSection};
use crate::identity::files::read_named_text;

/// How long a secret is used before its file is looked at again.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How large a secret may be.
pub(super) const MOST_BYTES: u64 = 64 << 10;

/// A credential as it is now.
pub(super) struct StoredCredential {
    agent: String,
    section: CredentialSection,
    last: Mutex<(Instant, Credentials)>,
}

impl StoredCredential {
    pub(super) fn new(agent: &str, section: &CredentialSection) -> anyhow::Result<Arc<Self>> {
        let read =
            read(section).with_context(|| format!("the credential of agent `{agent}` cannot be used"))?;
        let last = Mutex::new((Instant::now(), read));
        Ok(Arc::new(Self { agent: agent.to_owned(), section: section.clone(), last }))
    }

    /// What to send now. A file that cannot be read changes nothing.
    pub(super) fn now(&self) -> Credentials {
        let mut last = self.last.lock();
        if self.section.secret_file.is_some() && last.0.elapsed() >= FRESH_FOR {
            last.0 = Instant::now();
            match read(&self.section) {
                Ok(read) => last.1 = read,
                Err(error) => {
                    tracing::warn!(
                        agent = self.agent,
                        "the credential of agent `{}` cannot be read again, the last one is sent: {error:#}",
                        self.agent
                    );
                }
            }
        }
        last.1.clone()
    }
}

fn read(section: &CredentialSection) -> anyhow::Result<Credentials> {
    let secret = match (&section.secret_env, &section.secret_file) {
        (Some(name), _) => {
            std::env::var(name).with_context(|| format!("the variable `{name}` is not set"))?
        }
        (None, Some(path)) => secret_in(path)?,
        (None, None) => anyhow::bail!("there is no secret"),
    };
    let secret = secret.trim();
    anyhow::ensure!(!secret.is_empty(), "the secret is empty");
    Ok(match section.scheme {
        CredentialScheme::Bearer => Credentials::bearer(secret)?,
        CredentialScheme::Basic => Credentials::basic(section.user.as_deref().unwrap_or_default(), secret)?,
        CredentialScheme::Header => {
            let name = section.header.as_deref().unwrap_or_default();
            Credentials::header(HeaderName::try_from(name)?, secret)?
        }
    })
}

fn secret_in(path: &Path) -> anyhow::Result<String> {
    read_named_text(path, MOST_BYTES).with_context(|| format!("cannot read {}", path.display()))
}
