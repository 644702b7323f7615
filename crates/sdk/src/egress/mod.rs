//! The one way out: everything that is dialled because of somebody's input is dialled through here.
//!
//! A URL in a request is an order to our machine, which stands where its author does not: behind the firewall,
//! beside the metadata service. So an [`Egress`] decides twice. [`Egress::check`] looks at the URL when it comes
//! in. Its [`Connector`] resolves the name when it is dialled, looks at every address that comes back, refuses if
//! one of them is not allowed, and connects to exactly the addresses it has looked at: a name that changes its
//! mind in between gains nothing. That holds for http and https alike. Redirects are never followed.
//!
//! Unless something is allowed, only globally routable unicast addresses are, as the registries of IANA have them.
//!
//! | file | holds |
//! |---|---|
//! | `target` | reading a URL, in one spelling only |
//! | `address` | the table of reserved addresses |
//! | `resolver` | from names to addresses |
//! | `connector` | dialling, for hyper's client |
//! | `tls` | whom to trust |
//! | `refused` | why something is not dialled |
//! | `web` | requests to services that are no agents |

mod address;
mod connector;
mod refused;
mod resolver;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod web;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

pub use address::{InvalidPrefix, Prefix};
pub use connector::{Connecting, Connector, Stream};
pub use refused::{ConnectError, Refused};
pub use resolver::{Resolved, Resolver};
pub use target::Checked;
#[cfg(feature = "tls")]
pub use tls::InvalidRoots;
pub use web::{Web, WebAnswer, WebError, WebEvents};

use resolver::SystemResolver;
use target::Host;

/// Who may be dialled. Cloning it is a reference count.
///
/// ```
/// use chancery_sdk::egress::Egress;
///
/// let egress = Egress::default().allow("10.1.0.0/16".parse()?);
/// assert!(egress.check("https://receiver.example/hook").is_ok());
/// assert!(egress.check("http://10.1.2.3:8080/hook").is_ok());
/// let refused = egress.check("http://169.254.169.254/latest").unwrap_err();
/// assert_eq!(refused.to_string(), "the address 169.254.169.254 is reserved (link local); allow it if it is meant");
/// # Ok::<(), chancery_sdk::egress::InvalidPrefix>(())
/// ```
#[derive(Clone, Debug)]
pub struct Egress(Arc<Policy>);

#[derive(Clone, Debug)]
struct Policy {
    unrestricted: bool,
    https_only: bool,
    allowed: Vec<Prefix>,
    resolver: Arc<dyn Resolver>,
    connect_timeout: Duration,
    #[cfg(feature = "tls")]
    trust: tls::Trust,
}

/// Whether a URL names a place that the whole world may reach, as far as can be said without asking anybody.
#[cfg(feature = "server")]
pub(crate) fn is_public_url(url: &str) -> bool {
    url.parse().ok().and_then(|uri: Uri| Checked::parse(&uri).ok()).is_some_and(|checked| checked.is_public())
}

/// Whether the whole world may reach an address.
#[cfg(feature = "server")]
pub(crate) fn is_public(address: std::net::IpAddr) -> bool {
    address::reserved_for(address.to_canonical()).is_none()
}

/// How many addresses of a name are looked at and tried.
const ADDRESSES: usize = 16;

// === impl Egress ===

impl Egress {
    /// Everybody may be dialled: for tools that a person runs, never for what strangers send.
    pub fn unrestricted() -> Self {
        Self::default().change(|policy| policy.unrestricted = true)
    }

    /// The same trust, names and times, but nobody is refused: for where a person said to go.
    pub(crate) fn freed(&self) -> Self {
        self.clone().change(|policy| (policy.unrestricted, policy.https_only) = (true, false))
    }

    /// These addresses may be dialled, too.
    #[must_use]
    pub fn allow(self, range: Prefix) -> Self {
        self.change(|policy| policy.allowed.push(range))
    }

    /// Only https may be dialled.
    #[must_use]
    pub fn https_only(self) -> Self {
        self.change(|policy| policy.https_only = true)
    }

    /// Names are resolved by this.
    #[must_use]
    pub fn resolver(self, resolver: impl Resolver) -> Self {
        self.change(|policy| policy.resolver = Arc::new(resolver))
    }

    /// How long it may take to resolve, connect and agree on TLS; ten seconds unless said otherwise.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.change(|policy| policy.connect_timeout = timeout)
    }

    /// Trusts these certificate authorities, in PEM, as well as those of the system.
    #[cfg(feature = "tls")]
    pub fn trust_pem(self, pem: &[u8]) -> Result<Self, InvalidRoots> {
        let trust = self.0.trust.with_pem(pem)?;
        Ok(self.change(|policy| policy.trust = trust))
    }

    /// Whether a URL may be dialled, as far as can be said without resolving its name.
    pub fn check(&self, url: &str) -> Result<Checked, Refused> {
        self.check_uri(&url.parse().map_err(|_| Refused::NotAUrl)?)
    }

    /// The same, for a URL that has been parsed.
    pub fn check_uri(&self, uri: &Uri) -> Result<Checked, Refused> {
        let checked = Checked::parse(uri)?;
        if self.0.https_only && !checked.is_https() {
            return Err(Refused::NotHttps);
        }
        if self.0.unrestricted {
            return Ok(checked);
        }
        if checked.has_port_of_others() {
            return Err(Refused::Port);
        }
        match &checked.host {
            Host::Address(address) => self.permit(*address)?,
            // The name is as good as the address: who allows one means both.
            host if host.is_localhost() && !self.allows_loopback() => return Err(Refused::Localhost),
            Host::Name(_) => {}
        }
        Ok(checked)
    }

    /// The addresses to dial, each of which is allowed. If one is not, none is: a name that means a stranger's
    /// machine and one of ours is not a name that strangers have by accident.
    pub async fn resolve(&self, target: &Checked) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.0.resolver.resolve(name).await.map_err(ConnectError::Resolve)?,
        };
        addresses.dedup();
        for address in &addresses {
            self.permit(*address)?;
        }
        addresses.truncate(ADDRESSES);
        if addresses.is_empty() {
            let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
            return Err(ConnectError::Resolve(nothing));
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }

    /// What dials by this policy, for hyper's client.
    pub fn connector(&self) -> Connector {
        Connector::new(self.clone())
    }

    fn permit(&self, address: IpAddr) -> Result<(), Refused> {
        if self.0.unrestricted || self.0.allowed.iter().any(|range| range.contains(address)) {
            return Ok(());
        }
        match address::reserved_for(address) {
            None => Ok(()),
            Some(purpose) => Err(Refused::Address { address, purpose }),
        }
    }

    fn allows_loopback(&self) -> bool {
        let loopback = [std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()];
        loopback.into_iter().any(|address| self.permit(address).is_ok())
    }

    fn change(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self(Arc::new(Policy {
            unrestricted: false,
            https_only: false,
            allowed: Vec::new(),
            resolver: Arc::new(SystemResolver),
            connect_timeout: Duration::from_secs(10),
            #[cfg(feature = "tls")]
            trust: tls::Trust::default(),
        }))
    }
}
