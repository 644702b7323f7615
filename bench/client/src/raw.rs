//! A bare hyper client: what the same call costs with nothing but an HTTP library.

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::TEXT;

#[derive(Clone)]
pub(crate) struct Raw {
    client: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    /// Whether the reply is made JSON.
    parses: bool,
}

// === impl Raw ===

impl Raw {
    pub(crate) fn new(url: &str, parses: bool) -> anyhow::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, url: url.parse()?, parses })
    }

    pub(crate) async fn call(&self, number: usize) -> anyhow::Result<()> {
        let request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header("a2a-version", "1.0")
            .body(Full::new(Bytes::from(body(number))))?;
        let answer = self.client.request(request).await?;
        ensure!(answer.status().is_success(), "answered with {}", answer.status());
        let bytes = answer.into_body().collect().await?.to_bytes();
        if self.parses {
            let value: Value = serde_json::from_slice(&bytes)?;
            ensure!(value["result"]["task"].is_object(), "answered without a task");
        }
        ensure!(bytes.len() > TEXT.len(), "answered with {} bytes", bytes.len());
        Ok(())
    }
}

fn body(number: usize) -> String {
    let message = format!(
        r#"{{"messageId":"01930000-0000-7000-8000-{number:012x}","role":"ROLE_USER","parts":[{{"text":"{TEXT}"}}]}}"#
    );
    format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"SendMessage","params":{{"message":{message}}}}}"#)
}
