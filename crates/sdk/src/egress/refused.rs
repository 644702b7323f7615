//! Why something is not dialled.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Why a URL is refused. Every text says what it is about the URL; none repeats it, since a URL can hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is no absolute URL.
    #[error("the URL is not an absolute one: write `https://host/path`, in ASCII")]
    NotAUrl,
    /// It is neither http nor https.
    #[error("the URL has a scheme other than http and https")]
    Scheme,
    /// It is http where only https is allowed.
    #[error("the URL is not https, and only that is allowed here")]
    NotHttps,
    /// It has a user name or a password.
    #[error("the URL has a user name or password in it: take it out, and use the authentication field")]
    UserInfo,
    /// It has no host.
    #[error("the URL has no host")]
    NoHost,
    /// Its host is no name.
    #[error("the host of the URL is not a DNS name in ASCII: write international names as `xn--…`")]
    HostName,
    /// Its host ends in a dot.
    #[error("the host of the URL ends in a dot: leave it out")]
    TrailingDot,
    /// Its host is a number in an unusual form.
    #[error("the host of the URL is a number but not a dotted quad such as 192.0.2.1")]
    NumericHost,
    /// It has a zone id.
    #[error("the host of the URL has a zone id, which means something on one machine only")]
    ZoneId,
    /// Its port is no port, or one of a protocol that is not HTTP.
    #[error("the port of the URL is none that HTTP is served at")]
    Port,
    /// It names this machine.
    #[error("the host of the URL is this machine itself; allow its addresses if it is meant")]
    Localhost,
    /// An address is not for everybody to reach.
    #[error("the address {address} is reserved ({purpose}); allow it if it is meant")]
    Address {
        /// The address.
        address: IpAddr,
        /// What it is reserved for.
        purpose: &'static str,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// It was not tried.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host has no address.
    #[error("the name of the host cannot be resolved")]
    Resolve(#[source] io::Error),
    /// No address answered.
    #[error("cannot connect to {address}")]
    Connect {
        /// The last one that was tried.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The other side did not prove who it is.
    #[error("no TLS with the host")]
    Tls(#[source] io::Error),
    /// TLS was not built in.
    #[error("https needs the feature `tls` of chancery-sdk")]
    NoTls,
}

impl ConnectError {
    /// The refusal, if nothing was dialled because of one. Looks through what a client wraps around it.
    pub fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refused> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(Self::Refused(refused)) = error.downcast_ref() {
                return Some(refused);
            }
            next = error.source();
        }
        None
    }
}
