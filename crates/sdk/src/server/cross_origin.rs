//! What a web page can send through the browser of somebody who reaches a server that the page itself does not: requests from
//! another origin, and requests to a name of the page's own that its DNS points here (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use super::ServerBuilder;
use super::cors::{Cors, Origins};
use super::hygiene::host_of;
use crate::egress::is_public;

/// Refuses what a web page sends through somebody's browser: a request that names the server by a name that is not its own, and a
/// request from another origin.
///
/// ```
/// use chancery_sdk::CrossOriginProtection;
///
/// let protection = CrossOriginProtection::new(["agents.internal"]);
/// let asked = |host: &str| {
///     let request = http::Request::get("/").header("host", host).body(()).unwrap();
///     protection.check_host(&request.into_parts().0).is_ok()
/// };
/// assert!(asked("127.0.0.1:8080") && asked("localhost") && asked("agents.internal:8080"));
/// assert!(!asked("evil.example"));
/// ```
#[derive(Clone, Debug)]
pub struct CrossOriginProtection {
    hosts: Vec<Box<str>>,
    /// The origin that the world sees, which a proxy may hide from us.
    own_origin: Option<Box<str>>,
    allowed: Origins,
}

/// Why a request that a web page may have sent is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrossOriginRefusal {
    /// It names the server by a name that is not its own.
    #[error(
        "this server is not called `{0}`; add it to `hosts` if it is (`server.hosts` of `chancery serve`)"
    )]
    Host(String),
    /// A page of another origin sends it.
    #[error(
        "pages from `{0}` may not call; add the origin to `cors` if they may (`server.cors` of `chancery serve`)"
    )]
    Origin(String),
    /// A browser says that a page of another site sends it.
    #[error(
        "pages of other sites may not call; add their origins to `cors` if they may (`server.cors` of `chancery serve`)"
    )]
    Site,
}

const FETCH_SITE: &str = "sec-fetch-site";

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Names that requests may call the server by, beside addresses, `localhost` and the host of the public URL. Others are refused
    /// (421) where a page could have pointed its own name at the server: on every address that not the whole world reaches, and
    /// wherever anonymous callers are let in. A request from a page of another origin is refused everywhere (403), unless
    /// [`cors`](Self::cors) lists the origin. Who connects to a socket in the file system, or asks for the health of the server, may
    /// call it by any name.
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    pub(super) fn cross_origin(&self) -> CrossOriginProtection {
        let mut protection = CrossOriginProtection::new(&self.hosts);
        if let Some(url) = &self.public_url {
            protection = protection.public_url(url);
        }
        match &self.cors {
            Some(cors) => protection.allow(cors),
            None => protection,
        }
    }

    /// Whether a page could have pointed a name of its own at one of the addresses, and have got something by it.
    pub(super) fn checks_hosts(&self, address: Option<SocketAddr>) -> bool {
        let is_anonymous = self.authenticate.is_none() || self.allow_anonymous;
        is_anonymous
            || address.into_iter().chain(self.grpc.addresses()).any(|address| !is_public(address.ip()))
    }
}

// === impl CrossOriginProtection ===

impl CrossOriginProtection {
    /// For a server that is called by addresses, as `localhost` and by these names.
    pub fn new<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Self {
        let name = |host: H| host.as_ref().trim_end_matches('.').to_ascii_lowercase().into();
        Self { hosts: hosts.into_iter().map(name).collect(), own_origin: None, allowed: Origins::default() }
    }

    /// The URL that the world sees: its host and its origin are the server's own.
    #[must_use]
    pub fn public_url(mut self, url: &str) -> Self {
        let Ok(uri) = url.parse::<http::Uri>() else { return self };
        if let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) {
            self.hosts.push(authority.host().to_ascii_lowercase().into());
            self.own_origin = Some(format!("{scheme}://{authority}").to_ascii_lowercase().into());
        }
        self
    }

    /// Pages of these origins may call.
    #[must_use]
    pub fn allow(mut self, cors: &Cors) -> Self {
        self.allowed = cors.origins.clone();
        self
    }

    /// Whether a request names the server by an address, as `localhost` or by a name of its own.
    pub fn check_host(&self, head: &Parts) -> Result<(), CrossOriginRefusal> {
        let Some(host) = host(head) else {
            return Err(CrossOriginRefusal::Host(shown(authority(head).unwrap_or_default())));
        };
        if is_address(host) || host.eq_ignore_ascii_case("localhost") || self.knows(host) {
            return Ok(());
        }
        Err(CrossOriginRefusal::Host(shown(host)))
    }

    /// Whether a request comes from no page, from one of the server's own, or from one that may call.
    pub fn check_origin(&self, head: &Parts) -> Result<(), CrossOriginRefusal> {
        if matches!(self.allowed, Origins::Any) {
            return Ok(());
        }
        let mut origins = head.headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return own_site(&head.headers) };
        let origin = origin.to_str().unwrap_or_default();
        let refused = || CrossOriginRefusal::Origin(shown(origin));
        if origins.next().is_some() {
            return Err(refused());
        }
        match self.allowed.contains(origin) {
            true => Ok(()),
            false if self.is_own(origin, head) => own_site(&head.headers),
            false => Err(refused()),
        }
    }

    fn knows(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Whether an origin is the one that the request goes to.
    fn is_own(&self, origin: &str, head: &Parts) -> bool {
        let named = origin.split_once("://").map(|(_, authority)| authority);
        let is_here =
            || named.zip(authority(head)).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other));
        self.own_origin.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(origin)) || is_here()
    }
}

