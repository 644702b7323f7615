//! The agent card: what an agent is, where it listens and what it can do.
//!
//! A card is signed over its canonical JSON, so presence is part of its meaning: required fields are written
//! even when empty, `Option`s exactly when set (an explicit `false` stays), anything else only when it differs
//! from its default. Maps are ordered, so that the same card always gives the same bytes and `ETag`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::field::{is_default, null_as_default, object, objects, optional_object};
use crate::json::JsonObject;
use crate::security::{SecurityRequirement, SecurityScheme};

/// What an agent publishes about itself, so that clients can choose and call it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// What people call the agent.
    pub name: String,
    /// What the agent is good for, to help people and agents choose it.
    pub description: String,
    /// Where and how the agent can be called, the preferred way first; a card without any is refused.
    #[serde(alias = "supported_interfaces", deserialize_with = "at_least_one_interface")]
    pub supported_interfaces: Vec<AgentInterface>,
    /// Who offers the agent.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    /// The release of the agent itself, in whatever form its makers use.
    pub version: String,
    /// Where people can read more.
    #[serde(alias = "documentation_url", skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Which optional parts of the protocol the agent supports.
    #[serde(deserialize_with = "object")]
    pub capabilities: AgentCapabilities,
    /// The ways to authenticate, by the names that requirements refer to.
    #[serde(alias = "security_schemes")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// What a caller must satisfy, any one of these being enough.
    #[serde(alias = "security_requirements")]
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// The media types accepted by skills that name none.
    #[serde(alias = "default_input_modes", default, deserialize_with = "null_as_default")]
    pub default_input_modes: Vec<String>,
    /// The media types produced by skills that name none.
    #[serde(alias = "default_output_modes", default, deserialize_with = "null_as_default")]
    pub default_output_modes: Vec<String>,
    /// What the agent can be asked to do.
    #[serde(default, deserialize_with = "objects")]
    pub skills: Vec<AgentSkill>,
    /// Proofs of who wrote the card, several during a change of keys.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub signatures: Vec<AgentCardSignature>,
    /// A picture to show beside the name.
    #[serde(alias = "icon_url", skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// One address of an agent, with the binding and protocol version spoken there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// Where to call: an absolute URL, or `host:port` for gRPC.
    pub url: String,
    /// How to call.
    #[serde(alias = "protocol_binding")]
    pub protocol_binding: ProtocolBinding,
    /// The routing key that clients must send with each request; empty if they must send none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub tenant: String,
    /// The A2A version spoken, as major and minor: `1.0`.
    #[serde(alias = "protocol_version")]
    pub protocol_version: String,
}

/// How A2A operations are put on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
pub enum ProtocolBinding {
    /// JSON-RPC 2.0 over HTTP, written `JSONRPC`.
    JsonRpc,
    /// gRPC, written `GRPC`.
    Grpc,
    /// Plain HTTP resources with JSON bodies, written `HTTP+JSON`.
    HttpJson,
    /// A custom binding, named by its URI.
    Other(String),
}

/// The organization behind an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProvider {
    /// Its web site.
    pub url: String,
    /// Its name.
    pub organization: String,
}

/// The optional parts of the protocol that an agent supports; what is unset counts as unsupported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// Whether results can be streamed and tasks subscribed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Whether task updates can be sent to a webhook.
    #[serde(alias = "push_notifications", skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// The protocol extensions that the agent understands.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub extensions: Vec<AgentExtension>,
    /// Whether authenticated callers can get a fuller card.
    #[serde(alias = "extended_agent_card", skip_serializing_if = "Option::is_none")]
    pub extended_agent_card: Option<bool>,
}

/// A protocol extension that an agent understands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentExtension {
    /// What the extension is known by in headers and messages.
    pub uri: String,
    /// How this agent uses the extension.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// Whether clients must follow the extension to use the agent at all.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub required: bool,
    /// Settings whose meaning the extension defines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<JsonObject>,
}

