//! What proves who we are, held so that it is neither printed nor sent to the wrong place.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::origin::Origin;

/// Headers that prove who is calling. Printing one shows its names only.
#[derive(Clone, Default)]
pub struct Credentials(Vec<(HeaderName, HeaderValue)>);

/// Gives the credentials of each request.
pub(crate) type CredentialSource = Arc<dyn Fn() -> Credentials + Send + Sync>;

/// A secret that cannot be a header.
#[derive(Debug, thiserror::Error)]
#[error("the credentials for header {name} cannot be sent: they must be visible ASCII")]
pub struct InvalidCredentials {
    name: HeaderName,
}

/// Who gets the credentials.
#[derive(Clone, Debug)]
pub(crate) struct Audience {
    /// Where the user said to connect to.
    pub(crate) named: Origin,
    /// Hosts, with a port or without, that the user allowed besides; in lower case.
    pub(crate) allowed: Vec<String>,
}

// === impl Credentials ===

impl Credentials {
    /// `Authorization: Bearer …`.
    pub fn bearer(token: &str) -> Result<Self, InvalidCredentials> {
        Self::header(header::AUTHORIZATION, &format!("Bearer {token}"))
    }

    /// `Authorization: Basic …`.
    pub fn basic(user: &str, password: &str) -> Result<Self, InvalidCredentials> {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        Self::header(header::AUTHORIZATION, &format!("Basic {encoded}"))
    }

    /// Any header, such as the one of an API key.
    pub fn header(name: HeaderName, secret: &str) -> Result<Self, InvalidCredentials> {
        match HeaderValue::from_str(secret) {
            Ok(mut value) => {
                value.set_sensitive(true);
                Ok(Self(vec![(name, value)]))
            }
            Err(_) => Err(InvalidCredentials { name }),
        }
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// What in them is secret: a value as a whole, and what stands after its scheme.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> + use<> {
        let values: Vec<String> =
            self.0.iter().filter_map(|(_, value)| value.to_str().ok()).map(str::to_owned).collect();
        values.into_iter().flat_map(|value| {
            let bare = value.split_once(' ').map(|(_, bare)| bare.to_owned());
            bare.into_iter().chain([value])
        })
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.insert(name.clone(), value.clone());
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name.as_str())).finish()
    }
}

// === impl Audience ===

impl Audience {
    /// Whether a place is one that the user named or allowed. What was meant for TLS never goes without.
    pub(crate) fn includes(&self, origin: &Origin) -> bool {
        if self.named.is_same(origin) {
            return true;
        }
        let with_port = format!("{}:{}", origin.host, origin.port);
        let is_allowed = self.allowed.iter().any(|known| *known == origin.host || *known == with_port);
        is_allowed && (origin.is_https || !self.named.is_https)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_printed() {
        let both = Credentials::bearer("hush").unwrap().and(Credentials::basic("me", "hush").unwrap());
        assert_eq!(format!("{both:?}"), r#"["authorization", "authorization"]"#);
        let mut headers = HeaderMap::new();
        Credentials::bearer("hush").unwrap().write(&mut headers);
        assert_eq!(headers[header::AUTHORIZATION], "Bearer hush");
        assert!(!format!("{headers:?}").contains("hush"));
        let wrong = Credentials::bearer("hu\nsh").unwrap_err();
        assert!(!wrong.to_string().contains("hu"));
    }

    #[test]
    fn only_named_and_allowed_places_get_them() {
        let origin = |url: &str| Origin::of(&url.parse().unwrap()).unwrap();
        let named = origin("https://a.example");
        let audience = Audience { named, allowed: vec!["b.example".to_owned(), "c.example:8443".to_owned()] };
        for url in ["https://a.example/x", "https://b.example:99", "https://c.example:8443"] {
            assert!(audience.includes(&origin(url)), "{url}");
        }
        for url in [
            "http://a.example",
            "https://a.example:8443",
            "http://b.example",
            "https://c.example",
            "https://x.b.example",
        ] {
            assert!(!audience.includes(&origin(url)), "{url}");
        }
    }
}
