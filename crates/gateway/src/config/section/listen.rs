//! Where the gateway listens, and for whom.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use chancery_protocol::{ProtocolBinding, Version};
use chancery_sdk::egress::Prefix;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Complaint, names_user};

/// What the address of a socket in the file system begins with.
const UNIX: &str = "unix:";

/// Where and how it listens.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerSection {
    /// The address for everything: `HOST:PORT`, or `unix:PATH` for a socket in the file system, which needs `public_url`.
    pub(crate) listen: Listen,
    /// Who may connect to a socket in the file system, as `chmod` has it; `660` unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) socket_mode: Option<String>,
    /// The URL under which the world sees it; the cards name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_url: Option<String>,
    /// Another address, for gRPC, where HTTP/2 needs a port of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grpc_listen: Option<SocketAddr>,
    /// Whether callers without a credential are let in. They are one caller, `anonymous`, and see each other's tasks. Nothing
    /// else lets them in: neither an address that only this machine reaches, nor that there is no key.
    pub(crate) anonymous: bool,
    /// Whether `/livez` and `/readyz` are there beside the agents, too, for anybody to ask.
    pub(crate) probes: bool,
    /// Versions of the protocol that are not spoken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) without_versions: Vec<SpokenVersion>,
    /// Bindings of the protocol that are not there, and that no card names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) without_bindings: Vec<SpokenBinding>,
    /// The proxies that stand in front: ranges of addresses such as `10.0.0.0/8`, and `unix` for whoever connects to a socket in
    /// the file system. What they say about where a request comes from is believed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) trusted_proxies: Vec<String>,
    /// The header in which they say it. What stands in another one may be the client's own word.
    pub(crate) proxy_header: ProxyHeader,
    /// The certificate by which it speaks TLS, on its own address and those for gRPC. Without it, it speaks plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsSection>,
    /// Which web pages may call from a browser; none unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cors: Option<CorsSection>,
    /// Names that requests may call the gateway by, beside addresses, `localhost` and the host of `public_url`. A request that
    /// calls it by another is refused, except over a socket in the file system, for its health, and on a public address without
    /// anonymous callers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// The HTTP status of an answer over JSON-RPC that says that a gate has refused the call.
    pub(crate) jsonrpc_status: JsonRpcStatus,
}

/// A certificate, in files that are read again when they change. Connections that are open go on with the one from before.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSection {
    /// The certificate in PEM, with those that vouch for it after it.
    pub(crate) cert: PathBuf,
    /// Its private key in PEM.
    pub(crate) key: PathBuf,
}

/// The HTTP status of an answer over JSON-RPC that says that a gate has refused the call. Who calls and how often is a matter of
/// HTTP, and has 401, 403 and 429 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JsonRpcStatus {
    /// 200, with the error in the envelope. Many clients hide the body of any other answer, and with it the reason.
    #[default]
    Ok,
    /// The status that the same refusal has over HTTP+JSON: 400, 403, 429 or 503.
    Http,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The header in which proxies say where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProxyHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Which web pages may call from a browser.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CorsSection {
    /// Where the pages come from, such as `https://app.example`; `*` for anywhere.
    #[schemars(length(min = 1))]
    pub(crate) origins: Vec<String>,
    /// How long a browser may remember that it may, in seconds.
    #[serde(default = "an_hour")]
    #[schemars(range(max = 86_400))]
    pub(crate) max_age_s: u64,
}

/// A version of the protocol that is spoken unless it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum SpokenVersion {
    #[serde(rename = "1.0")]
    V1_0,
    #[serde(rename = "0.3")]
    V0_3,
    #[serde(rename = "0.1")]
    V0_1,
}

/// A binding of the protocol that is there unless it is left out, as cards name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum SpokenBinding {
    #[serde(rename = "JSONRPC")]
    JsonRpc,
    #[serde(rename = "HTTP+JSON")]
    HttpJson,
    #[serde(rename = "GRPC")]
    Grpc,
}

fn an_hour() -> u64 {
    3600
}

// === impl ServerSection ===

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080))),
            socket_mode: None,
            public_url: None,
            grpc_listen: None,
            anonymous: false,
            probes: false,
            without_versions: Vec::new(),
            without_bindings: Vec::new(),
            trusted_proxies: Vec::new(),
            proxy_header: ProxyHeader::default(),
            tls: None,
            cors: None,
            hosts: Vec::new(),
            jsonrpc_status: JsonRpcStatus::default(),
        }
    }
}

