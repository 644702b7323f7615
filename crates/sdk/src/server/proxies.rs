//! Where a request comes from when proxies stand in front: what they say is believed, and what others say is not.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, header};

use crate::egress::Prefix;

/// The header in which proxies say where a request comes from. There is one: what stands in the other may have come from
/// the client, and passed them untouched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Who is believed.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    pub(super) ranges: Vec<Prefix>,
    /// Whoever connects to a socket in the file system.
    pub(super) socket: bool,
    pub(super) header: ForwardedBy,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// It has this address.
    Address(IpAddr),
    /// It is on this machine.
    Socket,
}

impl Proxies {
    /// Where a request comes from: from the last who is no proxy.
    pub(super) fn source(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let (mut source, is_proxy) = match peer {
            Peer::Unknown => (None, false),
            Peer::Address(address) => (Some(address), self.knows(address)),
            Peer::Socket => (None, self.socket),
        };
        if !is_proxy {
            return source;
        }
        let name = match self.header {
            ForwardedBy::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            ForwardedBy::Forwarded => header::FORWARDED,
        };
        let lines: Vec<_> = headers.get_all(name).iter().collect();
        let hops = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        // From the nearest on; each was written by the one before it.
        for hop in hops {
            let Some(address) = self.address(hop.trim()) else { return source };
            source = Some(address);
            if !self.knows(address) {
                return source;
            }
        }
        source
    }

    pub(super) fn knows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The address in one hop, if it names one.
    fn address(&self, hop: &str) -> Option<IpAddr> {
        let named = match self.header {
            ForwardedBy::XForwardedFor => hop,
            ForwardedBy::Forwarded => {
                let mut pairs = hop.split(';').filter_map(|pair| pair.trim().split_once('='));
                let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
                node.trim().trim_matches('"')
            }
        };
        let bare = named.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(named);
        let with_port = || named.parse::<SocketAddr>().ok().map(|address| address.ip());
        bare.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(proxies: &Proxies, peer: &str, lines: &[&str]) -> Option<String> {
        let name = match proxies.header {
            ForwardedBy::XForwardedFor => "x-forwarded-for",
            ForwardedBy::Forwarded => "forwarded",
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, line.parse().unwrap());
        }
        let peer = if peer == "socket" { Peer::Socket } else { Peer::Address(peer.parse().unwrap()) };
        proxies.source(peer, &headers).map(|address| address.to_string())
    }

    fn proxies(header: ForwardedBy) -> Proxies {
        Proxies { ranges: vec!["10.0.0.0/8".parse().unwrap()], socket: false, header }
    }

    #[test]
    fn the_last_who_is_no_proxy_is_where_it_comes_from() {
        let trusting = proxies(ForwardedBy::XForwardedFor);
        let of = |peer, lines: &[&str]| source(&trusting, peer, lines).unwrap();
        assert_eq!(of("10.0.0.1", &["192.0.2.7"]), "192.0.2.7");
        assert_eq!(of("10.0.0.1", &["203.0.113.9, 192.0.2.7, 10.9.9.9"]), "192.0.2.7", "the rest is hearsay");
        assert_eq!(of("10.0.0.1", &["203.0.113.9", "192.0.2.7"]), "192.0.2.7", "in several lines");
        assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &["10.0.0.2"]), "10.0.0.2", "proxies call, too");
        assert_eq!(of("10.0.0.1", &["192.0.2.7, nonsense"]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &["192.0.2.7:4711"]), "192.0.2.7");
        assert_eq!(of("::ffff:10.0.0.1", &["2001:db8::1"]), "2001:db8::1");
    }

    #[test]
    fn what_others_say_is_not_believed() {
        let trusting = proxies(ForwardedBy::XForwardedFor);
        assert_eq!(source(&trusting, "192.0.2.1", &["203.0.113.9"]).unwrap(), "192.0.2.1");
        assert_eq!(source(&trusting, "socket", &["203.0.113.9"]), None);
        assert_eq!(source(&Proxies::default(), "10.0.0.1", &["203.0.113.9"]).unwrap(), "10.0.0.1");
        let socket = Proxies { socket: true, ..Proxies::default() };
        assert_eq!(source(&socket, "socket", &["203.0.113.9"]).unwrap(), "203.0.113.9");
    }

    #[test]
    fn the_standard_header_is_read_in_all_its_forms() {
        let trusting = proxies(ForwardedBy::Forwarded);
        let of = |line| source(&trusting, "10.0.0.1", &[line]).unwrap();
        assert_eq!(of("for=192.0.2.60;proto=http;by=203.0.113.43"), "192.0.2.60");
        assert_eq!(of("For=\"[2001:db8:cafe::17]:4711\""), "2001:db8:cafe::17");
        assert_eq!(of("for=192.0.2.43, for=10.1.1.1"), "192.0.2.43");
        assert_eq!(of("for=_hidden"), "10.0.0.1");
        assert_eq!(of("proto=https"), "10.0.0.1");
    }
}
