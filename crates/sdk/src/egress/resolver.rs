//! From names to addresses.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// Finds the addresses of a name. Implemented by whoever wants other answers than the machine gives: a cache,
/// a server of their own, or a test with a lie in it. Whatever it answers is checked before it is dialled.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use chancery_sdk::egress::{Resolved, Resolver};
///
/// #[derive(Debug)]
/// struct Always(IpAddr);
///
/// impl Resolver for Always {
///     fn resolve<'a>(&'a self, _: &'a str) -> Resolved<'a> {
///         Box::pin(async { Ok(vec![self.0]) })
///     }
/// }
/// # let _ = Always(Ipv4Addr::LOCALHOST.into());
/// ```
pub trait Resolver: fmt::Debug + Send + Sync + 'static {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolved<'a>;
}

/// Addresses to come.
pub type Resolved<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Asks the machine.
#[derive(Debug)]
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolved<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
