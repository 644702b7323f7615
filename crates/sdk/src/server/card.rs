//! The agent card as a document: derived from what is mounted, served with everything a cache wants.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use chancery_protocol::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, Error, JsonObject,
    LINEAGE_EXTENSION, ProtocolBinding, SecurityRequirement, SecurityScheme, VERSION_HEADER, Version,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::body::Body;
use super::versions::Versions;
use crate::binding::head::query;
use crate::client::{CardSeen, UNREACHABLE};
use crate::dialect::v0_3;
use crate::egress::is_public_url;
use crate::relay::{Relay, is_ours_to_say};
use crate::spec::AgentSpec;
use crate::{IDEMPOTENCY_EXTENSION, PROVENANCE_EXTENSION, USAGE_EXTENSION};

/// Where the card of an agent is found, below the URL it is mounted at.
pub const WELL_KNOWN_CARD: &str = "/.well-known/agent-card.json";

/// Where the card of an agent is found, and where older clients look for it.
pub(crate) const CARD_PATHS: [&str; 2] = [WELL_KNOWN_CARD, "/.well-known/agent.json"];

/// Where the keys are found that cards are signed with, below the URL of the server.
pub const WELL_KNOWN_KEYS: &str = "/.well-known/jwks.json";

/// Signs the cards of a server. Written by whoever has keys: the SDK has none, nor does it do any cryptography.
pub trait CardSigner: Send + Sync + 'static {
    /// Puts signatures on a card, in the place of those that it has.
    fn sign(&self, card: &mut AgentCard) -> Result<(), Error>;

    /// Signatures over the JSON of a card, which has none yet, as it is served to readers of several versions: for those who verify what
    /// they have fetched without knowing what a field means. There are none unless the signer knows better.
    fn sign_served(&self, card: &AgentCard, json: &str) -> Result<Vec<AgentCardSignature>, Error> {
        let _ = (card, json);
        Ok(Vec::new())
    }

    /// The public keys, as a JSON Web Key Set (RFC 7517).
    fn published(&self) -> Vec<u8>;
}

/// For how long a card may be used without asking again.
const CACHE_CONTROL: &str = "public, max-age=300";

/// The card of an agent as its callers read it. It is written and signed when somebody first asks for it: a fleet has many
/// agents, and most of their cards nobody reads for a long time.
pub(crate) struct Cards {
    /// What is written, without signatures.
    pub(super) card: Arc<AgentCard>,
    /// The URIs of the extensions that the card names.
    pub(crate) extensions: Vec<String>,
    versions: Versions,
    signer: Option<Arc<dyn CardSigner>>,
    /// Since when the card says what it says.
    since: SystemTime,
    written: OnceLock<Written>,
    /// Held by whoever writes, so that nobody does the same beside.
    writing: Mutex<()>,
}

/// The card by the version that is spoken.
struct Written {
    /// Of v1.0, and nothing else.
    pure: CardDocument,
    /// The same, with what readers of v0.3 look for beside it; none if that version is not served.
    union: Option<CardDocument>,
}

/// A card, ready to be served.
struct CardDocument {
    body: Bytes,
    etag: HeaderValue,
    last_modified: HeaderValue,
    modified: SystemTime,
}

/// Where gRPC is served, and the tenant by which it finds the agent.
#[derive(Debug)]
pub(crate) struct GrpcInterface {
    /// `host:port`.
    pub(crate) place: String,
    /// Empty for the agent that needs none.
    pub(crate) tenant: String,
}

/// Where an agent is mounted, and how it can be called there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) jsonrpc_path: String,
    pub(crate) versions: Versions,
    pub(crate) grpc: Option<GrpcInterface>,
    /// The `host:port` at which gRPC is for this agent alone, if there is one.
    pub(crate) own_grpc: Option<String>,
    pub(crate) security: BTreeMap<String, SecurityScheme>,
    /// Whether callers may keep to themselves who they are.
    pub(crate) is_open: bool,
    /// Whether somebody looks at on whose behalf calls are made.
    pub(crate) reads_descent: bool,
    /// Whether whoever guards the agent shows each caller a card of its own.
    pub(crate) extends: bool,
}

