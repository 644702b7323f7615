//! The card of v0.3, and of v0.1 before it, written beside the one of v1.0 into the same object: each side passes over what
//! it does not know.

use std::collections::BTreeMap;

use chancery_protocol::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentInterface, AgentProvider, AgentSkill, Error,
    OAuthFlows, ProtocolBinding, SecurityRequirement, SecurityScheme, Version, write_json,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// What a card of v0.3 calls its version.
const PROTOCOL_VERSION: &str = "0.3.0";

/// Appends a card that readers of v1.0 and of v0.3 both understand, and those of v0.1 if that is served.
pub(crate) fn write_union(out: &mut Vec<u8>, card: &AgentCard, is_v0_1: bool) -> Result<(), Error> {
    write_json(out, &Union::of(card, is_v0_1)).map_err(Error::internal)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Union<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'static str>,
    name: &'a str,
    description: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    additional_interfaces: Vec<OlderInterface<'a>>,
    supported_interfaces: &'a [AgentInterface],
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a AgentProvider>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation_url: Option<&'a str>,
    capabilities: &'a AgentCapabilities,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    security_schemes: BTreeMap<&'a str, UnionScheme<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    security_requirements: &'a [SecurityRequirement],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<OlderRequirement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication<'a>>,
    default_input_modes: &'a [String],
    default_output_modes: &'a [String],
    skills: Vec<UnionSkill<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    supports_authenticated_extended_card: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    signatures: &'a [AgentCardSignature],
    #[serde(skip_serializing_if = "Option::is_none")]
    icon_url: Option<&'a str>,
}

/// How v0.1 says what others say with schemes: by their names. Some of its readers want it there, though it be empty.
#[derive(Serialize)]
struct Authentication<'a> {
    schemes: Vec<&'a str>,
}

#[derive(Serialize)]
struct OlderInterface<'a> {
    url: &'a str,
    transport: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnionSkill<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    examples: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    input_modes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    output_modes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    security_requirements: &'a [SecurityRequirement],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<OlderRequirement<'a>>,
}

/// The scopes by the names of the schemes, without anything around them.
type OlderRequirement<'a> = BTreeMap<&'a str, &'a [String]>;

/// A scheme as OpenAPI writes it, with the member of v1.0 beside that.
struct UnionScheme<'a>(&'a SecurityScheme);

/// One flow, its scopes always there.
struct OlderFlows<'a>(&'a OAuthFlows);

impl<'a> Union<'a> {
    fn of(card: &'a AgentCard, is_v0_1: bool) -> Self {
        let is_old = |interface: &&AgentInterface| {
            let version = Version::parse(&interface.protocol_version);
            version.is_some_and(|version| version < Version::V1_0 && version != Version::V0_1)
        };
        let interfaces: Vec<_> = card
            .supported_interfaces
            .iter()
            .filter(is_old)
            .map(|interface| OlderInterface {
                url: &interface.url,
                transport: interface.protocol_binding.as_str(),
            })
            .collect();
        Self {
            // Without it, there is nothing here that is of v0.3.
            protocol_version: (!interfaces.is_empty()).then_some(PROTOCOL_VERSION),
            name: &card.name,
            description: &card.description,
            url: interfaces.first().map_or_else(|| jsonrpc_url(card), |first| first.url),
            preferred_transport: interfaces.first().map(|first| first.transport),
            additional_interfaces: interfaces,
            supported_interfaces: &card.supported_interfaces,
            provider: card.provider.as_ref(),
            version: &card.version,
            documentation_url: card.documentation_url.as_deref(),
            capabilities: &card.capabilities,
            security_schemes: card
                .security_schemes
                .iter()
                .map(|(name, scheme)| (name.as_str(), UnionScheme(scheme)))
                .collect(),
            security_requirements: &card.security_requirements,
            security: older_requirements(&card.security_requirements),
            authentication: is_v0_1.then(|| Authentication::of(card)),
            default_input_modes: &card.default_input_modes,
            default_output_modes: &card.default_output_modes,
            skills: card.skills.iter().map(UnionSkill::of).collect(),
            supports_authenticated_extended_card: card.capabilities.extended_agent_card == Some(true),
            signatures: &card.signatures,
            icon_url: card.icon_url.as_deref(),
        }
    }
}

impl<'a> UnionSkill<'a> {
    fn of(skill: &'a AgentSkill) -> Self {
        Self {
            id: &skill.id,
            name: &skill.name,
            description: &skill.description,
            tags: &skill.tags,
            examples: &skill.examples,
            input_modes: &skill.input_modes,
            output_modes: &skill.output_modes,
            security_requirements: &skill.security_requirements,
            security: older_requirements(&skill.security_requirements),
        }
    }
}

