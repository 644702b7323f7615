//! The agent card as a document: derived from what is mounted, served with everything a cache wants.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use chancery_protocol::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, Error, ProtocolBinding,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sha2::{Digest, Sha256};

use super::body::Body;
use crate::relay::Relay;
use crate::spec::AgentSpec;
use crate::{IDEMPOTENCY_EXTENSION, USAGE_EXTENSION};

/// Where the card of an agent is found, below the URL it is mounted at.
pub const WELL_KNOWN_CARD: &str = "/.well-known/agent-card.json";

/// For how long a card may be used without asking again.
const CACHE_CONTROL: &str = "public, max-age=300";

/// A card, ready to be served.
#[derive(Debug)]
pub(crate) struct CardDocument {
    body: Bytes,
    etag: HeaderValue,
    last_modified: HeaderValue,
    modified: SystemTime,
}

/// Where gRPC is served, and the tenant by which it finds the agent.
#[derive(Debug)]
pub(crate) struct GrpcInterface<'a> {
    /// `host:port`.
    pub(crate) place: &'a str,
    /// Empty for the agent that needs none.
    pub(crate) tenant: &'a str,
}

/// The card of an agent that is mounted at a URL: every interface, capability and mode in it is really there.
pub(crate) fn derive(
    spec: &AgentSpec,
    url: &str,
    jsonrpc_path: &str,
    grpc: Option<&GrpcInterface<'_>>,
) -> AgentCard {
    let mut card = AgentCard::new(&*spec.name, &*spec.description, &*spec.version);
    card.supported_interfaces = interfaces(url, jsonrpc_path, grpc);
    card.capabilities = AgentCapabilities {
        streaming: Some(spec.streaming),
        push_notifications: Some(spec.push_notifications),
        extensions: extensions(spec),
        extended_agent_card: Some(spec.extended_card.is_some()),
    };
    card.provider.clone_from(&spec.provider);
    card.documentation_url.clone_from(&spec.documentation_url);
    card.default_input_modes.clone_from(&spec.input_modes);
    card.default_output_modes.clone_from(&spec.output_modes);
    card.skills.clone_from(&spec.skills);
    card
}

/// The card of an agent elsewhere that is served here: what it says about itself, and of what can be done with it only
/// what can be done here. Its signatures do not hold for that, and how to authenticate there is not how to here.
pub(crate) fn derive_relayed(
    relay: &Relay,
    url: &str,
    jsonrpc_path: &str,
    grpc: Option<&GrpcInterface<'_>>,
) -> AgentCard {
    let mut card = AgentCard::clone(&relay.card);
    card.supported_interfaces = interfaces(url, jsonrpc_path, grpc);
    card.capabilities.streaming = Some(true);
    card.capabilities.push_notifications = Some(relay.push_notifications);
    card.capabilities.extended_agent_card = Some(false);
    card.signatures.clear();
    for skill in &mut card.skills {
        skill.security_requirements.clear();
    }
    card
}

/// Every way to call an agent that is mounted at a URL.
fn interfaces(url: &str, jsonrpc_path: &str, grpc: Option<&GrpcInterface<'_>>) -> Vec<AgentInterface> {
    let jsonrpc = format!("{url}{}", jsonrpc_path.trim_end_matches('/'));
    let mut interfaces = vec![
        AgentInterface::new(jsonrpc, ProtocolBinding::JsonRpc),
        AgentInterface::new(url, ProtocolBinding::HttpJson),
    ];
    let named =
        |grpc: &GrpcInterface<'_>| AgentInterface::new(grpc.place, ProtocolBinding::Grpc).tenant(grpc.tenant);
    interfaces.extend(grpc.map(named));
    interfaces
}

/// What every agent of ours understands, and what this one adds.
fn extensions(spec: &AgentSpec) -> Vec<AgentExtension> {
    let mut idempotency = AgentExtension::new(IDEMPOTENCY_EXTENSION);
    idempotency.description =
        "A send with an Idempotency-Key header is run once, however often it is sent".to_owned();
    let mut usage = AgentExtension::new(USAGE_EXTENSION);
    usage.description =
        "The metadata of a task says what its turns consumed, if the agent reports it".to_owned();
    let ours = [idempotency, usage];
    let added = |known: &AgentExtension| spec.extensions.iter().all(|own| own.uri != known.uri);
    ours.into_iter().filter(added).chain(spec.extensions.iter().cloned()).collect()
}

impl CardDocument {
    pub(crate) fn new(card: &Arc<AgentCard>) -> Result<Self, Error> {
        let body = serde_json::to_vec(&**card).map_err(Error::internal)?;
        let digest = Sha256::digest(&body);
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let modified = SystemTime::now();
        let value = |text: String| HeaderValue::try_from(text).map_err(Error::internal);
        Ok(Self {
            body: body.into(),
            etag: value(format!("\"{hex}\""))?,
            last_modified: value(httpdate::fmt_http_date(modified))?,
            modified,
        })
    }

    /// Answers GET and HEAD; tells a client that has this card already that it does.
    pub(crate) fn respond(&self, method: &Method, headers: &HeaderMap) -> Response<Body> {
        let known = self.is_known(headers);
        let body = match known || *method == Method::HEAD {
            true => Body::empty(),
            false => Body::whole(self.body.clone()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
        headers.insert(header::ETAG, self.etag.clone());
        headers.insert(header::LAST_MODIFIED, self.last_modified.clone());
        if *method == Method::HEAD && !known {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        }
        response
    }

    /// `If-None-Match` decides; only without it does `If-Modified-Since`.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(header::IF_NONE_MATCH) {
            let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
            return tags.flat_map(|list| list.split(',')).map(str::trim).any(|tag| {
                tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == self.etag.as_bytes()
            });
        }
        let since = headers.get(header::IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
        let Some(since) = since.and_then(|text| httpdate::parse_http_date(text).ok()) else { return false };
        let seconds =
            |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        seconds(self.modified) <= seconds(since)
    }
}
