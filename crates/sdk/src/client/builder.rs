//! Putting a client together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{ProtocolBinding, Version};
use http::HeaderName;

use super::Client;
use super::credentials::{Credentials, InvalidCredentials};
use super::error::ClientError;
use super::intercept::Interceptor;
use super::origin::Origin;
use super::settings::Settings;
use crate::dialect::v0_3::Form;
use crate::egress::Egress;

/// Says how a peer is called, and connects.
///
/// ```no_run
/// # use chancery_sdk::{Client, ClientError, protocol::ProtocolBinding};
/// # async fn run() -> Result<(), ClientError> {
/// let client = Client::builder()
///     .bearer("a token")
///     .prefer([ProtocolBinding::HttpJson])
///     .rate_limit(50, 10)
///     .connect("https://agent.example")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
    problems: Vec<String>,
}

impl ClientBuilder {
    /// Finds the agent at this URL, or whose card is at this URL. Where the user says to connect to is the
    /// user's choice; where the card says is not, and gets neither credentials nor free passage.
    pub async fn connect(self, url: impl AsRef<str>) -> Result<Client, ClientError> {
        if !self.problems.is_empty() {
            return Err(ClientError::Configuration(self.problems.join("; ")));
        }
        Client::open(Arc::new(self.settings), url.as_ref()).await
    }

    /// The same, for an agent that may not be there yet: its card is asked for when it is first needed.
    pub fn connect_later(self, url: impl AsRef<str>) -> Result<Client, ClientError> {
        if !self.problems.is_empty() {
            return Err(ClientError::Configuration(self.problems.join("; ")));
        }
        Client::unopened(Arc::new(self.settings), url.as_ref())
    }

    /// Bindings to use before others, the best one first, whatever order the card has.
    pub fn prefer(mut self, bindings: impl IntoIterator<Item = ProtocolBinding>) -> Self {
        self.settings.preferred = bindings.into_iter().collect();
        self.settings.only_preferred = false;
        self
    }

    /// Bindings to use, the best one first, and no others. A card that has none of them in a version that may be spoken
    /// is an agent that cannot be called.
    pub fn only(mut self, bindings: impl IntoIterator<Item = ProtocolBinding>) -> Self {
        self.settings.preferred = bindings.into_iter().collect();
        self.settings.only_preferred = true;
        self
    }

    /// What the log calls the agent where it tells what that does wrong; its URL unless said otherwise.
    pub fn log_name(mut self, name: impl Into<String>) -> Self {
        self.settings.log_name = Some(name.into());
        self
    }

    /// Speaks this version of the protocol and no other, whatever the card offers.
    pub fn version(mut self, version: Version) -> Self {
        self.settings.version = Some(version);
        self
    }

    /// Writes the bytes of files as base64 once, over HTTP+JSON of v0.3. Most peers of that version expect base64 of
    /// base64 there, and get it unless this is said. What is read may be either.
    pub fn v0_3_base64_once(mut self) -> Self {
        self.settings.old_form = Form::Proto { twice: false };
        self
    }