impl ServerSection {
    /// Who may connect to the socket.
    pub(crate) fn mode(&self) -> Option<u32> {
        let text = self.socket_mode.as_deref().unwrap_or("660");
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
    }

    /// The ranges of addresses that proxies have.
    pub(crate) fn proxies(&self) -> Vec<Prefix> {
        self.trusted_proxies.iter().filter_map(|range| prefix(range)).collect()
    }

    /// Whether whoever connects to the socket is a proxy.
    pub(crate) fn trusts_socket(&self) -> bool {
        self.trusted_proxies.iter().any(|range| range == "unix")
    }

    /// Its own URL, if the world sees it where it listens.
    pub(crate) fn own_url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.listen)
    }

    /// The address at which others than this machine send it what everybody on the way can read, if there is one.
    pub(crate) fn in_the_clear(&self, more: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
        let own = match self.listen {
            Listen::Tcp(address) => Some(address),
            Listen::Unix(_) => None,
        };
        let is_hidden = self.tls.is_some() || !self.trusted_proxies.is_empty();
        own.into_iter()
            .chain(self.grpc_listen)
            .chain(more)
            .find(|address| !is_hidden && !address.ip().is_loopback())
    }

    pub(in crate::config) fn complaints(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let is_socket = matches!(self.listen, Listen::Unix(_));
        if is_socket && self.public_url.is_none() {
            let what = "a socket in the file system is no address to put into a card; set `public_url`";
            complaints.push(("listen", what.to_owned()));
        }
        if self.tls.is_some() && is_socket {
            let what = "a socket in the file system speaks no TLS; leave it to the proxy in front";
            complaints.push(("tls", what.to_owned()));
        }
        if self.socket_mode.is_some() && !is_socket {
            complaints.push(("socket_mode", "only a socket in the file system has one".to_owned()));
        }
        if self.mode().is_none() {
            complaints.push(("socket_mode", "must be three octal digits, such as `660`".to_owned()));
        }
        if self.public_url.as_deref().is_some_and(names_user) {
            let what = "a user or a password stands in it, and every card would show them; take them out";
            complaints.push(("public_url", what.to_owned()));
        } else if let Some(url) = self.public_url.as_ref().filter(|url| !is_base_url(url)) {
            let what =
                format!("`{url}` is no http or https URL without query, such as `https://agents.example`");
            complaints.push(("public_url", what));
        }
        for range in &self.trusted_proxies {
            if range == "unix" && !is_socket {
                complaints.push(("trusted_proxies", "`unix` is for who listens on a socket".to_owned()));
            } else if range != "unix" && prefix(range).is_none() {
                let what = format!("`{range}` is no range of addresses, such as `10.0.0.0/8`, nor `unix`");
                complaints.push(("trusted_proxies", what));
            } else if is_everybody(range) {
                let what = format!(
                    "`{range}` is everybody, who could then say where they come from; name the proxies"
                );
                complaints.push(("trusted_proxies", what));
            }
        }
        if self.trusted_proxies.is_empty() && self.proxy_header != ProxyHeader::default() {
            complaints.push(("proxy_header", "no proxy is trusted; add `trusted_proxies`".to_owned()));
        }
        for host in self.hosts.iter().filter(|host| !is_host(host)) {
            let what =
                format!("`{host}` is no name of a host, such as `agents.internal`, without scheme and port");
            complaints.push(("hosts", what));
        }
        for origin in self.cors.iter().flat_map(|cors| &cors.origins).filter(|origin| !is_origin(origin)) {
            let what = format!("`{origin}` is no origin, such as `https://app.example`, nor `*`");
            complaints.push(("cors", what));
        }
        if self.anonymous && self.cors.iter().flat_map(|cors| &cors.origins).any(|origin| origin == "*") {
            let what = "`*` beside `anonymous = true` lets every web page call through its visitor's browser; list the origins";
            complaints.push(("cors", what.to_owned()));
        }
        complaints
    }
}

fn prefix(text: &str) -> Option<Prefix> {
    text.parse().ok()
}

fn is_base_url(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && url.query().is_none()
    })
}

fn is_host(text: &str) -> bool {
    let is_spelled = text.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c));
    is_spelled && text.parse::<http::uri::Authority>().is_ok_and(|authority| authority.host() == text)
}

