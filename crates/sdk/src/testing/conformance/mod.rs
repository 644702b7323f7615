//! Whether an agent keeps to the protocol, as far as can be seen from outside.
//!
//! Only what holds for every correct agent is asserted, whatever the agent is for: checks go by what the card declares,
//! and by what comes of one message that the agent is sent.

mod card;
mod errors;
mod http;
mod list;
mod push;
mod report;
mod send;
pub mod shape;
mod stream;
mod tasks;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use chancery_protocol::{BoxFuture, EXTENSIONS_HEADER, VERSION_HEADER};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use card::Site;
use http::Http;
use report::Outcome;
use wire::{Binding, Wire};

pub use report::{Checked, Level, Report, Verdict};

/// Checks a running agent, by every interface of its card that is spoken here: JSON-RPC and HTTP+JSON.
///
/// ```
/// use chancery_sdk::testing::{Conformance, spawn};
/// use chancery_sdk::{AgentSpec, Message, agent_fn};
///
/// # #[tokio::main]
/// # async fn main() {
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// let echo = spawn(AgentSpec::new("echo", echo)).await;
/// let report = Conformance::against(echo.url()).run().await;
/// println!("{report}");
/// report.assert();
/// # }
/// ```
///
/// The agent is sent a few messages and, if it makes tasks, asked to cancel one. Do not run it against an agent whose
/// work costs something.
#[must_use]
pub struct Conformance {
    url: String,
    headers: HeaderMap,
    other: Option<HeaderMap>,
    message: Value,
    patience: Duration,
    problems: Vec<String>,
}

/// A statement, and how to find out.
struct Check<S: 'static> {
    id: &'static str,
    level: Level,
    statement: &'static str,
    run: for<'a> fn(&'a S) -> BoxFuture<'a, Outcome>,
}

/// A row of a table of checks.
macro_rules! check {
    ($id:literal, $level:ident, $statement:literal, $run:path) => {
        $crate::testing::conformance::Check {
            id: $id,
            level: $crate::testing::conformance::Level::$level,
            statement: $statement,
            run: |subject| Box::pin($run(subject)),
        }
    };
}
use check;

// === impl Conformance ===

impl Conformance {
    /// The agent at this URL: its card is at `/.well-known/agent-card.json` below it.
    pub fn against(url: impl Into<String>) -> Self {
        let message =
            json!({"messageId": "conformance-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]});
        Self {
            url: url.into(),
            headers: HeaderMap::new(),
            other: None,
            message,
            patience: Duration::from_secs(30),
            problems: Vec::new(),
        }
    }

    /// Sends a header with every request, such as `authorization`.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        insert(&mut self.headers, &mut self.problems, name, value);
        self
    }

    /// How somebody else would call, who must not see the tasks that are made: such as another `authorization`.
    pub fn other_caller(mut self, name: &str, value: &str) -> Self {
        insert(self.other.get_or_insert_default(), &mut self.problems, name, value);
        self
    }

    /// What is said to the agent: something that it can answer. `hello`, unless said otherwise.
    pub fn saying(mut self, text: &str) -> Self {
        self.message["parts"] = json!([{"text": text}]);
        self
    }

    /// How long an answer may take, and an event of a stream; 30 seconds.
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }

    /// Runs all checks.
    pub async fn run(self) -> Report {
        let url = self.url.trim_end_matches('/').to_owned();
        let mut report = Report { url: url.clone(), checks: Vec::new() };
        let site = Site::visit(Http::new(self.patience), url, self.headers.clone(), &self.problems).await;
        run_all(card::CHECKS, &site, "card", &mut report).await;
        for wire in self.wires(&site) {
            let name = wire.binding.name();
            let tables =
                [errors::CHECKS, send::CHECKS, tasks::CHECKS, list::CHECKS, stream::CHECKS, push::CHECKS];
            for table in tables {
                run_all(table, &wire, name, &mut report).await;
            }
        }
        report
    }

    /// The interfaces that are spoken here, one for each binding.
    fn wires(&self, site: &Site) -> Vec<Wire> {
        let Some(card) = site.card() else { return Vec::new() };
        let card = Arc::new(card.clone());
        let interfaces = card["supportedInterfaces"].as_array().cloned().unwrap_or_default();
        let mut wires: Vec<Wire> = Vec::new();
        for interface in interfaces.iter().filter(|interface| interface["protocolVersion"] == "1.0") {
            let Some(binding) = Binding::named(&interface["protocolBinding"]) else { continue };
            if wires.iter().any(|known| known.binding == binding) {
                continue;
            }
            wires.push(Wire {
                binding,
                url: interface["url"].as_str().unwrap_or_default().to_owned(),
                tenant: interface["tenant"].as_str().unwrap_or_default().to_owned(),
                http: site.http.clone(),
                headers: standard(&self.headers, &card),
                other: self.other.as_ref().map(|other| standard(other, &card)),
                card: card.clone(),
                message: self.message.clone(),
                sample: Arc::new(OnceCell::new()),
            });
        }
        wires
    }
}

/// What every call says: its version, its type, and the extensions without which the agent answers nobody.
fn standard(own: &HeaderMap, card: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0"));
    headers.insert(::http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let extensions = card["capabilities"]["extensions"].as_array().cloned().unwrap_or_default();
    let required = extensions.iter().filter(|extension| extension["required"] == true);
    let uris: Vec<_> = required.filter_map(|extension| extension["uri"].as_str()).collect();
    if let (false, Ok(value)) = (uris.is_empty(), HeaderValue::from_str(&uris.join(", "))) {
        headers.insert(EXTENSIONS_HEADER, value);
    }
    headers.extend(own.clone());
    headers
}

fn insert(headers: &mut HeaderMap, problems: &mut Vec<String>, name: &str, value: &str) {
    match (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
        _ => problems.push(format!("`{}` and its value are no header", name.escape_debug())),
    }
}

async fn run_all<S>(checks: &'static [Check<S>], subject: &S, interface: &str, report: &mut Report) {
    for check in checks {
        let verdict = (check.run)(subject).await.into();
        let Check { id, level, statement, .. } = *check;
        report.add(Checked { id, statement, level, interface: interface.to_owned(), verdict });
    }
}

impl Binding {
    fn named(name: &Value) -> Option<Self> {
        [Self::JsonRpc, Self::HttpJson].into_iter().find(|binding| name == binding.name())
    }

    /// What a card calls it.
    fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// Headers are secrets.
impl fmt::Debug for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conformance")
            .field("url", &self.url)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
