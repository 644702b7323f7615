//! Cards of every generation, read as one of v1.0.
//!
//! The card of v1.0 lists interfaces; those before it name one URL, and later ones some more beside it. Other SDKs
//! spell security schemes as OpenAPI does, as ProtoJSON does, or as their own language would. One scheme that nobody
//! understands costs no caller the whole card: it is left out.

mod security;

use std::collections::BTreeMap;

use chancery_protocol::field::{null_as_default, objects, optional_object};
use chancery_protocol::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, AgentProvider,
    AgentSkill, Error, Json, Version, decode_reply,
};
use serde::Deserialize;

/// Reads a card of any version. Its interfaces say which version each speaks: `1.0`, `0.3` or `0.1`.
pub(crate) fn read(json: &[u8]) -> Result<AgentCard, Error> {
    let card: AnyCard = decode_reply(json)?;
    let interfaces = card.interfaces();
    if interfaces.is_empty() {
        // The error of a card of v1.0 that has none, said where all others are.
        return decode_reply::<AgentCard>(json);
    }
    Ok(card.into_card(interfaces))
}

/// Every field of every generation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyCard {
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    description: String,
    #[serde(alias = "supported_interfaces", default, deserialize_with = "objects")]
    supported_interfaces: Vec<AnyInterface>,
    #[serde(default)]
    url: Option<String>,
    #[serde(alias = "preferred_transport", default)]
    preferred_transport: Option<String>,
    #[serde(alias = "additional_interfaces", default, deserialize_with = "objects")]
    additional_interfaces: Vec<AnyInterface>,
    #[serde(alias = "protocol_version", default)]
    protocol_version: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    provider: Option<AnyProvider>,
    #[serde(default, deserialize_with = "null_as_default")]
    version: String,
    #[serde(alias = "documentation_url", default)]
    documentation_url: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    capabilities: Option<AnyCapabilities>,
    #[serde(alias = "security_schemes", default, deserialize_with = "null_as_default")]
    security_schemes: BTreeMap<String, Json>,
    #[serde(alias = "security_requirements", default, deserialize_with = "null_as_default")]
    security_requirements: Vec<Json>,
    #[serde(default, deserialize_with = "null_as_default")]
    security: Vec<Json>,
    /// How v0.1 says what others say with schemes.
    #[serde(default, deserialize_with = "optional_object")]
    authentication: Option<security::Authentication>,
    #[serde(alias = "default_input_modes", default, deserialize_with = "null_as_default")]
    default_input_modes: Vec<String>,
    #[serde(alias = "default_output_modes", default, deserialize_with = "null_as_default")]
    default_output_modes: Vec<String>,
    #[serde(default, deserialize_with = "objects")]
    skills: Vec<AnySkill>,
    #[serde(default, deserialize_with = "objects")]
    signatures: Vec<AgentCardSignature>,
    #[serde(alias = "icon_url", default)]
    icon_url: Option<String>,
    #[serde(alias = "supports_authenticated_extended_card", alias = "supportsExtendedAgentCard", default)]
    supports_authenticated_extended_card: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyInterface {
    url: String,
    #[serde(alias = "protocol_binding", alias = "transport")]
    protocol_binding: String,
    #[serde(default, deserialize_with = "null_as_default")]
    tenant: String,
    #[serde(alias = "protocol_version", default, deserialize_with = "null_as_default")]
    protocol_version: String,
}

