//! How callers of an agent authenticate, as its card declares it.
//!
//! Apart from the card because two messages here are one-ofs (exactly one member key, no wrapper) that serde
//! cannot derive by our rules: [`SecurityScheme`] refuses anything but one known member, while [`OAuthFlows`]
//! forgives, since cards written with OpenAPI in mind list several flows and the first is enough to log in.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::field::{is_default, next_object, null_as_default, objects_by_name};

/// One sufficient combination of schemes; a list of these offers alternatives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityRequirement {
    /// The schemes that must all be satisfied, by their name in the card, each with the scopes it needs.
    #[serde(default, deserialize_with = "objects_by_name", skip_serializing_if = "is_default")]
    pub schemes: BTreeMap<String, StringList>,
}

/// Wraps a list where protobuf allows only a message, as in the values of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StringList {
    /// The wrapped strings: required scopes, wherever the card uses this type.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub list: Vec<String>,
}

/// A way to authenticate that the agent accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SecurityScheme {
    /// A shared key sent with each request.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey(ApiKeySecurityScheme),
    /// A scheme of the HTTP `Authorization` header.
    #[serde(rename = "httpAuthSecurityScheme")]
    HttpAuth(HttpAuthSecurityScheme),
    /// A token obtained through OAuth 2.0.
    #[serde(rename = "oauth2SecurityScheme")]
    OAuth2(OAuth2SecurityScheme),
    /// A token from a provider found through OpenID Connect discovery.
    #[serde(rename = "openIdConnectSecurityScheme")]
    OpenIdConnect(OpenIdConnectSecurityScheme),
    /// A client certificate.
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls(MutualTlsSecurityScheme),
}

/// Tells a caller where to put its API key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeySecurityScheme {
    /// Explains the scheme to people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// The part of the request that carries the key: `query`, `header` or `cookie`.
    pub location: String,
    /// The query parameter, header or cookie that holds the key.
    pub name: String,
}

/// Tells a caller what to write in the `Authorization` header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuthSecurityScheme {
    /// Explains the scheme to people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// An IANA-registered HTTP authentication scheme such as `Bearer`, in any letter case.
    pub scheme: String,
    /// A hint at how a bearer token is made, such as `JWT`.
    #[serde(alias = "bearer_format")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub bearer_format: String,
}

/// Tells a caller how to obtain an OAuth 2.0 token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2SecurityScheme {
    /// Explains the scheme to people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// The grant to use and its endpoints.
    pub flows: OAuthFlows,
    /// Where the authorization server publishes its metadata (RFC 8414).
    #[serde(alias = "oauth2_metadata_url")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub oauth2_metadata_url: String,
}

/// Tells a caller where OpenID Connect discovery starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIdConnectSecurityScheme {
    /// Explains the scheme to people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// The provider's discovery document.
    #[serde(alias = "open_id_connect_url")]
    pub open_id_connect_url: String,
}

/// Tells a caller to present a client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutualTlsSecurityScheme {
    /// Explains the scheme to people.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub description: String,
}

/// The OAuth 2.0 grant of a scheme; an agent with several publishes several schemes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OAuthFlows {
    /// A user consents in a browser, which hands a code back.
    AuthorizationCode(AuthorizationCodeOAuthFlow),
    /// A service authenticates as itself.
    ClientCredentials(ClientCredentialsOAuthFlow),
    /// The browser gets the token directly, which OAuth 2.1 dropped: deprecated.
    Implicit(ImplicitOAuthFlow),
    /// The client handles the user's password, which OAuth 2.1 dropped: deprecated.
    Password(PasswordOAuthFlow),
    /// A user consents on a second device.
    DeviceCode(DeviceCodeOAuthFlow),
    /// No flow that we know, so that one odd scheme does not cost the caller the whole card.
    #[default]
    Unset,
}

/// The endpoints and scopes of the authorization code grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationCodeOAuthFlow {
    /// Where the user's browser is sent to consent.
    #[serde(alias = "authorization_url")]
    pub authorization_url: String,
    /// Where the code is exchanged for a token.
    #[serde(alias = "token_url")]
    pub token_url: String,
    /// Where a token is renewed, if not at the token URL.
    #[serde(alias = "refresh_url")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub refresh_url: String,
    /// What can be asked for, each scope with an explanation.
    #[serde(default, deserialize_with = "null_as_default")]
    pub scopes: BTreeMap<String, String>,
    /// Whether the server insists on PKCE (RFC 7636).
    #[serde(alias = "pkce_required")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub pkce_required: bool,
}