    /// How long making a connection may take; 5 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// How long a call may take with all its retries, and a stream until it opens; 30 s. A send that waits for its
    /// outcome may take until the deadline of its call, if that has one.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.settings.request_timeout = limit;
        self
    }

    /// How long a stream may be silent, without even a keep-alive, before it counts as cut; 300 s.
    pub fn stream_idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// How often a call that failed is made again, where that is safe; 3.
    pub fn retries(mut self, most: u32) -> Self {
        self.settings.retries = most;
        self
    }

    /// How often in a row a stream that was cut is taken up again without anything new having come; 5.
    pub fn stream_resumes(mut self, most: u32) -> Self {
        self.settings.resumes = most;
        self
    }

    /// How many calls to the peer may be under way at a time; further ones wait. 256.
    pub fn max_concurrent_calls(mut self, most: usize) -> Self {
        self.settings.concurrent_calls = most.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
        self
    }

    /// How many streams from the peer may be open at a time; further ones wait. 256.
    pub fn max_streams(mut self, most: usize) -> Self {
        self.settings.streams = most.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
        self
    }

    /// How many calls a second the peer gets, and how many of them at once after a quiet time; further ones wait.
    pub fn rate_limit(mut self, per_second: u32, burst: u32) -> Self {
        self.settings.rate = Some((per_second, burst));
        self
    }

    /// How large an answer may be; 16 MiB.
    pub fn max_response_bytes(mut self, most: usize) -> Self {
        self.settings.response_bytes = most;
        self
    }

    /// How large one event of a stream may be; 16 MiB.
    pub fn max_event_bytes(mut self, most: usize) -> Self {
        self.settings.event_bytes = most;
        self
    }

    /// How large the card may be; 1 MiB.
    pub fn max_card_bytes(mut self, most: usize) -> Self {
        self.settings.card_bytes = most;
        self
    }

    /// Activates an extension with every call.
    pub fn extension(mut self, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        if uri.is_empty() || uri.contains(',') || uri.bytes().any(|byte| !byte.is_ascii_graphic()) {
            self.problems.push(format!("`{}` is no extension's URI", uri.escape_debug()));
        } else if !self.settings.extensions.contains(&uri) {
            self.settings.extensions.push(uri);
        }
        self
    }

    /// Sends a bearer token along.
    pub fn bearer(self, token: &str) -> Self {
        self.add(Credentials::bearer(token))
    }

    /// Sends a name and a password along.
    pub fn basic(self, user: &str, password: &str) -> Self {
        self.add(Credentials::basic(user, password))
    }

    /// Sends an API key along, in a header of this name.
    pub fn api_key(mut self, header: &str, key: &str) -> Self {
        match HeaderName::try_from(header) {
            Ok(name) => self.add(Credentials::header(name, key)),
            Err(_) => {
                self.problems.push(format!("`{}` is no name of a header", header.escape_debug()));
                self
            }
        }
    }

    /// Sends these along. They go to the place that [`connect`](Self::connect) names and nowhere else, unless
    /// [`allow_credentials_to`](Self::allow_credentials_to) says so.
    pub fn credentials(self, credentials: Credentials) -> Self {
        self.add(Ok(credentials))
    }

    /// Sends what this gives along, which is asked before each request: for credentials that change. They go where the others go.
    pub fn credentials_from(mut self, source: impl Fn() -> Credentials + Send + Sync + 'static) -> Self {
        self.settings.credential_source = Some(Arc::new(source));
        self
    }

    /// Lets a host, or `host:port`, have the credentials too if the card leads there. What was named with `https`
    /// is never sent without.
    pub fn allow_credentials_to(mut self, host: &str) -> Self {
        self.settings.credentials_to.push(host.to_ascii_lowercase());
        self
    }

    /// Where cards may lead: an interface at another place than the user named is dialled by these rules, by
    /// default only at addresses that anybody may reach. Certificate authorities to trust are set here for all
    /// connections; what is refused here is not refused where the user said to connect to.
    pub fn egress(mut self, egress: Egress) -> Self {
        self.settings.egress = egress;
        self
    }

    /// Uses no interface that is elsewhere than [`connect`](Self::connect) says: for an agent that is not trusted to say where
    /// else to go.
    pub fn only_where_named(mut self) -> Self {
        self.settings.only_named = true;
        self
    }

    /// Says where the URL was found that [`connect`](Self::connect) is given, if nobody whom you trust has chosen it: unless it
    /// leads to that same place, it is dialled by the rules of [`egress`](Self::egress), as everything is that cards name.
    pub fn found_at(mut self, url: &str) -> Self {
        match url.parse().map_err(|_| "it cannot be read").and_then(|uri| Origin::of(&uri)) {
            Ok(origin) => self.settings.found_at = Some(origin),
            Err(why) => self.problems.push(format!("`{}` is no URL: {why}", url.escape_debug())),
        }
        self
    }

    /// Judges every card before anything of it is believed, by its text as it came: gives the name of the key that it was
    /// signed with, or why the agent is not to be called.
    pub fn check_card(
        mut self,
        check: impl Fn(&[u8]) -> Result<Option<String>, String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.card_check = Some(Arc::new(check));
        self
    }

    /// Lets the card be used although it is stale, when it cannot be confirmed because nobody answers.
    pub fn stale_card_on_error(mut self, allowed: bool) -> Self {
        self.settings.stale_card_on_error = allowed;
        self
    }

    /// Adds somebody who sees every request and every answer.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.settings.interceptors.push(Arc::new(interceptor));
        self
    }

    fn add(mut self, credentials: Result<Credentials, InvalidCredentials>) -> Self {
        match credentials {
            Ok(more) => self.settings.credentials = std::mem::take(&mut self.settings.credentials).and(more),
            Err(error) => self.problems.push(error.to_string()),
        }
        self
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