/// The card of an agent that is mounted at a URL: every interface, capability and mode in it is really there.
pub(crate) fn derive(spec: &AgentSpec, place: &Place) -> AgentCard {
    let mut card = AgentCard::new(&*spec.name, &*spec.description, &*spec.version);
    card.capabilities = AgentCapabilities {
        streaming: Some(spec.streaming),
        push_notifications: Some(spec.push_notifications),
        extensions: extensions(spec),
        extended_agent_card: Some(place.extends || spec.extended_card.is_some()),
    };
    place.put_to(&mut card);
    card.provider.clone_from(&spec.provider);
    card.documentation_url.clone_from(&spec.documentation_url);
    card.default_input_modes.clone_from(&spec.input_modes);
    card.default_output_modes.clone_from(&spec.output_modes);
    card.skills.clone_from(&spec.skills);
    card
}

/// The card of an agent elsewhere that is served here: what it says about itself, and of what can be done with it only
/// what can be done here. Its signatures do not hold for that, and how to authenticate there is not how to here.
pub(crate) fn derive_relayed(relay: &Relay, seen: &CardSeen, place: &Place) -> AgentCard {
    let mut card = match &seen.card {
        Some(own) => AgentCard::clone(own),
        None => {
            let text = "The agent behind this one has shown no card that can be used yet, and is asked again";
            AgentCard::new(&*relay.name, text, "0.0.0")
        }
    };
    // What stands under our names is ours to say, where it comes from above all.
    card.capabilities.extensions.retain(|extension| !is_ours_to_say(&extension.uri));
    place.put_to(&mut card);
    card.capabilities.streaming = Some(true);
    card.capabilities.push_notifications = Some(relay.push_notifications);
    card.capabilities.extended_agent_card = Some(place.extends);
    card.capabilities.extensions.push(provenance(relay, seen));
    card.signatures.clear();
    // What only its own network can reach is of no use to callers, and tells them of that network.
    for url in [&mut card.documentation_url, &mut card.icon_url] {
        url.take_if(|url| !is_public_url(url));
    }
    card.provider.take_if(|provider| !provider.url.is_empty() && !is_public_url(&provider.url));
    for extension in common_extensions().into_iter().chain(relay.extensions.iter().cloned()) {
        card.capabilities.extensions.retain(|known| known.uri != extension.uri);
        card.capabilities.extensions.push(extension);
    }
    for skill in &mut card.skills {
        skill.security_requirements.clear();
    }
    card
}

/// Where the card of an agent elsewhere comes from, and how far it is believed.
fn provenance(relay: &Relay, seen: &CardSeen) -> AgentExtension {
    let error = seen.error.as_deref().or_else(|| seen.card.is_none().then_some(UNREACHABLE));
    let digest = seen.digest.as_ref().map(|digest| format!("sha-256:{digest}"));
    let found = [
        ("kind", Some("a2a")),
        ("trust_tier", Some(relay.trust_tier(seen))),
        ("upstream_key", seen.key.as_deref()),
        ("upstream_digest", digest.as_deref()),
        ("upstream_card_fetch_error", error),
    ];
    let mut params = serde_json::Map::new();
    for (name, value) in found.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        params.insert(name.to_owned(), value.into());
    }
    let mut provenance = AgentExtension::new(PROVENANCE_EXTENSION);
    provenance.description = "Where this card comes from".to_owned();
    provenance.params = JsonObject::parse(&serde_json::Value::from(params).to_string()).ok();
    provenance
}