/// What a browser says of where a request comes from, if a browser sends it.
fn own_site(headers: &HeaderMap) -> Result<(), CrossOriginRefusal> {
    let said = headers.get_all(FETCH_SITE).iter();
    let is_own = |site: &http::HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    if said.into_iter().all(is_own) { Ok(()) } else { Err(CrossOriginRefusal::Site) }
}

/// What the request calls the server, with a port if it has one.
fn authority(head: &Parts) -> Option<&str> {
    match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        // What cannot be read is no name of ours.
        None => head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?")),
    }
}

/// The host of it, without brackets; none if it says none, or none that everybody reads alike.
fn host(head: &Parts) -> Option<&str> {
    let host = host_of(authority(head)?)?;
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Some(address.unwrap_or_else(|| host.strip_suffix('.').unwrap_or(host)))
}

fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// Text of others, short and without anything that a terminal would obey.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

// === impl CrossOriginRefusal ===

impl CrossOriginRefusal {
    /// 421 for a server of another name, 403 for a page of another origin.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin(_) | Self::Site => StatusCode::FORBIDDEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::time::Duration;

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_server_is_called_by_addresses_and_by_its_own_names() {
        let protection =
            CrossOriginProtection::new(["Agents.Internal."]).public_url("https://agents.example:8443/x");
        let checked = |host: &str| protection.check_host(&head("/", &[("host", host)])).is_ok();
        for own in [
            "127.0.0.1",
            "10.1.2.3:8080",
            "[::1]:8080",
            "[fd00::1]",
            "localhost:1",
            "LOCALHOST",
            "agents.internal",
            "agents.internal.:80",
            "AGENTS.example",
        ] {
            assert!(checked(own), "{own}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "x.localhost",
            "agents.example.evil",
            "127.0.0.1.evil.example",
            "user@127.0.0.1",
            "127.0.0.1:28100,evil.example",
            "[::1",
            "localhost:abc",
            "",
            "0x7f.1",
        ] {
            assert!(!checked(other), "{other}");
        }
        assert!(protection.check_host(&head("http://evil.example/", &[])).is_err(), "HTTP/2 says it there");
        assert!(protection.check_host(&head("/", &[])).is_err(), "nothing is no name of ours");
    }

    #[test]
    fn a_page_calls_where_it_comes_from_and_where_it_may() {
        let cors = Cors::new(["https://app.example"], Duration::ZERO);
        let closed = CrossOriginProtection::new(["agents.internal"]).public_url("https://agents.example");
        let open = closed.clone().allow(&cors);
        let host = ("host", "127.0.0.1:8080");
        let checked = |protection: &CrossOriginProtection, more: &[(&str, &str)]| {
            protection.check_origin(&head("/", &[&[host], more].concat())).is_ok()
        };
        let (origin, site) = ("origin", FETCH_SITE);
        for own in [
            &[][..],
            &[(origin, "http://127.0.0.1:8080")],
            &[(origin, "http://127.0.0.1:8080"), (site, "same-origin")],
            &[(origin, "https://agents.example")],
            &[(site, "same-origin")],
            &[(site, "none")],
        ] {
            assert!(checked(&closed, own), "{own:?}");
        }
        for other in [
            &[(origin, "null")][..],
            &[(origin, "http://127.0.0.1:3000")],
            &[(origin, "http://localhost:8080")],
            &[(origin, "https://app.example")],
            &[(origin, "http://127.0.0.1:8080"), (origin, "http://127.0.0.1:8080")],
            &[(origin, "http://127.0.0.1:8080"), (site, "cross-site")],
            &[(site, "cross-site")],
            &[(site, "same-site")],
            &[(site, "none"), (site, "cross-site")],
        ] {
            assert!(!checked(&closed, other), "{other:?}");
        }
        assert!(checked(&open, &[(origin, "https://app.example"), (site, "cross-site")]));
        assert!(!checked(&open, &[(origin, "https://other.example"), (site, "cross-site")]));
        assert!(!checked(&open, &[(site, "cross-site")]), "a page that may call says which it is");
        let any = closed.allow(&Cors::new(["*"], Duration::ZERO));
        assert!(checked(&any, &[(origin, "null"), (site, "cross-site")]));
    }
}