impl<'a> Authentication<'a> {
    fn of(card: &'a AgentCard) -> Self {
        let name = |scheme: &'a SecurityScheme| match scheme {
            SecurityScheme::HttpAuth(scheme) => scheme.scheme.as_str(),
            SecurityScheme::ApiKey(_) => "apiKey",
            SecurityScheme::OAuth2(_) => "oauth2",
            SecurityScheme::OpenIdConnect(_) => "openIdConnect",
            SecurityScheme::MutualTls(_) => "mutualTLS",
        };
        let is_required = |name: &String| {
            card.security_requirements.iter().any(|required| required.schemes.contains_key(name))
        };
        let required = card.security_schemes.iter().filter(|(name, _)| is_required(name));
        Self { schemes: required.map(|(_, scheme)| name(scheme)).collect() }
    }
}

/// Where JSON-RPC is posted to, which is all that v0.1 knows.
fn jsonrpc_url(card: &AgentCard) -> &str {
    let mut interfaces = card.supported_interfaces.iter();
    let found = interfaces.find(|interface| interface.protocol_binding == ProtocolBinding::JsonRpc);
    found.map_or("", |interface| &interface.url)
}

fn older_requirements(requirements: &[SecurityRequirement]) -> Vec<OlderRequirement<'_>> {
    requirements.iter().map(older_requirement).collect()
}

fn older_requirement(requirement: &SecurityRequirement) -> OlderRequirement<'_> {
    requirement.schemes.iter().map(|(name, scopes)| (name.as_str(), scopes.list.as_slice())).collect()
}

impl Serialize for UnionScheme<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let description = match self.0 {
            SecurityScheme::ApiKey(scheme) => {
                map.serialize_entry("type", "apiKey")?;
                map.serialize_entry("in", &scheme.location)?;
                map.serialize_entry("name", &scheme.name)?;
                map.serialize_entry("apiKeySecurityScheme", scheme)?;
                &scheme.description
            }
            SecurityScheme::HttpAuth(scheme) => {
                map.serialize_entry("type", "http")?;
                map.serialize_entry("scheme", &scheme.scheme)?;
                if !scheme.bearer_format.is_empty() {
                    map.serialize_entry("bearerFormat", &scheme.bearer_format)?;
                }
                map.serialize_entry("httpAuthSecurityScheme", scheme)?;
                &scheme.description
            }
            SecurityScheme::OAuth2(scheme) => {
                map.serialize_entry("type", "oauth2")?;
                map.serialize_entry("flows", &OlderFlows(&scheme.flows))?;
                if !scheme.oauth2_metadata_url.is_empty() {
                    map.serialize_entry("oauth2MetadataUrl", &scheme.oauth2_metadata_url)?;
                }
                map.serialize_entry("oauth2SecurityScheme", scheme)?;
                &scheme.description
            }
            SecurityScheme::OpenIdConnect(scheme) => {
                map.serialize_entry("type", "openIdConnect")?;
                map.serialize_entry("openIdConnectUrl", &scheme.open_id_connect_url)?;
                map.serialize_entry("openIdConnectSecurityScheme", scheme)?;
                &scheme.description
            }
            SecurityScheme::MutualTls(scheme) => {
                map.serialize_entry("type", "mutualTLS")?;
                map.serialize_entry("mtlsSecurityScheme", scheme)?;
                &scheme.description
            }
        };
        if !description.is_empty() {
            map.serialize_entry("description", description)?;
        }
        map.end()
    }
}

/// v0.3 knows no device code, and nothing of PKCE.
impl Serialize for OlderFlows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Flow<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            authorization_url: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            token_url: Option<&'a str>,
            #[serde(skip_serializing_if = "str::is_empty")]
            refresh_url: &'a str,
            scopes: &'a BTreeMap<String, String>,
        }
        let flow = match self.0 {
            OAuthFlows::AuthorizationCode(flow) => Some((
                "authorizationCode",
                (Some(&flow.authorization_url), Some(&flow.token_url), &flow.refresh_url, &flow.scopes),
            )),
            OAuthFlows::ClientCredentials(flow) => {
                Some(("clientCredentials", (None, Some(&flow.token_url), &flow.refresh_url, &flow.scopes)))
            }
            OAuthFlows::Implicit(flow) => {
                Some(("implicit", (Some(&flow.authorization_url), None, &flow.refresh_url, &flow.scopes)))
            }
            OAuthFlows::Password(flow) => {
                Some(("password", (None, Some(&flow.token_url), &flow.refresh_url, &flow.scopes)))
            }
            OAuthFlows::DeviceCode(_) | OAuthFlows::Unset => None,
        };
        let mut map = serializer.serialize_map(None)?;
        if let Some((name, (authorization_url, token_url, refresh_url, scopes))) = flow {
            let (authorization_url, token_url) =
                (authorization_url.map(String::as_str), token_url.map(String::as_str));
            map.serialize_entry(name, &Flow { authorization_url, token_url, refresh_url, scopes })?;
        }
        map.end()
    }
}
