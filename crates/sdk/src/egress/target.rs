//! What a URL of somebody else's names: a scheme, a host and a port, in one spelling only.
//!
//! A host that two programs could read differently is refused rather than understood: the one that checks must
//! not see another address than the one that dials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;

use super::refused::Refused;

/// A URL that may be dialled, as far as can be said before its name is resolved.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(super) uri: Uri,
    pub(super) host: Host,
    pub(super) port: u16,
}

/// The one that is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// A name, in lower case.
    Name(Arc<str>),
    Address(IpAddr),
}

/// A name has at most so many bytes in DNS, and so many between two dots.
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// Ports of protocols that are not HTTP: what is posted there can only be meant to confuse somebody.
const PORTS_OF_OTHERS: [u16; 36] = [
    0, 7, 9, 13, 19, 21, 22, 23, 25, 53, 69, 110, 111, 119, 123, 135, 137, 139, 143, 161, 389, 445, 465, 514,
    587, 636, 993, 995, 1433, 2049, 3306, 3389, 5432, 6379, 11211, 27017,
];

/// What names end with that mean something only where they are used.
#[cfg(feature = "server")]
const INSIDE: [&str; 8] =
    ["corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost"];

// === impl Checked ===

impl Checked {
    /// Reads a URL. Nothing is said yet about addresses.
    pub(super) fn parse(uri: &Uri) -> Result<Self, Refused> {
        let default_port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            Some(_) => return Err(Refused::Scheme),
            None => return Err(Refused::NotAUrl),
        };
        let authority = uri.authority().ok_or(Refused::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(Refused::UserInfo);
        }
        let host = authority.host();
        let port = match authority.as_str().get(host.len()..) {
            Some("") => default_port,
            Some(rest) => parse_port(rest)?,
            None => return Err(Refused::Port),
        };
        Ok(Self { uri: uri.clone(), host: Host::parse(host)?, port })
    }

    /// The URL.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The host and the port: whose time it takes to dial this.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Name(name) => format!("{name}:{}", self.port),
            Host::Address(IpAddr::V4(address)) => format!("{address}:{}", self.port),
            Host::Address(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
        }
    }

    /// Whether it names a place that anybody may reach, as far as can be said without asking anybody.
    #[cfg(feature = "server")]
    pub(super) fn is_public(&self) -> bool {
        match &self.host {
            Host::Address(address) => super::is_public(*address),
            Host::Name(name) => {
                let last = name.rsplit('.').next().unwrap_or(name);
                name.contains('.') && !INSIDE.contains(&last) && !name.ends_with(".home.arpa")
            }
        }
    }

    pub(super) fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    pub(super) fn has_port_of_others(&self) -> bool {
        PORTS_OF_OTHERS.contains(&self.port)
    }
}

/// After the host: a colon and decimal digits.
fn parse_port(rest: &str) -> Result<u16, Refused> {
    let digits = rest.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Refused::Port)
}

// === impl Host ===

impl Host {
    fn parse(host: &str) -> Result<Self, Refused> {
        if host.is_empty() {
            return Err(Refused::NoHost);
        }
        if let Some(inside) = host.strip_prefix('[') {
            return Self::parse_v6(inside);
        }
        if host.ends_with('.') {
            return Err(Refused::TrailingDot);
        }
        let name = host.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or(&name);
        if is_numeric(last) {
            let address = Ipv4Addr::from_str(host).map_err(|_| Refused::NumericHost)?;
            return Ok(Self::Address(address.into()));
        }
        if name.len() > NAME_BYTES || !name.split('.').all(is_label) {
            return Err(Refused::HostName);
        }
        Ok(Self::Name(name.into()))
    }

    fn parse_v6(inside: &str) -> Result<Self, Refused> {
        if inside.contains('%') {
            return Err(Refused::ZoneId);
        }
        let address = inside.strip_suffix(']').and_then(|text| Ipv6Addr::from_str(text).ok());
        address.map(|address| Self::Address(address.into())).ok_or(Refused::HostName)
    }

    /// Whether it is a name that means the machine itself.
    pub(super) fn is_localhost(&self) -> bool {
        matches!(self, Self::Name(name) if &**name == "localhost" || name.ends_with(".localhost"))
    }
}

/// Some programs read a host whose last part is a number as an address, of any base and with parts left out.
fn is_numeric(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || label.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= LABEL_BYTES && label.bytes().all(allowed)
}
