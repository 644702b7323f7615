//! One request, one connection.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same to whoever looks at it: what may differ is when it was made, and how many came before.
    pub(crate) fn looks(&self) -> (u16, Vec<(String, String)>, &str) {
        let differs = ["date", "ratelimit-remaining", "ratelimit-reset"];
        let named = self.headers.iter().filter(|(name, _)| !differs.contains(&name.as_str()));
        let headers = named.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
        (self.status, headers, &self.text)
    }
}

pub(crate) async fn get(url: &str, headers: &[(&str, &str)]) -> Answer {
    request(Method::GET, url, headers, "").await
}

pub(crate) async fn post(url: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    request(Method::POST, url, headers, &body.to_string()).await
}

pub(crate) async fn request(method: Method, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let uri: http::Uri = url.parse().expect("a URL");
    let authority = uri.authority().expect("a host").to_string();
    let stream = TcpStream::connect(&authority).await.expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
    let connection = tokio::spawn(connection);
    let path = uri.path_and_query().expect("a path").to_string();
    let mut request = Request::builder().method(method).uri(path).header("host", authority);
    if !body.is_empty() && headers.iter().all(|(name, _)| *name != "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body.to_owned())).expect("a request");
    let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
    let bytes = body.collect().await.expect("a whole answer").to_bytes();
    connection.abort();
    let text = String::from_utf8(bytes.to_vec()).expect("a text");
    Answer { status: head.status.as_u16(), headers: head.headers, text }
}

/// Answers every request with the same JSON. Gives its URL.
pub(crate) async fn always(json: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let json = json.clone();
            let answer = hyper::service::service_fn(move |_| {
                let body = Full::new(Bytes::from(json.clone()));
                async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
            });
            let serving =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            tokio::spawn(serving);
        }
    });
    url
}
