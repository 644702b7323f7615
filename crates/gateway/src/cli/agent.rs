//! Which agent a command is for, and how it is called: options that `card`, `send` and `task` share.

use std::str::FromStr;
use std::time::Duration;

use chancery_protocol::{ProtocolBinding, Version};
use chancery_sdk::egress::{Egress, Prefix};
use chancery_sdk::{Client, ClientError};
use clap::{Args, ValueEnum};

use super::failure::{During, Failure};

/// How a card or a task is asked for, when nothing else is said.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct AgentOptions {
    /// The agent: its URL, or that of its card. With this, no command takes it as its first argument
    #[arg(short, long, env = "A2ACLI_AGENT_CARD", value_name = "URL")]
    pub(super) agent_card: Option<String>,

    /// The binding to use before others: `jsonrpc`, `http+json` or `grpc`; may be repeated, the best one first. With
    /// --a2a-version, no other is used
    #[arg(long, env = "A2ACLI_TRANSPORT", value_name = "BINDING", value_delimiter = ',')]
    transport: Vec<Transport>,

    /// The protocol version to speak; 1.0. Older ones are spoken only if asked for
    #[arg(long, env = "A2ACLI_A2A_VERSION", value_name = "VERSION", value_parser = version)]
    a2a_version: Option<Version>,

    /// A bearer token to send along
    #[arg(long, env = "A2ACLI_BEARER", value_name = "TOKEN", hide_env_values = true)]
    bearer: Option<String>,

    /// How long to wait before giving up, such as `90s` or `5m`; 30 s for an answer, for ever for a task
    #[arg(long, env = "A2ACLI_TIMEOUT", value_name = "DURATION")]
    pub(super) timeout: Option<Span>,

    /// Addresses that the card may lead to, besides the agent's own and those that the whole world can reach,
    /// such as `10.0.0.0/8`; may be repeated
    #[arg(long, env = "CHANCERY_ALLOW_EGRESS", value_name = "CIDR")]
    allow_egress: Vec<Prefix>,

    /// For people, or for programs
    #[arg(short, long, env = "A2ACLI_OUTPUT", value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One `Label: value` a line
    Text,
    /// The protocol's own types
    Json,
}

/// A binding, by the name that people type.
#[derive(Clone, Debug)]
struct Transport(ProtocolBinding);

/// A length of time, such as `500ms`, `90s`, `5m` or `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl AgentOptions {
    /// The URL of the agent: the option, or else the first of the arguments. The rest of them stays.
    pub(super) fn url(&self, arguments: &mut Vec<String>) -> Result<String, Failure> {
        if let Some(url) = &self.agent_card {
            return Ok(url.clone());
        }
        if arguments.is_empty() {
            return Err(Failure::usage("no agent is named; say its URL first, or with --agent-card"));
        }
        Ok(arguments.remove(0))
    }

    /// Finds the agent.
    pub(super) async fn connect(&self, url: &str) -> Result<Client, Failure> {
        let transports = self.transport.iter().map(|transport| transport.0.clone());
        // A binding alone is a wish; who names the version too means that very interface.
        let builder = match self.a2a_version {
            Some(_) if !self.transport.is_empty() => Client::builder().only(transports),
            _ => Client::builder().prefer(transports),
        };
        let mut builder = builder
            .version(self.a2a_version.unwrap_or(Version::V1_0))
            .request_timeout(self.timeout.map_or(ANSWER_TIMEOUT, |span| span.0));
        if let Some(token) = &self.bearer {
            builder = builder.bearer(token);
        }
        let egress = self.allow_egress.iter().fold(Egress::default(), |egress, range| egress.allow(*range));
        builder = builder.egress(egress);
        builder.connect(with_scheme(url)).await.map_err(|error| self.failure(&error, During::Discovery))
    }

    pub(super) fn failure(&self, error: &ClientError, during: During) -> Failure {
        Failure::of(error, during, self.bearer.is_some())
    }
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse(text).ok_or_else(|| "is no version such as `1.0`".to_owned())
}

/// Every argument has been used.
pub(super) fn no_more(arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        Some(more) => Err(Failure::usage(format!("`{more}` is one argument too many"))),
        None => Ok(()),
    }
}

/// A bare host is meant to be reached securely, unless it is this machine.
fn with_scheme(url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let host = url.split(['/', ':']).next().unwrap_or_default();
    let local = host == "localhost" || host.starts_with("127.") || url.starts_with("[::1]");
    format!("{}://{url}", if local { "http" } else { "https" })
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "jsonrpc" | "json-rpc" => Ok(Self(ProtocolBinding::JsonRpc)),
            "http+json" | "http-json" | "rest" => Ok(Self(ProtocolBinding::HttpJson)),
            "grpc" => Ok(Self(ProtocolBinding::Grpc)),
            _ => Err("is none of jsonrpc, http+json and grpc".to_owned()),
        }
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| "must begin with a number".to_owned())?;
        let milliseconds = match unit {
            "ms" => Some(number),
            "" | "s" => number.checked_mul(1000),
            "m" => number.checked_mul(60_000),
            "h" => number.checked_mul(3_600_000),
            _ => return Err("has a unit that is none of ms, s, m and h".to_owned()),
        };
        milliseconds.map(|most| Self(Duration::from_millis(most))).ok_or_else(|| "is too long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0.as_millis());
        assert_eq!(read("500ms"), Ok(500));
        assert_eq!(read("90"), Ok(90_000));
        assert_eq!(read("5m"), Ok(300_000));
        assert_eq!(read("1h"), Ok(3_600_000));
        for text in ["", "s", "5d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_host_is_reached_securely() {
        assert_eq!(with_scheme("agent.example/x"), "https://agent.example/x");
        assert_eq!(with_scheme("127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(with_scheme("localhost:8080/agents/echo"), "http://localhost:8080/agents/echo");
        assert_eq!(with_scheme("http://agent.example"), "http://agent.example");
    }
}