/// The endpoints and scopes of the client credentials grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCredentialsOAuthFlow {
    /// Where the client's credentials are exchanged for a token.
    #[serde(alias = "token_url")]
    pub token_url: String,
    /// Where a token is renewed, if not at the token URL.
    #[serde(alias = "refresh_url")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub refresh_url: String,
    /// What can be asked for, each scope with an explanation.
    #[serde(default, deserialize_with = "null_as_default")]
    pub scopes: BTreeMap<String, String>,
}

/// The endpoints and scopes of the deprecated implicit grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImplicitOAuthFlow {
    /// Where the user's browser is sent to consent.
    #[serde(alias = "authorization_url")]
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub authorization_url: String,
    /// Where a token is renewed.
    #[serde(alias = "refresh_url", deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub refresh_url: String,
    /// What can be asked for, each scope with an explanation.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub scopes: BTreeMap<String, String>,
}

/// The endpoints and scopes of the deprecated password grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PasswordOAuthFlow {
    /// Where the user's password is exchanged for a token.
    #[serde(alias = "token_url", deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub token_url: String,
    /// Where a token is renewed, if not at the token URL.
    #[serde(alias = "refresh_url", deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub refresh_url: String,
    /// What can be asked for, each scope with an explanation.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub scopes: BTreeMap<String, String>,
}

/// The endpoints and scopes of the device code grant (RFC 8628).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCodeOAuthFlow {
    /// Where the device asks for the code that it shows to the user.
    #[serde(alias = "device_authorization_url")]
    pub device_authorization_url: String,
    /// Where the device polls for its token.
    #[serde(alias = "token_url")]
    pub token_url: String,
    /// Where a token is renewed, if not at the token URL.
    #[serde(alias = "refresh_url")]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub refresh_url: String,
    /// What can be asked for, each scope with an explanation.
    #[serde(default, deserialize_with = "null_as_default")]
    pub scopes: BTreeMap<String, String>,
}

struct SecuritySchemeVisitor;

struct OAuthFlowsVisitor;

// === impl SecurityRequirement ===

impl SecurityRequirement {
    /// Adds a scheme of the card that must be satisfied too, with the scopes it needs.
    pub fn and(mut self, scheme: impl Into<String>, scopes: &[&str]) -> Self {
        let list = scopes.iter().map(|&scope| scope.to_owned()).collect();
        self.schemes.insert(scheme.into(), StringList { list });
        self
    }
}

// === impl SecurityScheme ===

const SCHEMES: &str = "apiKeySecurityScheme, httpAuthSecurityScheme, oauth2SecurityScheme, \
    openIdConnectSecurityScheme, mtlsSecurityScheme";

impl SecurityScheme {
    /// A bearer token in the `Authorization` header.
    pub fn bearer() -> Self {
        Self::HttpAuth(HttpAuthSecurityScheme { scheme: "Bearer".to_owned(), ..Default::default() })
    }

    /// An API key in a header of this name.
    pub fn api_key_header(name: impl Into<String>) -> Self {
        let location = "header".to_owned();
        Self::ApiKey(ApiKeySecurityScheme { location, name: name.into(), ..Default::default() })
    }

    fn read_member<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(match key {
            "apiKeySecurityScheme" | "api_key_security_scheme" => next_object(map)?.map(Self::ApiKey),
            "httpAuthSecurityScheme" | "http_auth_security_scheme" => next_object(map)?.map(Self::HttpAuth),
            "oauth2SecurityScheme" | "oauth2_security_scheme" => next_object(map)?.map(Self::OAuth2),
            "openIdConnectSecurityScheme" | "open_id_connect_security_scheme" => {
                next_object(map)?.map(Self::OpenIdConnect)
            }
            "mtlsSecurityScheme" | "mtls_security_scheme" => next_object(map)?.map(Self::MutualTls),
            _ => map.next_value::<IgnoredAny>().map(|_| None)?,
        })
    }
}

impl<'de> Deserialize<'de> for SecurityScheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SecuritySchemeVisitor)
    }
}

impl<'de> Visitor<'de> for SecuritySchemeVisitor {
    type Value = SecurityScheme;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with one of {SCHEMES}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            let member = SecurityScheme::read_member(&key, &mut map)?;
            if found.is_some() && member.is_some() {
                return Err(A::Error::custom(format_args!("more than one of {SCHEMES}")));
            }
            found = found.or(member);
        }
        found.ok_or_else(|| A::Error::custom(format_args!("none of {SCHEMES}")))
    }
}

// === impl OAuthFlows ===