impl Place {
    /// Writes into a card how the agent is called here, and how callers prove who they are.
    pub(super) fn put_to(&self, card: &mut AgentCard) {
        card.supported_interfaces = self.interfaces();
        card.security_schemes.clone_from(&self.security);
        let required = |name: &String| SecurityRequirement::default().and(name.as_str(), &[]);
        let required = self.security.keys().filter(|_| !self.is_open).map(required);
        card.security_requirements = required.collect();
        let extensions = &mut card.capabilities.extensions;
        if self.reads_descent && extensions.iter().all(|known| known.uri != LINEAGE_EXTENSION) {
            let mut lineage = AgentExtension::new(LINEAGE_EXTENSION);
            lineage.description =
                "A message may carry the lineage token of the task that it is sent for; the answer says where it stands"
                    .to_owned();
            extensions.push(lineage);
        }
    }

    /// Every way to call an agent that is mounted here.
    fn interfaces(&self) -> Vec<AgentInterface> {
        let jsonrpc = format!("{}{}", self.url, self.jsonrpc_path.trim_end_matches('/'));
        let mut interfaces = Vec::new();
        // The newest first: whoever speaks it is to take it.
        let served = |version: &Version| self.versions.serves(*version);
        for version in [Version::V1_0, Version::V0_3].into_iter().filter(served) {
            let named = version.to_string();
            for (url, binding) in
                [(&jsonrpc, ProtocolBinding::JsonRpc), (&self.url, ProtocolBinding::HttpJson)]
            {
                if self.versions.speaks(&binding) {
                    interfaces.push(AgentInterface::new(&**url, binding).version(&*named));
                }
            }
            if !self.versions.speaks(&ProtocolBinding::Grpc) {
                continue;
            }
            // v0.3 has no tenant to find the agent by.
            let can_be_found = |grpc: &&GrpcInterface| version == Version::V1_0 || grpc.tenant.is_empty();
            if let Some(grpc) = self.grpc.as_ref().filter(can_be_found) {
                let found = AgentInterface::new(&*grpc.place, ProtocolBinding::Grpc).version(&*named);
                interfaces.push(found.tenant(&*grpc.tenant));
            } else if let Some(place) = &self.own_grpc {
                interfaces.push(AgentInterface::new(&**place, ProtocolBinding::Grpc).version(&*named));
            }
        }
        if interfaces.is_empty() && self.versions.speaks(&ProtocolBinding::JsonRpc) {
            // Callers of v0.1 read no such list, and find the URL elsewhere; it is here for us, if there is nothing else.
            let version = Version::V0_1.to_string();
            interfaces.push(AgentInterface::new(jsonrpc, ProtocolBinding::JsonRpc).version(version));
        }
        interfaces
    }
}

/// What is understood here for every agent.
fn common_extensions() -> [AgentExtension; 2] {
    let mut idempotency = AgentExtension::new(IDEMPOTENCY_EXTENSION);
    idempotency.description =
        "A send with an Idempotency-Key header is run once, however often it is sent".to_owned();
    let mut usage = AgentExtension::new(USAGE_EXTENSION);
    usage.description =
        "The metadata of a task says what its turns consumed, if the agent reports it".to_owned();
    [idempotency, usage]
}

/// What every agent of ours understands, and what this one adds.
fn extensions(spec: &AgentSpec) -> Vec<AgentExtension> {
    let added = |known: &AgentExtension| spec.extensions.iter().all(|own| own.uri != known.uri);
    common_extensions().into_iter().filter(added).chain(spec.extensions.iter().cloned()).collect()
}

/// Whether a card is found at this path below an agent's.
pub(crate) fn is_card(path: &str) -> bool {
    CARD_PATHS.contains(&path)
}

/// Whether a request is for a card of some agent, for which nobody needs to show who they are: for whoever authenticates callers.
pub fn asks_for_card(head: &Parts) -> bool {
    let path = head.uri.path();
    (head.method == Method::GET || head.method == Method::HEAD)
        && CARD_PATHS.iter().any(|card| path.ends_with(card))
}