/// Something that an agent can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// Tells the skill apart from the agent's others.
    pub id: String,
    /// What people call the skill.
    pub name: String,
    /// What the skill does, to help people and agents choose it.
    pub description: String,
    /// Keywords to find the skill by.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Prompts or scenarios that the skill handles well.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub examples: Vec<String>,
    /// The media types accepted here instead of the card's; empty for the card's.
    #[serde(alias = "input_modes")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub input_modes: Vec<String>,
    /// The media types produced here instead of the card's; empty for the card's.
    #[serde(alias = "output_modes")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub output_modes: Vec<String>,
    /// What a caller of this skill must satisfy, any one of these being enough.
    #[serde(alias = "security_requirements")]
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "is_default")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// A detached JWS over the canonical form of a card without its signatures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCardSignature {
    /// The signed JOSE header, as base64url of its JSON.
    pub protected: String,
    /// The signature itself, as base64url.
    pub signature: String,
    /// JOSE header values that the signature does not cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<JsonObject>,
}

// === impl AgentCard ===

impl AgentCard {
    /// A card for an agent that takes and gives plain text; it needs at least one interface to be of use.
    pub fn new(name: impl Into<String>, description: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            supported_interfaces: Vec::new(),
            provider: None,
            version: version.into(),
            documentation_url: None,
            capabilities: AgentCapabilities::default(),
            security_schemes: BTreeMap::new(),
            security_requirements: Vec::new(),
            default_input_modes: vec![PLAIN_TEXT.to_owned()],
            default_output_modes: vec![PLAIN_TEXT.to_owned()],
            skills: Vec::new(),
            signatures: Vec::new(),
            icon_url: None,
        }
    }

    /// Adds an interface, less preferred than those before it.
    pub fn interface(mut self, interface: AgentInterface) -> Self {
        self.supported_interfaces.push(interface);
        self
    }

    /// Adds a skill.
    pub fn skill(mut self, skill: AgentSkill) -> Self {
        self.skills.push(skill);
        self
    }
}

const PLAIN_TEXT: &str = "text/plain";

/// Without an interface nobody can call the agent, so this is the one list of a card that must not be empty.
fn at_least_one_interface<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<AgentInterface>, D::Error> {
    let interfaces: Vec<_> = objects(deserializer)?;
    if interfaces.is_empty() {
        return Err(D::Error::invalid_length(0, &"at least one interface"));
    }
    Ok(interfaces)
}

// === impl AgentInterface ===

impl AgentInterface {
    /// An interface that speaks A2A 1.0 and has no tenant.
    pub fn new(url: impl Into<String>, binding: impl Into<ProtocolBinding>) -> Self {
        Self {
            url: url.into(),
            protocol_binding: binding.into(),
            tenant: String::new(),
            protocol_version: "1.0".to_owned(),
        }
    }

    /// Sets the routing key that clients must send.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Sets another A2A version, such as `0.3`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.protocol_version = version.into();
        self
    }
}

// === impl ProtocolBinding ===

impl ProtocolBinding {
    /// The binding as cards spell it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::Grpc => "GRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Other(text) => text,
        }
    }
}

impl From<String> for ProtocolBinding {
    fn from(text: String) -> Self {
        match text.as_str() {
            "JSONRPC" => Self::JsonRpc,
            "GRPC" => Self::Grpc,
            "HTTP+JSON" => Self::HttpJson,
            _ => Self::Other(text),
        }
    }
}

impl From<&str> for ProtocolBinding {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Display for ProtocolBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProtocolBinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

// === impl AgentExtension ===

impl AgentExtension {
    /// An extension that clients may ignore.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), description: String::new(), required: false, params: None }
    }

    /// Makes the extension one that clients must follow.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets what the extension needs to be told.
    pub fn params(mut self, params: JsonObject) -> Self {
        self.params = Some(params);
        self
    }
}

// === impl AgentSkill ===

