//! Which addresses anybody on the internet may reach: the special-purpose registries of IANA as a table.
//!
//! Only what the registries call globally reachable is, and of that only unicast. An address that carries an
//! IPv4 address inside is judged by how it is written: NAT64 reaches what is inside, so that decides; the
//! other forms have no use here and are refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, written `10.0.0.0/8` or `fd00::/8`; a single address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text is not a range of addresses.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a range of addresses: write 10.0.0.0/8 or fd00::/8, without bits beyond the prefix")]
pub struct InvalidPrefix {
    text: String,
}

/// What an address is reserved for, if it is not anybody's to reach.
pub(super) fn reserved_for(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let found = SPECIAL_V4.iter().find(|(start, length, _)| v4(*start, *length).contains(address.into()));
    found.map(|(.., purpose)| *purpose)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if v6(NAT64, 96).contains(address.into()) {
        let [.., a, b, c, d] = address.octets();
        return special_v4(Ipv4Addr::new(a, b, c, d)).map(|_| "NAT64 of a reserved address");
    }
    let found = SPECIAL_V6.iter().find(|(start, length, _)| v6(*start, *length).contains(address.into()));
    match found {
        Some((.., purpose)) => Some(purpose),
        None if v6(GLOBAL_UNICAST, 3).contains(address.into()) => None,
        None => Some("not global unicast"),
    }
}

const NAT64: [u16; 8] = [0x64, 0xff9b, 0, 0, 0, 0, 0, 0];
/// All that has been given out so far.
const GLOBAL_UNICAST: [u16; 8] = [0x2000, 0, 0, 0, 0, 0, 0, 0];

/// Where the registry is finer than this, the rest of the block is protocol machinery that serves no HTTP.
const SPECIAL_V4: [([u8; 4], u8, &str); 16] = [
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private use"),
    ([100, 64, 0, 0], 10, "shared address space"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link local"),
    ([172, 16, 0, 0], 12, "private use"),
    ([192, 0, 0, 0], 24, "protocol assignments"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([192, 88, 99, 0], 24, "6to4 relay"),
    ([192, 168, 0, 0], 16, "private use"),
    ([198, 18, 0, 0], 15, "benchmarking"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

const SPECIAL_V6: [([u16; 8], u8, &str); 17] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "IPv4-mapped"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "IPv4-compatible"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "local NAT64"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard only"),
    ([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "dummy prefix"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "protocol assignments"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique local"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
];

const fn v4(start: [u8; 4], length: u8) -> Prefix {
    let [a, b, c, d] = start;
    Prefix { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
}

const fn v6(start: [u16; 8], length: u8) -> Prefix {
    let [a, b, c, d, e, f, g, h] = start;
    Prefix { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length }
}

// === impl Prefix ===

impl Prefix {
    /// The machine itself: `127.0.0.0/8`.
    pub const LOOPBACK_V4: Self = v4([127, 0, 0, 0], 8);
    /// The machine itself: `::1`.
    pub const LOOPBACK_V6: Self = v6([0, 0, 0, 0, 0, 0, 0, 1], 128);

    /// Whether an address is in this range. An IPv4 address is in no range of IPv6, however it may be written.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, width) = match (self.address, address) {
            (IpAddr::V4(start), IpAddr::V4(address)) => (u128::from(start.to_bits() ^ address.to_bits()), 32),
            (IpAddr::V6(start), IpAddr::V6(address)) => (start.to_bits() ^ address.to_bits(), 128),
            _ => return false,
        };
        bits.checked_shr(width - u32::from(self.length)).unwrap_or_default() == 0
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix { text: text.to_owned() };
        let (address, length) = match text.split_once('/') {
            None => (text, None),
            Some((address, length)) => (address, Some(length)),
        };
        let whole = Self::from(IpAddr::from_str(address).map_err(|_| invalid())?);
        let Some(length) = length else { return Ok(whole) };
        let length: u8 = length.parse().map_err(|_| invalid())?;
        let beyond = match whole.address {
            IpAddr::V4(address) => address.to_bits().checked_shl(length.into()).unwrap_or_default() != 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(length.into()).unwrap_or_default() != 0,
        };
        if length > whole.length || beyond { Err(invalid()) } else { Ok(Self { length, ..whole }) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_holds_what_it_says_and_no_more() {
        let table = [
            ("10.0.0.0/8", "10.255.255.255", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::", false),
            ("::/0", "ffff::", true),
            ("::/0", "1.2.3.4", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("fd00::/8", "fdff:ffff::1", true),
            ("fd00::/8", "fc00::1", false),
            ("2001:db8::/33", "2001:db8:7fff::", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
        ];
        for (range, inside, expected) in table {
            assert_eq!(prefix(range).contains(address(inside)), expected, "{range} {inside}");
            assert_eq!(prefix(&prefix(range).to_string()), prefix(range));
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        let table = [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10/8",
            "::/129",
            "fd00::1/8",
            "a",
            "1.2.3.4/-1",
        ];
        for text in table {
            let error = Prefix::from_str(text).unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    /// First and last address of every range, and their neighbours outside.
    #[test]
    fn the_edges_of_the_registries_are_exact() {
        let edges = [
            ("1.0.0.0", None),
            ("0.255.255.255", Some("this network")),
            ("9.255.255.255", None),
            ("10.0.0.0", Some("private use")),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.0", Some("shared address space")),
            ("100.127.255.255", Some("shared address space")),
            ("100.128.0.0", None),
            ("126.255.255.255", None),
            ("127.255.255.255", Some("loopback")),
            ("128.0.0.0", None),
            ("169.253.255.255", None),
            ("169.254.169.254", Some("link local")),
            ("169.255.0.0", None),
            ("172.15.255.255", None),
            ("172.16.0.0", Some("private use")),
            ("172.31.255.255", Some("private use")),
            ("172.32.0.0", None),
            ("192.0.0.255", Some("protocol assignments")),
            ("192.0.1.0", None),
            ("192.31.196.1", None),
            ("192.52.193.1", None),
            ("192.88.99.1", Some("6to4 relay")),
            ("192.167.255.255", None),
            ("192.169.0.0", None),
            ("198.17.255.255", None),
            ("198.19.255.255", Some("benchmarking")),
            ("198.20.0.0", None),
            ("223.255.255.255", None),
            ("224.0.0.0", Some("multicast")),
            ("239.255.255.255", Some("multicast")),
            ("240.0.0.0", Some("reserved")),
            ("255.255.255.254", Some("reserved")),
            ("255.255.255.255", Some("broadcast")),
            ("::2", Some("IPv4-compatible")),
            ("::ffff:8.8.8.8", Some("IPv4-mapped")),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b::10.0.0.1", Some("NAT64 of a reserved address")),
            ("64:ff9b:0:1::1", Some("not global unicast")),
            ("1fff::1", Some("not global unicast")),
            ("2000::1", None),
            ("2001:0:1::", Some("Teredo")),
            ("2001:1ff::1", Some("protocol assignments")),
            ("2001:200::1", None),
            ("2001:db7:ffff::1", None),
            ("2001:db9::1", None),
            ("2606:4700::1111", None),
            ("3ffe:ffff::1", None),
            ("3fff:fff::1", Some("documentation")),
            ("3fff:1000::1", None),
            ("4000::1", Some("not global unicast")),
            ("fe7f::1", Some("not global unicast")),
            ("febf::1", Some("link local")),
            ("feff::1", Some("site local")),
        ];
        for (text, purpose) in edges {
            assert_eq!(reserved_for(address(text)), purpose, "{text}");
        }
    }
}