/// Answers who asks for the keys that cards are signed with.
pub(crate) fn respond_keys(signer: &dyn CardSigner, method: &Method) -> Response<Body> {
    let keys = Bytes::from(signer.published());
    let length = HeaderValue::from(keys.len());
    let body = if *method == Method::HEAD { Body::empty() } else { Body::whole(keys) };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    if *method == Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, length);
    }
    response
}

impl Cards {
    pub(crate) fn new(card: AgentCard, versions: &Versions, signer: Option<&Arc<dyn CardSigner>>) -> Self {
        let extensions = card.capabilities.extensions.iter().map(|known| known.uri.clone()).collect();
        Self {
            card: Arc::new(card),
            extensions,
            versions: versions.clone(),
            signer: signer.cloned(),
            since: SystemTime::now(),
            written: OnceLock::new(),
            writing: Mutex::new(()),
        }
    }

    fn written(&self) -> Result<&Written, Error> {
        if let Some(written) = self.written.get() {
            return Ok(written);
        }
        let _alone = self.writing.lock();
        if let Some(written) = self.written.get() {
            return Ok(written);
        }
        let written = self.write()?;
        Ok(self.written.get_or_init(|| written))
    }

    /// Writes the card, signed if there is somebody who signs.
    fn write(&self) -> Result<Written, Error> {
        let mut card = AgentCard::clone(&self.card);
        if let Some(signer) = &self.signer {
            signer.sign(&mut card)?;
        }
        let pure = serde_json::to_vec(&card).map_err(Error::internal)?;
        let mut union = None;
        let is_v0_1 = self.versions.serves(Version::V0_1);
        if self.versions.serves(Version::V0_3) || is_v0_1 {
            let mut body = Vec::new();
            if let Some(signer) = &self.signer {
                let unsigned = AgentCard { signatures: Vec::new(), ..card.clone() };
                v0_3::card::write_union(&mut body, &unsigned, is_v0_1)?;
                let json = String::from_utf8(std::mem::take(&mut body)).map_err(Error::internal)?;
                card.signatures.extend(signer.sign_served(&unsigned, &json)?);
            }
            v0_3::card::write_union(&mut body, &card, is_v0_1)?;
            union = Some(CardDocument::new(body, self.since)?);
        }
        Ok(Written { pure: CardDocument::new(pure, self.since)?, union })
    }

    /// Answers GET and HEAD. Who does not say that it speaks v1.0 may be somebody who does not know it.
    pub(crate) fn respond(&self, head: &Parts) -> Result<Response<Body>, Error> {
        let header = head.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        let asked = match header {
            Some(asked) => Version::parse(asked.trim()),
            None => query(head)
                .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER))
                .and_then(|(_, value)| Version::parse(&value)),
        };
        let written = self.written()?;
        let document = match &written.union {
            Some(union) if asked.is_none_or(|version| version < Version::V1_0) => union,
            _ => &written.pure,
        };
        Ok(document.respond(&head.method, &head.headers))
    }

    /// Appends the card that older callers read.
    pub(crate) fn write_old(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Written { pure, union } = self.written()?;
        out.extend_from_slice(&union.as_ref().unwrap_or(pure).body);
        Ok(())
    }
}

impl CardDocument {
    fn new(body: Vec<u8>, modified: SystemTime) -> Result<Self, Error> {
        let digest = Sha256::digest(&body);
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let value = |text: String| HeaderValue::try_from(text).map_err(Error::internal);
        Ok(Self {
            body: body.into(),
            etag: value(format!("\"{hex}\""))?,
            last_modified: value(httpdate::fmt_http_date(modified))?,
            modified,
        })
    }

    /// Answers GET and HEAD; tells a client that has this card already that it does.
    fn respond(&self, method: &Method, headers: &HeaderMap) -> Response<Body> {
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
        headers.insert(header::VARY, HeaderValue::from_static("A2A-Version"));
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