fn is_everybody(range: &str) -> bool {
    range.rsplit_once('/').is_some_and(|(_, length)| length.parse() == Ok(0_u8))
}

/// A scheme, a host and perhaps a port, exactly as a browser writes them.
fn is_origin(text: &str) -> bool {
    let is_bare = text.parse::<http::Uri>().is_ok_and(|url| {
        url.scheme_str()
            .zip(url.authority())
            .is_some_and(|(scheme, host)| format!("{scheme}://{host}") == *text)
    });
    text == "*" || is_bare
}

// === impl SpokenVersion ===

impl SpokenVersion {
    pub(in crate::config) const ALL: [Self; 3] = [Self::V1_0, Self::V0_3, Self::V0_1];

    pub(crate) fn of_protocol(self) -> Version {
        match self {
            Self::V1_0 => Version::V1_0,
            Self::V0_3 => Version::V0_3,
            Self::V0_1 => Version::V0_1,
        }
    }
}

// === impl SpokenBinding ===

impl SpokenBinding {
    pub(in crate::config) const ALL: [Self; 3] = [Self::JsonRpc, Self::HttpJson, Self::Grpc];

    pub(crate) fn of_protocol(self) -> ProtocolBinding {
        match self {
            Self::JsonRpc => ProtocolBinding::JsonRpc,
            Self::HttpJson => ProtocolBinding::HttpJson,
            Self::Grpc => ProtocolBinding::Grpc,
        }
    }
}

// === impl Listen ===

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err("`unix:` names no path".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("`{text}` is no address; write `HOST:PORT` with numbers, or `unix:PATH`")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "`HOST:PORT`, or `unix:PATH`"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for text in ["127.0.0.1:80", "[::1]:80", "unix:/run/chancery/chancery.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        assert!("localhost".parse::<Listen>().is_err() && "unix:".parse::<Listen>().is_err());
    }

    #[test]
    fn what_cannot_act_is_complained_of() {
        let complaints = |change: fn(&mut ServerSection)| {
            let mut section = ServerSection::default();
            change(&mut section);
            section.complaints().into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert!(complaints(|_| {}).is_empty());
        assert_eq!(complaints(|section| section.listen = Listen::Unix("/s".into())), ["listen"]);
        assert_eq!(complaints(|section| section.socket_mode = Some("600".to_owned())), ["socket_mode"]);
        assert_eq!(complaints(|section| section.public_url = Some("x.example".to_owned())), ["public_url"]);
        assert_eq!(
            complaints(|section| section.trusted_proxies = vec!["10.0.0.0/40".to_owned()]),
            ["trusted_proxies"]
        );
        assert_eq!(
            complaints(|section| section.trusted_proxies = vec!["unix".to_owned()]),
            ["trusted_proxies"]
        );
        assert_eq!(complaints(|section| section.hosts = vec!["http://a.example".to_owned()]), ["hosts"]);
        assert_eq!(complaints(|section| section.hosts = vec!["a.example:80".to_owned()]), ["hosts"]);
        assert!(complaints(|section| section.hosts = vec!["a.example".to_owned()]).is_empty());
        for none in ["*", "*.example", "a b", "a/b", ""] {
            let section = ServerSection { hosts: vec![none.to_owned()], ..ServerSection::default() };
            assert_eq!(section.complaints().len(), 1, "{none}");
        }
        for everybody in ["0.0.0.0/0", "::/0"] {
            let proxies = vec![everybody.to_owned()];
            let section = ServerSection { trusted_proxies: proxies, ..ServerSection::default() };
            assert_eq!(section.complaints().len(), 1, "{everybody}");
        }
        assert_eq!(complaints(|section| section.proxy_header = ProxyHeader::Forwarded), ["proxy_header"]);
        assert!(
            complaints(|section| section.trusted_proxies = vec!["::1".to_owned(), "10.0.0.1".to_owned()])
                .is_empty()
        );
        let cors = |origin: &str| CorsSection { origins: vec![origin.to_owned()], max_age_s: 1 };
        for (origin, fine) in [
            ("https://a.example", true),
            ("http://a:81", true),
            ("*", true),
            ("a.example", false),
            ("https://a/", false),
        ] {
            let section = ServerSection { cors: Some(cors(origin)), ..ServerSection::default() };
            assert_eq!(section.complaints().is_empty(), fine, "{origin}");
        }
    }
}