#[derive(Deserialize)]
struct AnyProvider {
    #[serde(default, deserialize_with = "null_as_default")]
    url: String,
    #[serde(default, deserialize_with = "null_as_default")]
    organization: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyCapabilities {
    streaming: Option<bool>,
    #[serde(alias = "push_notifications")]
    push_notifications: Option<bool>,
    #[serde(deserialize_with = "objects")]
    extensions: Vec<AgentExtension>,
    #[serde(alias = "extended_agent_card")]
    extended_agent_card: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnySkill {
    id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    description: String,
    #[serde(default, deserialize_with = "null_as_default")]
    tags: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    examples: Vec<String>,
    #[serde(alias = "input_modes", default, deserialize_with = "null_as_default")]
    input_modes: Vec<String>,
    #[serde(alias = "output_modes", default, deserialize_with = "null_as_default")]
    output_modes: Vec<String>,
    #[serde(alias = "security_requirements", default, deserialize_with = "null_as_default")]
    security_requirements: Vec<Json>,
    #[serde(default, deserialize_with = "null_as_default")]
    security: Vec<Json>,
}

const JSONRPC: &str = "JSONRPC";
const V0_1: &str = "0.1";
const V0_3: &str = "0.3";
const V1_0: &str = "1.0";

impl AnyCard {
    /// Where the agent can be called, the best way first.
    fn interfaces(&self) -> Vec<AgentInterface> {
        let own_version = self.protocol_version.as_deref().and_then(Version::parse);
        if !self.supported_interfaces.is_empty() {
            let listed = self.supported_interfaces.iter().flat_map(AnyInterface::listed);
            return listed.chain(self.unlisted()).collect();
        }
        let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) else { return Vec::new() };
        let transport = self.preferred_transport.as_deref().filter(|name| !name.is_empty());
        let mut found = Vec::new();
        for version in self.versions(own_version) {
            let primary = AgentInterface::new(url, transport.unwrap_or(JSONRPC)).version(&*version);
            let others = self.additional_interfaces.iter().map(|other| other.interface(&version));
            for interface in std::iter::once(primary).chain(others) {
                if !found.contains(&interface) {
                    found.push(interface);
                }
            }
        }
        found
    }

    /// What a card of all generations offers besides its list, which v0.1 does not read: no later version has
    /// `authentication`, so with it the URL takes v0.1 too.
    fn unlisted(&self) -> Option<AgentInterface> {
        self.authentication.as_ref()?;
        let url = self.url.as_deref().filter(|url| !url.is_empty())?;
        let is_jsonrpc = self.preferred_transport.as_deref().is_none_or(|name| name == JSONRPC);
        let is_listed = self.supported_interfaces.iter().any(|found| found.protocol_version == V0_1);
        (is_jsonrpc && !is_listed).then(|| AgentInterface::new(url, JSONRPC).version(V0_1))
    }

    /// The versions that a card of one URL may be of. Before 0.2.5 cards did not say; whoever is asked in the wrong one
    /// says so.
    fn versions(&self, own: Option<Version>) -> Vec<String> {
        if let Some(version) = own {
            return vec![family(version)];
        }
        if self.preferred_transport.is_some() || !self.additional_interfaces.is_empty() {
            return vec![V0_3.to_owned()];
        }
        let modes = self.default_input_modes.iter().chain(&self.default_output_modes);
        let is_first = self.security_schemes.is_empty()
            && (self.authentication.is_some() || modes.clone().any(|mode| !mode.contains('/')));
        let order = if is_first { [V0_1, V0_3] } else { [V0_3, V0_1] };
        order.map(str::to_owned).to_vec()
    }

    fn into_card(self, supported_interfaces: Vec<AgentInterface>) -> AgentCard {
        let capabilities = self.capabilities.unwrap_or_default();
        let mut security_schemes = security::schemes(&self.security_schemes);
        let mut security_requirements = security::requirements(&self.security_requirements, &self.security);
        // Beside the keys of a later generation, it says nothing that they do not.
        let is_first = self.supported_interfaces.is_empty() && security_schemes.is_empty();
        if let Some(authentication) = self.authentication.filter(|_| is_first) {
            (security_schemes, security_requirements) = authentication.into_schemes();
        }
        AgentCard {
            name: self.name,
            description: self.description,
            supported_interfaces,
            provider: self
                .provider
                .map(|known| AgentProvider { url: known.url, organization: known.organization }),
            version: self.version,
            documentation_url: self.documentation_url,
            capabilities: AgentCapabilities {
                streaming: capabilities.streaming,
                push_notifications: capabilities.push_notifications,
                extensions: capabilities.extensions,
                extended_agent_card: capabilities
                    .extended_agent_card
                    .or(self.supports_authenticated_extended_card),
            },
            security_schemes,
            security_requirements,
            default_input_modes: self.default_input_modes,
            default_output_modes: self.default_output_modes,
            skills: self.skills.into_iter().map(AnySkill::into_skill).collect(),
            signatures: self.signatures,
            icon_url: self.icon_url,
        }
    }
}

/// The version whose dialect is spoken: 0.2 is 0.3 to us.
fn family(version: Version) -> String {
    match version {
        Version { major: 0, minor: 0 | 1 } => V0_1.to_owned(),
        Version { major: 0, .. } => V0_3.to_owned(),
        version => version.to_string(),
    }
}

impl AnyInterface {
    /// What an entry of the list of v1.0 offers. One that does not say its version may be of either: peers that do not
    /// understand the newer one say so.
    fn listed(&self) -> impl Iterator<Item = AgentInterface> {
        let versions: &[_] = if self.protocol_version.is_empty() { &[V1_0, V0_3] } else { &[V1_0] };
        versions.iter().map(|version| self.interface(version))
    }