impl AgentSkill {
    /// A skill with the card's media types and no requirements of its own.
    pub fn new(id: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            tags: Vec::new(),
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        }
    }

    /// Adds a keyword.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Adds a prompt or scenario that the skill handles well.
    pub fn example(mut self, example: impl Into<String>) -> Self {
        self.examples.push(example.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{
        "name": "Router", "description": "Plans routes",
        "supportedInterfaces": [
            {"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "tenant": "t", "protocolVersion": "1.0"},
            {"url": "a.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://a.example/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
            {"url": "wss://a.example", "protocolBinding": "https://b.example/ws", "protocolVersion": "1.0"}
        ],
        "provider": {"url": "https://p.example", "organization": "P"},
        "version": "2.1.0",
        "documentationUrl": "https://a.example/docs",
        "capabilities": {
            "streaming": true, "pushNotifications": false,
            "extensions": [{
                "uri": "urn:x", "description": "d", "required": true,
                "params": {"z": 12345678901234567890, "a": [1.0, "", null, {}]}
            }],
            "extendedAgentCard": true
        },
        "securitySchemes": {"google": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example"}}},
        "securityRequirements": [{"schemes": {"google": {"list": ["read"]}}}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["application/json"],
        "skills": [{
            "id": "s", "name": "S", "description": "does S", "tags": ["map"], "examples": ["from A to B"],
            "inputModes": ["text/plain"], "outputModes": ["image/png"],
            "securityRequirements": [{"schemes": {"google": {"list": ["write"]}}}]
        }],
        "signatures": [{"protected": "eyJ9", "signature": "c2ln", "header": {"k": "v"}}],
        "iconUrl": "https://a.example/icon.png"
    }"#;

    const SMALL: &str = r#"{"name":"n","description":"","supportedInterfaces":[{"url":"","protocolBinding":"","protocolVersion":""}],"version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}"#;

    fn read(text: &str) -> AgentCard {
        serde_json::from_str(text).unwrap()
    }

    fn write<T: Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn a_full_card_round_trips() {
        // User JSON keeps its tokens, the rest is written in the order of the specification.
        let compact = crate::json::Json::parse(FULL).unwrap();
        let card = read(FULL);
        assert_eq!(write(&card), compact.as_str());
        assert_eq!(read(compact.as_str()), card);
    }

    #[test]
    fn required_fields_are_written_even_when_empty() {
        assert_eq!(write(&read(SMALL)), SMALL);
        assert_eq!(write(&AgentSkill::new("", "", "")), r#"{"id":"","name":"","description":"","tags":[]}"#);
        assert_eq!(write(&AgentExtension::new("")), r#"{"uri":""}"#);
    }

    #[test]
    fn explicit_defaults_of_optional_fields_are_kept() {
        let text = r#"{"streaming":false,"pushNotifications":false,"extendedAgentCard":false}"#;
        let capabilities: AgentCapabilities = serde_json::from_str(text).unwrap();
        assert_eq!(write(&capabilities), text);

        let card = AgentCard { documentation_url: Some(String::new()), ..read(SMALL) };
        assert_eq!(read(&write(&card)), card);
        assert!(write(&card).contains(r#""documentationUrl":"""#));
    }

    #[test]
    fn defaults_of_other_fields_are_dropped() {
        let text = r#"{"streaming":false,"extensions":[]}"#;
        let capabilities: AgentCapabilities = serde_json::from_str(text).unwrap();
        assert_eq!(write(&capabilities), r#"{"streaming":false}"#);

        let text = r#"{"uri":"u","description":"","required":false,"params":{}}"#;
        let extension: AgentExtension = serde_json::from_str(text).unwrap();
        assert_eq!(write(&extension), r#"{"uri":"u","params":{}}"#);

        let more =
            SMALL.replacen('{', r#"{"securitySchemes":{},"securityRequirements":[],"signatures":[],"#, 1);
        assert_eq!(write(&read(&more)), SMALL);
    }

    #[test]
    fn null_is_unset() {
        let text = r#"{"name":"n","description":"","supportedInterfaces":[{"url":"","protocolBinding":"","tenant":null,"protocolVersion":""}],"provider":null,"version":"","documentationUrl":null,"capabilities":{"streaming":null,"extensions":null},"securitySchemes":null,"securityRequirements":null,"defaultInputModes":null,"defaultOutputModes":null,"skills":null,"signatures":null,"iconUrl":null}"#;
        assert_eq!(read(text), read(SMALL));
        let text = r#"{"uri":"u","description":null,"required":null,"params":null}"#;
        assert_eq!(serde_json::from_str::<AgentExtension>(text).unwrap(), AgentExtension::new("u"));
    }

    #[test]
    fn snake_case_and_unknown_fields_are_read() {
        let mut snake = FULL.to_owned();
        for (camel, name) in [
            ("supportedInterfaces", "supported_interfaces"),
            ("protocolBinding", "protocol_binding"),
            ("protocolVersion", "protocol_version"),
            ("documentationUrl", "documentation_url"),
            ("pushNotifications", "push_notifications"),
            ("extendedAgentCard", "extended_agent_card"),
            ("securitySchemes", "security_schemes"),
            ("securityRequirements", "security_requirements"),
            ("defaultInputModes", "default_input_modes"),
            ("defaultOutputModes", "default_output_modes"),
            ("inputModes", "input_modes"),
            ("outputModes", "output_modes"),
            ("iconUrl", "icon_url"),
        ] {
            assert!(snake.contains(camel));
            snake = snake.replace(&format!("\"{camel}\""), &format!("\"{name}\""));
        }
        // What a card for 0.3 clients carries besides.
        let union = snake.replacen('{', r#"{"url":"https://a.example","preferredTransport":"JSONRPC","#, 1);
        assert_eq!(read(&union), read(FULL));
    }

    #[test]
    fn lists_may_be_missing_but_not_the_rest() {
        let interfaces = r#""supportedInterfaces":[{"url":"","protocolBinding":"","protocolVersion":""}]"#;
        let required =
            [r#""name":"n""#, r#""description":"""#, interfaces, r#""version":"""#, r#""capabilities":{}"#];
        assert_eq!(read(&format!("{{{}}}", required.join(","))), read(SMALL));
        for missing in required {
            let rest: Vec<_> = required.into_iter().filter(|&field| field != missing).collect();
            let text = format!("{{{}}}", rest.join(","));
            assert!(serde_json::from_str::<AgentCard>(&text).is_err(), "{missing}");
        }
        let skill: AgentSkill = serde_json::from_str(r#"{"id":"i","name":"n","description":"d"}"#).unwrap();
        assert_eq!(skill, AgentSkill::new("i", "n", "d"));
        assert!(serde_json::from_str::<AgentExtension>("{}").is_err());
    }

    #[test]
    fn a_card_without_an_interface_is_refused() {
        let text = write(&AgentCard::new("n", "d", "1"));
        let refusal = serde_json::from_str::<AgentCard>(&text).unwrap_err().to_string();
        assert!(refusal.starts_with("invalid length 0, expected at least one interface"), "{refusal}");
    }

    #[test]
    fn a_scheme_of_two_kinds_is_refused() {
        let text = SMALL.replacen(
            '{',
            r#"{"securitySchemes":{"x":{"mtlsSecurityScheme":{},"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"#,
            1,
        );
        let refusal = serde_json::from_str::<AgentCard>(&text).unwrap_err().to_string();
        assert!(refusal.starts_with("more than one of "), "{refusal}");
    }

    #[test]
    fn a_card_is_built_by_chaining() {
        let params = JsonObject::single("level", &2).unwrap();
        let mut card = AgentCard::new("Echo", "Says it again", "1.0.0")
            .interface(AgentInterface::new("https://e.example", ProtocolBinding::HttpJson).tenant("t"))
            .interface(AgentInterface::new("https://e.example/old", "JSONRPC").version("0.3"))
            .skill(AgentSkill::new("echo", "Echo", "Repeats").tag("text").example("hello"));
        card.capabilities.extensions.push(AgentExtension::new("urn:x").required().params(params));
        assert_eq!(
            write(&card),
            concat!(
                r#"{"name":"Echo","description":"Says it again","supportedInterfaces":["#,
                r#"{"url":"https://e.example","protocolBinding":"HTTP+JSON","tenant":"t","protocolVersion":"1.0"},"#,
                r#"{"url":"https://e.example/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"}],"#,
                r#""version":"1.0.0","#,
                r#""capabilities":{"extensions":[{"uri":"urn:x","required":true,"params":{"level":2}}]},"#,
                r#""defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"#,
                r#""skills":[{"id":"echo","name":"Echo","description":"Repeats","tags":["text"],"examples":["hello"]}]}"#,
            )
        );
    }

    #[test]
    fn bindings_are_open_text() {
        for (binding, text) in [
            (ProtocolBinding::JsonRpc, "JSONRPC"),
            (ProtocolBinding::Grpc, "GRPC"),
            (ProtocolBinding::HttpJson, "HTTP+JSON"),
            (ProtocolBinding::Other("urn:ws".to_owned()), "urn:ws"),
        ] {
            assert_eq!(write(&binding), format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<ProtocolBinding>(&write(&binding)).unwrap(), binding);
            assert_eq!(binding.to_string(), text);
        }
    }
}
