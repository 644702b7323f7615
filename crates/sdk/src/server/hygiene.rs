//! Requests that two parsers could read differently, refused before anything else looks at them.

use http::request::Parts;
use http::{Version, header};

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
    if host.is_none() && head.version == Version::HTTP_11 && head.uri.authority().is_none() {
        return Some("a request has a Host header");
    }
    if let (Some(host), Some(authority)) = (host, head.uri.authority())
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
    {
        return Some("the Host header and the request target disagree");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn refused(request: http::request::Builder) -> bool {
        problem(&request.body(()).unwrap().into_parts().0).is_some()
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
        assert!(!refused(get().version(Version::HTTP_2)));
    }
}
