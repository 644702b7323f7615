//! Where a URL leads, and whether that is where the user said.

use std::fmt;
use std::net::IpAddr;

use http::Uri;

/// Scheme, host and port of an HTTP URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) is_https: bool,
    /// In lower case; an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// The origin of an absolute HTTP URL; what is wrong with any other.
    pub(crate) fn of(uri: &Uri) -> Result<Self, &'static str> {
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("credentials do not belong into a URL");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err("it names no host");
        }
        let port = match (authority.port(), authority.port_u16()) {
            (Some(_), None) => return Err("its port is none"),
            (_, Some(port)) => port,
            (None, None) if is_https => 443,
            (None, None) => 80,
        };
        Ok(Self { is_https, host, port })
    }

    /// Whether both lead to the same place. All names of one's own machine do.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_host = self.host == other.host || (self.is_loopback() && other.is_loopback());
        same_host && self.port == other.port && self.is_https == other.is_https
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Result<Origin, &'static str> {
        Origin::of(&url.parse().expect("a URI"))
    }

    #[test]
    fn the_same_place_is_known_under_its_names() {
        let same = |one: &str, other: &str| origin(one).unwrap().is_same(&origin(other).unwrap());
        assert!(same("https://A.example/x", "https://a.example:443/y"));
        assert!(same("http://localhost:8080", "http://127.0.0.1:8080"));
        assert!(same("http://[::1]:8080", "http://127.0.0.1:8080"));
        assert!(!same("http://localhost:8080", "http://localhost:8081"));
        assert!(!same("https://a.example", "http://a.example:443"));
        assert!(!same("https://a.example", "https://b.example"));
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for url in ["/path", "ftp://a.example", "http://user:secret@a.example", "a.example:80"] {
            assert!(origin(url).is_err(), "{url}");
        }
    }
}
