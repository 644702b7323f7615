//! Requests that two parsers could read differently, refused before anything else looks at them.

use std::net::Ipv6Addr;

use http::header;
use http::request::Parts;
use http::uri::Authority;

use super::framing::Ambiguous;

/// What is wrong with the head of a request.
pub(super) fn problem(head: &Parts) -> Option<&'static str> {
    let headers = &head.headers;
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(encoding) = encodings.next() {
        // Behind our own listener hyper drops the length, and the connection has seen it.
        let was_seen = head.extensions.get::<Ambiguous>().is_some_and(Ambiguous::is_so);
        if was_seen || headers.contains_key(header::CONTENT_LENGTH) {
            return Some("a request has a Content-Length or a Transfer-Encoding, not both");
        }
        let is_chunked = encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || encodings.next().is_some() {
            return Some("a request has no Transfer-Encoding but `chunked`");
        }
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Some("a request has one Host header");
    }
    if host.is_none() && head.uri.authority().is_none() {
        return Some("a request has a Host header, or an :authority");
    }
    let said =
        [host.map(|host| host.to_str().unwrap_or_default()), head.uri.authority().map(Authority::as_str)];
    if said.into_iter().flatten().any(|said| host_of(said).is_none()) {
        return Some("the Host of a request is a name or an address, and a port if there is one");
    }
    if let (Some(host), Some(authority)) = (host, head.uri.authority())
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
    {
        return Some("the Host header and the request target disagree");
    }
    None
}

/// The host of what a request calls the server: of an authority that everybody reads alike.
pub(super) fn host_of(said: &str) -> Option<&str> {
    let authority: Authority = said.parse().ok()?;
    // A user is no part of a Host, and before the host nothing else can stand.
    let host = said.get(..authority.host().len()).filter(|host| *host == authority.host())?;
    let port = match said[host.len()..].strip_prefix(':') {
        Some(port) => port,
        None if said.len() == host.len() => "",
        None => return None,
    };
    let is_port =
        port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    (is_port && is_host).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Version};

    fn refused(request: http::request::Builder) -> bool {
        problem(&request.body(()).unwrap().into_parts().0).is_some()
    }

    #[test]
    fn a_host_is_one_that_everybody_reads_alike() {
        for (said, host) in [
            ("a", "a"),
            ("a.example:80", "a.example"),
            ("a.example.:", "a.example."),
            ("127.0.0.1:65535", "127.0.0.1"),
            ("[::1]:9", "[::1]"),
            ("[fd00::1]", "[fd00::1]"),
        ] {
            assert_eq!(host_of(said), Some(host), "{said}");
        }
        for said in [
            "",
            ":80",
            "a b",
            "a@b",
            "@a",
            "a/b",
            "127.0.0.1:28100,evil.com",
            "127.0.0.1,evil.com",
            "[::1",
            "[::1]x",
            "[x]",
            "::1",
            "a:b",
            "a:+80",
            "a:65536",
            "a:1:2",
        ] {
            assert_eq!(host_of(said), None, "{said}");
            assert!(refused(Request::get("/").header("host", said)), "{said}");
        }
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        let get = || Request::get("/");
        assert!(!refused(get().header("host", "a")));
        assert!(refused(get()));
        assert!(refused(get().header("host", "a").header("host", "a")));
        assert!(refused(
            get().header("host", "a").header("content-length", "1").header("transfer-encoding", "chunked")
        ));
        assert!(!refused(get().header("host", "a").header("transfer-encoding", "Chunked ")));
        for encoding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked"] {
            assert!(refused(get().header("host", "a").header("transfer-encoding", encoding)), "{encoding}");
        }
        assert!(refused(Request::get("http://b/").header("host", "a")));
        assert!(!refused(Request::get("http://A/").header("host", "a")));
        for version in [Version::HTTP_10, Version::HTTP_2] {
            assert!(refused(get().version(version)), "{version:?}");
            assert!(!refused(get().version(version).header("host", "a")), "{version:?}");
        }
    }
}