    fn interface(&self, version: &str) -> AgentInterface {
        let version = if self.protocol_version.is_empty() { version } else { &self.protocol_version };
        AgentInterface::new(&*self.url, &*self.protocol_binding).tenant(&*self.tenant).version(version)
    }
}

impl AnySkill {
    fn into_skill(self) -> AgentSkill {
        AgentSkill {
            id: self.id,
            name: self.name,
            description: self.description,
            tags: self.tags,
            examples: self.examples,
            input_modes: self.input_modes,
            output_modes: self.output_modes,
            security_requirements: security::requirements(&self.security_requirements, &self.security),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces(json: &str) -> Vec<(String, String, String)> {
        let card = read(json.as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {json}"));
        let shown = |found: &AgentInterface| {
            (found.url.clone(), found.protocol_binding.to_string(), found.protocol_version.clone())
        };
        card.supported_interfaces.iter().map(shown).collect()
    }

    fn at(url: &str, binding: &str, version: &str) -> (String, String, String) {
        (url.to_owned(), binding.to_owned(), version.to_owned())
    }

    #[test]
    fn a_card_of_0_3_is_read() {
        let json = r#"{
            "protocolVersion": "0.3.0", "name": "a", "description": "d", "url": "https://a.example/rpc",
            "preferredTransport": "JSONRPC", "version": "1",
            "additionalInterfaces": [
                {"url": "https://a.example/rpc", "transport": "JSONRPC"},
                {"url": "https://a.example/rest", "transport": "HTTP+JSON"}
            ],
            "capabilities": {"streaming": true, "stateTransitionHistory": true},
            "securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X"}, "odd": {"type": "magic"}},
            "security": [{"k": []}], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "s", "name": "S", "description": "d", "tags": [], "security": [{"k": []}]}],
            "supportsAuthenticatedExtendedCard": true
        }"#;
        let (rpc, rest) = ("https://a.example/rpc", "https://a.example/rest");
        assert_eq!(interfaces(json), [at(rpc, "JSONRPC", "0.3"), at(rest, "HTTP+JSON", "0.3")]);
        let card = read(json.as_bytes()).unwrap();
        assert_eq!(
            (card.capabilities.streaming, card.capabilities.extended_agent_card),
            (Some(true), Some(true))
        );
        assert_eq!(card.security_schemes.keys().collect::<Vec<_>>(), ["k"]);
        assert_eq!(card.security_requirements, card.skills[0].security_requirements);
        assert!(card.security_requirements[0].schemes.contains_key("k"));
    }

    #[test]
    fn cards_that_do_not_say_their_version_may_be_of_two() {
        let card = |rest: &str| format!(r#"{{"name":"a","url":"http://a.example","version":"1",{rest}}}"#);
        let url = "http://a.example";
        let (old, older) = (at(url, "JSONRPC", "0.3"), at(url, "JSONRPC", "0.1"));
        let modes = r#""defaultInputModes":["text/plain"],"capabilities":{},"skills":[]"#;
        assert_eq!(interfaces(&card(modes)), [old.clone(), older.clone()]);
        assert_eq!(interfaces(&card(r#""defaultInputModes":["text"]"#)), [older.clone(), old.clone()]);
        let first = card(r#""authentication":{"schemes":["Bearer"]},"provider":{"organization":"o"}"#);
        assert_eq!(interfaces(&first), [older.clone(), old.clone()]);
        let read = read(first.as_bytes()).unwrap();
        assert_eq!(read.security_schemes["Bearer"], chancery_protocol::SecurityScheme::bearer());
        assert_eq!(interfaces(&card(r#""preferredTransport":"HTTP+JSON""#)), [at(url, "HTTP+JSON", "0.3")]);
        assert_eq!(interfaces(&card(r#""protocolVersion":"0.2.5""#)), [old]);
        assert_eq!(interfaces(&card(r#""protocolVersion":"0.1.0""#)), [older]);
    }

    #[test]
    fn the_proto_s_card_of_0_3_is_read() {
        let json = r#"{"protocolVersion":"0.3.0","name":"a","description":"","url":"http://a.example","preferredTransport":"",
            "additionalInterfaces":[],"capabilities":{"streaming":true,"pushNotifications":false,"extensions":[]},
            "securitySchemes":{"o":{"oauth2SecurityScheme":{"description":"","flows":{"clientCredentials":{"tokenUrl":"t","refreshUrl":"","scopes":{}}}}}},
            "security":[{"schemes":{"o":{"list":["read"]}}}],"skills":[],"defaultInputModes":[],"defaultOutputModes":[]}"#;
        assert_eq!(interfaces(json), [at("http://a.example", "JSONRPC", "0.3")]);
        let card = read(json.as_bytes()).unwrap();
        assert_eq!(card.security_requirements[0].schemes["o"].list, ["read"]);
        assert_eq!(card.security_schemes.len(), 1);
    }

    #[test]
    fn newer_keys_count_before_older_ones() {
        let json = r#"{"name":"a","url":"http://old.example","protocolVersion":"0.3.0",
            "supportedInterfaces":[{"url":"http://new.example","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":"t"}]}"#;
        assert_eq!(interfaces(json), [at("http://new.example", "JSONRPC", "1.0")]);
        // Only v0.1 has this key, and it knows one URL.
        let all = json.replacen('{', r#"{"authentication":{"schemes":[]},"#, 1);
        let (new, old) =
            (at("http://new.example", "JSONRPC", "1.0"), at("http://old.example", "JSONRPC", "0.1"));
        assert_eq!(interfaces(&all), [new.clone(), old]);
        let by_rest = all.replacen('{', r#"{"preferredTransport":"HTTP+JSON","#, 1);
        assert_eq!(interfaces(&by_rest), [new]);
        // The version beside the list is for readers of v0.3.
        let silent = json.replace(r#","protocolVersion":"1.0""#, "");
        let tenant = |version| at("http://new.example", "JSONRPC", version);
        assert_eq!(interfaces(&silent), [tenant("1.0"), tenant("0.3")]);
        for json in [
            "{}",
            "[]",
            "7",
            r#"{"name":"a"}"#,
            r#"{"name":"a","supportedInterfaces":[]}"#,
            r#"{"name":"a","url":""}"#,
        ] {
            assert!(read(json.as_bytes()).is_err(), "{json}");
        }
    }
}