impl OAuthFlows {
    fn read_member<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Self>, A::Error> {
        Ok(match key {
            "authorizationCode" | "authorization_code" => next_object(map)?.map(Self::AuthorizationCode),
            "clientCredentials" | "client_credentials" => next_object(map)?.map(Self::ClientCredentials),
            "implicit" => next_object(map)?.map(Self::Implicit),
            "password" => next_object(map)?.map(Self::Password),
            "deviceCode" | "device_code" => next_object(map)?.map(Self::DeviceCode),
            _ => map.next_value::<IgnoredAny>().map(|_| None)?,
        })
    }
}

impl Serialize for OAuthFlows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(usize::from(*self != Self::Unset)))?;
        match self {
            Self::AuthorizationCode(flow) => map.serialize_entry("authorizationCode", flow)?,
            Self::ClientCredentials(flow) => map.serialize_entry("clientCredentials", flow)?,
            Self::Implicit(flow) => map.serialize_entry("implicit", flow)?,
            Self::Password(flow) => map.serialize_entry("password", flow)?,
            Self::DeviceCode(flow) => map.serialize_entry("deviceCode", flow)?,
            Self::Unset => {}
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for OAuthFlows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OAuthFlowsVisitor)
    }
}

impl<'de> Visitor<'de> for OAuthFlowsVisitor {
    type Value = OAuthFlows;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an OAuth 2.0 flow")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut first = None;
        while let Some(key) = map.next_key::<String>()? {
            if first.is_none() {
                first = OAuthFlows::read_member(&key, &mut map)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(first.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(text: &str) -> Result<SecurityScheme, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn round_trips<T: Serialize + serde::de::DeserializeOwned>(text: &str) {
        let value: T = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
    }

    #[test]
    fn requirements_of_the_spec() {
        let text = r#"[{"schemes":{"oauth":{"list":["read"]}}},{"schemes":{"key":{},"mtls":{}}}]"#;
        let requirements: Vec<SecurityRequirement> = serde_json::from_str(text).unwrap();
        let expected = [
            SecurityRequirement::default().and("oauth", &["read"]),
            SecurityRequirement::default().and("mtls", &[]).and("key", &[]),
        ];
        assert_eq!(requirements, expected);
        assert_eq!(serde_json::to_string(&requirements).unwrap(), text);
    }

    #[test]
    fn absent_and_null_requirements_are_empty() {
        for text in ["{}", r#"{"schemes":null}"#, r#"{"schemes":{},"later":[1]}"#] {
            let requirement: SecurityRequirement = serde_json::from_str(text).unwrap();
            assert_eq!(requirement, SecurityRequirement::default());
            assert_eq!(serde_json::to_string(&requirement).unwrap(), "{}");
        }
        let list: StringList = serde_json::from_str(r#"{"list":null}"#).unwrap();
        assert_eq!(list, StringList::default());
    }

    #[test]
    fn every_scheme_round_trips() {
        for text in [
            r#"{"apiKeySecurityScheme":{"description":"d","location":"header","name":"X-Key"}}"#,
            r#"{"httpAuthSecurityScheme":{"description":"d","scheme":"Bearer","bearerFormat":"JWT"}}"#,
            r#"{"oauth2SecurityScheme":{"description":"d","flows":{"implicit":{}},"oauth2MetadataUrl":"m"}}"#,
            r#"{"openIdConnectSecurityScheme":{"description":"d","openIdConnectUrl":"u"}}"#,
            r#"{"mtlsSecurityScheme":{"description":"d"}}"#,
            r#"{"mtlsSecurityScheme":{}}"#,
        ] {
            round_trips::<SecurityScheme>(text);
        }
    }

    #[test]
    fn schemes_of_the_spec() {
        let text = r#"{"google":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://id.example"}}}"#;
        let schemes: BTreeMap<String, SecurityScheme> = serde_json::from_str(text).unwrap();
        let SecurityScheme::OpenIdConnect(google) = &schemes["google"] else { panic!("{schemes:?}") };
        assert_eq!(google.open_id_connect_url, "https://id.example");
        assert_eq!(serde_json::to_string(&schemes).unwrap(), text);
    }

    #[test]
    fn required_empties_stay_and_other_defaults_go() {
        let text = r#"{"apiKeySecurityScheme":{"description":"","location":"","name":""}}"#;
        let key = serde_json::to_string(&scheme(text).unwrap()).unwrap();
        assert_eq!(key, r#"{"apiKeySecurityScheme":{"location":"","name":""}}"#);

        let text = r#"{"authorizationCode":{"authorizationUrl":"a","tokenUrl":"t","refreshUrl":null,"pkceRequired":false}}"#;
        let flows: OAuthFlows = serde_json::from_str(text).unwrap();
        let kept = r#"{"authorizationCode":{"authorizationUrl":"a","tokenUrl":"t","scopes":{}}}"#;
        assert_eq!(serde_json::to_string(&flows).unwrap(), kept);
    }

    #[test]
    fn snake_case_is_read() {
        for (snake, camel) in [
            (
                r#"{"api_key_security_scheme":{"location":"query","name":"k"}}"#,
                r#"{"apiKeySecurityScheme":{"location":"query","name":"k"}}"#,
            ),
            (
                r#"{"http_auth_security_scheme":{"scheme":"bearer","bearer_format":"JWT"}}"#,
                r#"{"httpAuthSecurityScheme":{"scheme":"bearer","bearerFormat":"JWT"}}"#,
            ),
            (
                r#"{"oauth2_security_scheme":{"flows":{"password":{"token_url":"t"}},"oauth2_metadata_url":"m"}}"#,
                r#"{"oauth2SecurityScheme":{"flows":{"password":{"tokenUrl":"t"}},"oauth2MetadataUrl":"m"}}"#,
            ),
            (
                r#"{"open_id_connect_security_scheme":{"open_id_connect_url":"u"}}"#,
                r#"{"openIdConnectSecurityScheme":{"openIdConnectUrl":"u"}}"#,
            ),
            (r#"{"mtls_security_scheme":{}}"#, r#"{"mtlsSecurityScheme":{}}"#),
        ] {
            assert_eq!(serde_json::to_string(&scheme(snake).unwrap()).unwrap(), camel);
        }
        let flows: OAuthFlows =
            serde_json::from_str(r#"{"device_code":{"device_authorization_url":"d","token_url":"t"}}"#)
                .unwrap();
        let camel = r#"{"deviceCode":{"deviceAuthorizationUrl":"d","tokenUrl":"t","scopes":{}}}"#;
        assert_eq!(serde_json::to_string(&flows).unwrap(), camel);
    }

    #[test]
    fn a_scheme_is_exactly_one() {
        let refusal = |text| scheme(text).unwrap_err().to_string();
        let two = r#"{"mtlsSecurityScheme":{},"httpAuthSecurityScheme":{"scheme":"Bearer"}}"#;
        assert!(refusal(two).starts_with("more than one of apiKeySecurityScheme, "));
        let both_spellings = r#"{"mtlsSecurityScheme":{},"mtls_security_scheme":{}}"#;
        assert!(refusal(both_spellings).starts_with("more than one of "));
        for none in ["{}", r#"{"mtlsSecurityScheme":null}"#, r#"{"type":"http","scheme":"bearer"}"#] {
            assert!(refusal(none).starts_with("none of apiKeySecurityScheme, "));
        }
        assert!(refusal("null").contains("expected an object with one of"));
    }

    #[test]
    fn null_and_unknown_members_of_a_scheme_do_not_count() {
        let text = r#"{"apiKeySecurityScheme":null,"type":{"x":[1]},"mtlsSecurityScheme":{}}"#;
        assert_eq!(scheme(text).unwrap(), SecurityScheme::MutualTls(MutualTlsSecurityScheme::default()));
    }

    #[test]
    fn required_strings_must_be_there() {
        for text in [
            r#"{"apiKeySecurityScheme":{"location":"header"}}"#,
            r#"{"apiKeySecurityScheme":{"location":"header","name":null}}"#,
            r#"{"httpAuthSecurityScheme":{}}"#,
            r#"{"openIdConnectSecurityScheme":{}}"#,
            r#"{"oauth2SecurityScheme":{}}"#,
            r#"{"oauth2SecurityScheme":{"flows":{"clientCredentials":{}}}}"#,
        ] {
            assert!(scheme(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_flow_round_trips() {
        for text in [
            r#"{"authorizationCode":{"authorizationUrl":"a","tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"},"pkceRequired":true}}"#,
            r#"{"clientCredentials":{"tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"}}}"#,
            r#"{"implicit":{"authorizationUrl":"a","refreshUrl":"r","scopes":{"s":"d"}}}"#,
            r#"{"password":{"tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"}}}"#,
            r#"{"deviceCode":{"deviceAuthorizationUrl":"d","tokenUrl":"t","refreshUrl":"r","scopes":{"s":"d"}}}"#,
            "{}",
        ] {
            round_trips::<OAuthFlows>(text);
        }
    }

    #[test]
    fn the_first_known_flow_is_kept() {
        let text =
            r#"{"new":1,"password":null,"clientCredentials":{"tokenUrl":"t"},"implicit":{"bad":true}}"#;
        let flows: OAuthFlows = serde_json::from_str(text).unwrap();
        let first = r#"{"clientCredentials":{"tokenUrl":"t","scopes":{}}}"#;
        assert_eq!(serde_json::to_string(&flows).unwrap(), first);
        assert_eq!(serde_json::from_str::<OAuthFlows>(r#"{"new":{}}"#).unwrap(), OAuthFlows::Unset);
    }
}
