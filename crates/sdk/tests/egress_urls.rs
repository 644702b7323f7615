//! URLs that strangers send: which are refused, and why, before anything is resolved.

#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

use chancery_sdk::egress::{Egress, Refused};

/// What is wrong with a URL, in a word.
fn reason(refused: &Refused) -> &'static str {
    match refused {
        Refused::NotAUrl => "not a url",
        Refused::Scheme => "scheme",
        Refused::NotHttps => "not https",
        Refused::UserInfo => "user",
        Refused::NoHost => "no host",
        Refused::HostName => "name",
        Refused::TrailingDot => "dot",
        Refused::NumericHost => "number",
        Refused::ZoneId => "zone",
        Refused::Port => "port",
        Refused::Localhost => "localhost",
        Refused::Address { purpose, .. } => purpose,
        _ => "unknown",
    }
}

const HOSTILE: [(&str, &str); 107] = [
    // No URL at all, or none that can be dialled.
    ("", "not a url"),
    ("hook", "not a url"),
    ("/hook", "not a url"),
    ("//receiver.example/hook", "not a url"),
    ("receiver.example:443", "not a url"),
    ("http://", "not a url"),
    ("http:///hook", "not a url"),
    ("http:receiver.example", "not a url"),
    ("http://receiver.example/a b", "not a url"),
    ("http://receiver.example\r\nHost: x/", "not a url"),
    ("http://receiver.example\t/", "not a url"),
    ("http://bücher.example/", "not a url"),
    ("http://①②⑦.⓪.⓪.①/", "not a url"),
    ("http://127。0。0。1/", "not a url"),
    ("http://receiver.example\\@127.0.0.1/", "not a url"),
    ("http://[::1/", "not a url"),
    ("http://::1/", "not a url"),
    ("http://[fe80::1%25eth0]/", "zone"),
    ("http://[fe80::1%eth0]/", "zone"),
    ("ftp://receiver.example/", "scheme"),
    ("gopher://127.0.0.1:6379/_INFO", "scheme"),
    ("ws://receiver.example/", "scheme"),
    ("javascript://receiver.example/%0aalert(1)", "scheme"),
    ("unix://var/run/docker.sock", "scheme"),
    ("file://localhost/etc/passwd", "scheme"),
    ("http://user@receiver.example/", "user"),
    ("http://user:secret@receiver.example/", "user"),
    ("http://receiver.example@127.0.0.1/", "user"),
    ("http://@127.0.0.1/", "user"),
    // Hosts that some read as names and some as addresses.
    ("http://2130706433/", "number"),
    ("http://0/", "number"),
    ("http://017700000001/", "number"),
    ("http://0x7f000001/", "number"),
    ("http://0x7f.1/", "number"),
    ("http://0X7F.0.0.0x1/", "number"),
    ("http://127.1/", "number"),
    ("http://127.0.1/", "number"),
    ("http://0177.0.0.1/", "number"),
    ("http://127.0.0.01/", "number"),
    ("http://127.0.0.0x/", "number"),
    ("http://1.1.1.256/", "number"),
    ("http://1.1.1.1.1/", "number"),
    ("http://receiver.example.1/", "number"),
    ("http://99999999999999999999/", "number"),
    ("http://127.0.0.1./", "dot"),
    ("http://localhost./", "dot"),
    ("http://receiver.example./", "dot"),
    ("http://./", "dot"),
    ("http://127%2e0%2e0%2e1/", "not a url"),
    ("http://%6c%6f%63alhost/", "not a url"),
    ("http://receiver..example/", "name"),
    ("http://.example/", "name"),
    ("http://a!b.example/", "name"),
    ("http://[v1.abc]/", "name"),
    ("http://[127.0.0.1]/", "name"),
    ("http://localhost/", "localhost"),
    ("https://LOCALHOST:8443/", "localhost"),
    ("http://any.thing.localhost/", "localhost"),
    // Ports.
    ("http://receiver.example:0/", "port"),
    ("http://receiver.example:22/", "port"),
    ("http://receiver.example:25/", "port"),
    ("https://receiver.example:6379/", "port"),
    ("http://receiver.example:65536/", "port"),
    ("http://receiver.example:99999/", "port"),
    ("http://receiver.example:/", "port"),
    // Addresses that are not for everybody.
    ("http://0.0.0.0/", "this network"),
    ("http://0.1.2.3/", "this network"),
    ("http://10.0.0.1/", "private use"),
    ("http://100.64.0.1/", "shared address space"),
    ("http://127.0.0.1:8080/", "loopback"),
    ("https://127.8.8.8/", "loopback"),
    ("http://169.254.169.254/latest/meta-data/", "link local"),
    ("http://172.16.0.1/", "private use"),
    ("http://192.0.0.1/", "protocol assignments"),
    ("http://192.0.2.1/", "documentation"),
    ("http://192.88.99.1/", "6to4 relay"),
    ("http://192.168.0.1/", "private use"),
    ("http://198.18.0.1/", "benchmarking"),
    ("http://198.51.100.1/", "documentation"),
    ("http://203.0.113.1/", "documentation"),
    ("http://224.0.0.1/", "multicast"),
    ("http://240.0.0.1/", "reserved"),
    ("http://255.255.255.255/", "broadcast"),
    ("http://[::]/", "unspecified"),
    ("http://[::1]/", "loopback"),
    ("http://[0:0:0:0:0:0:0:1]:8080/", "loopback"),
    ("http://[::ffff:127.0.0.1]/", "IPv4-mapped"),
    ("http://[::ffff:7f00:1]/", "IPv4-mapped"),
    ("http://[::ffff:8.8.8.8]/", "IPv4-mapped"),
    ("http://[::127.0.0.1]/", "IPv4-compatible"),
    ("http://[::ffff:0:127.0.0.1]/", "not global unicast"),
    ("http://[64:ff9b::127.0.0.1]/", "NAT64 of a reserved address"),
    ("http://[64:ff9b::a9fe:a9fe]/", "NAT64 of a reserved address"),
    ("http://[64:ff9b:1::8.8.8.8]/", "local NAT64"),
    ("http://[100::1]/", "discard only"),
    ("http://[100:0:0:1::1]/", "dummy prefix"),
    ("http://[2001::1]/", "Teredo"),
    ("http://[2001:2::1]/", "protocol assignments"),
    ("http://[2001:db8::1]/", "documentation"),
    ("http://[2002:7f00:1::]/", "6to4"),
    ("http://[3fff::1]/", "documentation"),
    ("http://[5f00::1]/", "segment routing"),
    ("http://[fc00::1]/", "unique local"),
    ("http://[fd00:ec2::254]/", "unique local"),
    ("http://[fe80::1]/", "link local"),
    ("http://[fec0::1]/", "site local"),
    ("http://[ff02::1]/", "multicast"),
];

