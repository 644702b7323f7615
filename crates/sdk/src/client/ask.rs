//! A request on its way: a short list of headers, which is all that is needed to write it down. A map is made of it only
//! for interceptors and for hyper.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

/// A request as it is to be sent.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Absolute.
    pub(crate) uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// Whether all headers of the answer are wanted, or only those that the answer to a call is read by.
    pub(crate) wants_all_headers: bool,
}

/// How many headers most requests have, at most.
const FEW: usize = 8;

impl Ask {
    pub(crate) fn new(method: Method, uri: Uri, body: Bytes) -> Self {
        Self { method, uri, headers: Vec::with_capacity(FEW), body, wants_all_headers: true }
    }

    /// Sets a header, in the place of what it was before.
    pub(crate) fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.headers.push((name, value)),
        }
    }

    /// In the order in which they are sent.
    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    pub(crate) fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl From<Ask> for Request<Bytes> {
    fn from(ask: Ask) -> Self {
        let mut request = Self::new(ask.body);
        *request.method_mut() = ask.method;
        *request.uri_mut() = ask.uri;
        request.headers_mut().extend(ask.headers);
        request
    }
}

impl From<Request<Bytes>> for Ask {
    fn from(request: Request<Bytes>) -> Self {
        let (head, body) = request.into_parts();
        // Some may be there more than once.
        let headers = head.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { method: head.method, uri: head.uri, headers, body, wants_all_headers: true }
    }
}
