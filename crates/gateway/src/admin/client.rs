//! The other side of the desk: one request to the gateway that runs with a data directory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::Door;

/// How much is read of an answer, and how long it is waited for.
const LARGEST: usize = 64 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the gateway that runs with this data directory.
pub(crate) async fn ask(
    data: &Path,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<Bytes> {
    let door = Door::find(data)?;
    let asked = tokio::time::timeout(PATIENCE, exchange(&door, method, path, body)).await;
    let (status, answer) = asked
        .map_err(|_| anyhow!("no answer within {PATIENCE:?}"))
        .flatten()
        .with_context(|| format!("cannot ask the gateway at {}; is it running?", door.url()))?;
    if status.is_success() {
        return Ok(answer);
    }
    let told = serde_json::from_slice::<Value>(&answer).ok();
    match told.as_ref().and_then(|told| told["error"].as_str()) {
        Some(why) => bail!("{why}"),
        None => bail!("the gateway answers {status}"),
    }
}

async fn exchange(
    door: &Door,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let address = door.url().strip_prefix("http://").unwrap_or_default();
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let running = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, address)
        .header(AUTHORIZATION, format!("Bearer {}", door.token()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let answer = Limited::new(response.into_body(), LARGEST).collect().await;
    running.abort();
    Ok((status, answer.map_err(|error| anyhow!(error))?.to_bytes()))
}
