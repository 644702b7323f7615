//! The agent's card: where it is, what it says, and for how long it may be kept.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::Value;

use super::http::{Answer, Http, excerpt};
use super::report::{Outcome, Stop, ensure, failed, skipped};
use super::{Check, check, shape};

/// Where the card is, and what was found there.
pub(super) struct Site {
    pub(super) http: Arc<Http>,
    url: String,
    headers: HeaderMap,
    found: Result<(Answer, Value), Stop>,
}

pub(super) static CHECKS: &[Check<Site>] = &[
    check!("card.found", Must, "the card is JSON at /.well-known/agent-card.json", found),
    check!("card.complete", Must, "the card has all that is required", complete),
    check!("card.interfaces", Must, "interfaces have absolute URLs and versions of two numbers", interfaces),
    check!("card.spoken", Must, "an interface is JSON-RPC or HTTP+JSON in version 1.0", spoken),
    check!("card.kept", Should, "the card says how long it may be kept, and has an ETag", kept),
    check!("card.confirmed", Should, "a card that is still the same is not sent again", confirmed),
];

impl Site {
    /// Looks at the card. What is wrong with how the run was put together counts as not finding it.
    pub(super) async fn visit(http: Http, url: String, headers: HeaderMap, problems: &[String]) -> Self {
        let mut site = Self { http: Arc::new(http), url, headers, found: skipped("not looked at yet") };
        site.found = match problems {
            [] => site.look(&site.headers).await.and_then(|answer| answer.json().map(|card| (answer, card))),
            problems => failed(problems.join("; ")),
        };
        site
    }

    async fn look(&self, headers: &HeaderMap) -> Result<Answer, Stop> {
        let url = match self.url.ends_with(".json") {
            true => self.url.clone(),
            false => format!("{}{}", self.url, crate::server::WELL_KNOWN_CARD),
        };
        self.http.fetch(&Method::GET, &url, headers, String::new()).await
    }

    pub(super) fn card(&self) -> Option<&Value> {
        self.found.as_ref().ok().map(|(_, card)| card)
    }

    fn known(&self) -> Result<&(Answer, Value), Stop> {
        self.found.as_ref().map_err(|_| Stop::Skipped("there is no card".to_owned()))
    }
}

async fn found(site: &Site) -> Outcome {
    let (answer, _) = site.found.as_ref().map_err(Stop::clone)?;
    ensure(answer.status() == 200 && answer.is_json(), || answer.excerpt())
}

async fn complete(site: &Site) -> Outcome {
    let (_, card) = site.known()?;
    match shape::AGENT_CARD.problem(card) {
        None => Ok(()),
        Some(problem) => failed(format!("{problem}: {}", excerpt(&card.to_string()))),
    }
}

fn all_interfaces(card: &Value) -> &[Value] {
    card["supportedInterfaces"].as_array().map_or(&[], Vec::as_slice)
}

async fn interfaces(site: &Site) -> Outcome {
    let (_, card) = site.known()?;
    for interface in all_interfaces(card) {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let version = interface["protocolVersion"].as_str().and_then(|version| version.split_once('.'));
        let good = version.is_some_and(|(major, minor)| number(major) && number(minor));
        ensure(good, || format!("the version is not two numbers: {interface}"))?;
        if interface["protocolBinding"] == "GRPC" {
            continue;
        }
        let url = interface["url"].as_str().and_then(|url| url.parse::<Uri>().ok());
        let absolute = url.is_some_and(|url| url.scheme().is_some() && url.host().is_some());
        ensure(absolute, || format!("the URL is not absolute: {interface}"))?;
    }
    Ok(())
}

async fn spoken(site: &Site) -> Outcome {
    let (_, card) = site.known()?;
    let is_spoken = |interface: &Value| {
        interface["protocolVersion"] == "1.0"
            && ["JSONRPC", "HTTP+JSON"].iter().any(|name| interface["protocolBinding"] == *name)
    };
    if all_interfaces(card).iter().any(is_spoken) {
        return Ok(());
    }
    skipped(format!("none is, so nothing more can be checked: {}", card["supportedInterfaces"]))
}

async fn kept(site: &Site) -> Outcome {
    let (answer, _) = site.known()?;
    let control = answer.header("cache-control").unwrap_or_default();
    ensure(control.contains("max-age="), || format!("Cache-Control is `{control}`"))?;
    let etag = answer.header("etag").unwrap_or_default();
    ensure(etag.ends_with('"') && etag.contains('"'), || format!("ETag is `{etag}`"))
}

async fn confirmed(site: &Site) -> Outcome {
    let (answer, _) = site.known()?;
    let Some(etag) = answer.header("etag") else { return skipped("the card has no ETag") };
    let Ok(etag) = HeaderValue::from_str(etag) else { return failed("the ETag is no header value") };
    let mut headers = site.headers.clone();
    headers.insert(header::IF_NONE_MATCH, etag);
    let again = site.look(&headers).await?;
    ensure(again.status() == 304 && again.body.is_empty(), || again.excerpt())
}