#[test]
fn hostile_urls_are_refused_with_their_reason() {
    let egress = Egress::default();
    for (url, expected) in HOSTILE {
        match egress.check(url) {
            Ok(checked) => panic!("{url} was taken for {checked:?}"),
            Err(refused) => assert_eq!(reason(&refused), expected, "{url}"),
        }
    }
    let long = format!("http://{}.example/", "a".repeat(64));
    assert_eq!(egress.check(&long).unwrap_err(), Refused::HostName);
    let longer = format!("http://{}example/", "a.".repeat(124));
    assert_eq!(egress.check(&longer).unwrap_err(), Refused::HostName);
}

#[test]
fn good_urls_are_taken() {
    let egress = Egress::default();
    let table = [
        ("https://receiver.example/hook", "receiver.example:443"),
        ("http://receiver.example", "receiver.example:80"),
        ("HTTPS://Receiver.Example:8443/a?b=c", "receiver.example:8443"),
        ("http://a_b.xn--bcher-kva.example/", "a_b.xn--bcher-kva.example:80"),
        ("http://1.2.3.example/", "1.2.3.example:80"),
        ("http://8.8.8.8/", "8.8.8.8:80"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]:443"),
        ("https://[64:ff9b::8.8.8.8]/", "[64:ff9b::808:808]:443"),
        ("http://notlocalhost/", "notlocalhost:80"),
        ("http://localhost.example/", "localhost.example:80"),
    ];
    for (url, authority) in table {
        assert_eq!(egress.check(url).unwrap().authority(), authority, "{url}");
    }
}

#[test]
fn what_is_allowed_is_allowed_and_nothing_beside_it() {
    let egress = Egress::default().allow("10.1.0.0/16".parse().unwrap()).allow("fd00::/8".parse().unwrap());
    for url in ["http://10.1.255.255/", "http://[fd12::1]/", "http://8.8.8.8/", "http://receiver.example/"] {
        assert!(egress.check(url).is_ok(), "{url}");
    }
    let table = ["http://10.2.0.0/", "http://[fc12::1]/", "http://[::ffff:10.1.0.1]/", "http://localhost/"];
    for url in table {
        assert!(egress.check(url).is_err(), "{url}");
    }
    // Who allows the addresses of this machine allows its name; ports of others stay refused.
    let loopback = Egress::default().allow("127.0.0.0/8".parse().unwrap());
    assert!(loopback.check("http://localhost:8080/").is_ok());
    assert_eq!(loopback.check("http://127.0.0.1:22/").unwrap_err(), Refused::Port);
}

#[test]
fn a_policy_can_be_looser_or_stricter() {
    let unrestricted = Egress::unrestricted();
    for url in ["http://10.0.0.1/", "http://localhost:22/", "http://[::1]/", "https://169.254.169.254/"] {
        assert!(unrestricted.check(url).is_ok(), "{url}");
    }
    // Which spelling is meant is no question of trust.
    for url in ["http://0x7f000001/", "http://a@b/", "http://localhost./", "ftp://a/"] {
        assert!(unrestricted.check(url).is_err(), "{url}");
    }
    let https = Egress::default().https_only();
    assert_eq!(https.check("http://receiver.example/").unwrap_err(), Refused::NotHttps);
    assert!(https.check("https://receiver.example/").is_ok());
}

#[test]
fn a_refusal_does_not_repeat_the_url() {
    for url in ["ftp://hush.example/", "http://u:hush@a.example/", "http://hush..example/", "http://hush./"] {
        let refused = Egress::default().check(url).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("hush"), "{refused}");
    }
}
