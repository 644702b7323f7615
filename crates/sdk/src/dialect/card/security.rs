//! Security schemes and requirements, however they are spelled.

use std::collections::BTreeMap;

use chancery_protocol::field::null_as_default;
use chancery_protocol::{
    ApiKeySecurityScheme, HttpAuthSecurityScheme, Json, MutualTlsSecurityScheme, OAuth2SecurityScheme,
    OAuthFlows, OpenIdConnectSecurityScheme, SecurityRequirement, SecurityScheme, StringList,
};
use serde::Deserialize;

/// What v0.1 has instead of schemes.
#[derive(Deserialize)]
pub(super) struct Authentication {
    #[serde(default, deserialize_with = "null_as_default")]
    schemes: Vec<String>,
}

#[derive(Clone, Copy)]
enum Kind {
    ApiKey,
    Http,
    OAuth2,
    OpenIdConnect,
    MutualTls,
}

type Fields = BTreeMap<String, Json>;

impl Authentication {
    /// Each of its schemes is one of HTTP's, and enough.
    pub(super) fn into_schemes(self) -> (BTreeMap<String, SecurityScheme>, Vec<SecurityRequirement>) {
        let scheme = |name: String| {
            let scheme = HttpAuthSecurityScheme { scheme: name.clone(), ..Default::default() };
            (name, SecurityScheme::HttpAuth(scheme))
        };
        let requirements = self.schemes.iter().map(|name| SecurityRequirement::default().and(&**name, &[]));
        let requirements = requirements.collect();
        (self.schemes.into_iter().map(scheme).collect(), requirements)
    }
}

/// The schemes that can be understood.
pub(super) fn schemes(written: &BTreeMap<String, Json>) -> BTreeMap<String, SecurityScheme> {
    let known = |(name, json): (&String, &Json)| Some((name.clone(), scheme(json, None)?));
    written.iter().filter_map(known).collect()
}

/// A scheme: as ProtoJSON writes it, in a member of its own; as TypeScript does, with `$case`; or flat, with `type`.
fn scheme(json: &Json, known: Option<Kind>) -> Option<SecurityScheme> {
    let fields: Fields = json.to_value().ok()?;
    if known.is_none() {
        for (name, value) in fields.iter().filter(|(_, value)| value.as_str().starts_with('{')) {
            if let Some(kind) = Kind::named(name) {
                return scheme(value, Some(kind));
            }
        }
        if let Some(inner) = fields.get("scheme").filter(|inner| inner.as_str().starts_with('{')) {
            let inner_fields: Fields = inner.to_value().ok()?;
            let case = text(&inner_fields, &["$case"]);
            let value = inner_fields.get("value").or_else(|| inner_fields.get(&case))?;
            return scheme(value, Some(Kind::named(&case)?));
        }
    }
    let kind = known.or_else(|| Kind::named(&text(&fields, &["type"])))?;
    let description = text(&fields, &["description"]);
    Some(match kind {
        Kind::ApiKey => SecurityScheme::ApiKey(ApiKeySecurityScheme {
            description,
            location: text(&fields, &["location", "in", "in_"]),
            name: text(&fields, &["name"]),
        }),
        Kind::Http => SecurityScheme::HttpAuth(HttpAuthSecurityScheme {
            description,
            scheme: text(&fields, &["scheme"]),
            bearer_format: text(&fields, &["bearerFormat", "bearer_format"]),
        }),
        Kind::OAuth2 => SecurityScheme::OAuth2(OAuth2SecurityScheme {
            description,
            flows: fields.get("flows").map(flows).unwrap_or_default(),
            oauth2_metadata_url: text(&fields, &["oauth2MetadataUrl", "oauth2_metadata_url"]),
        }),
        Kind::OpenIdConnect => SecurityScheme::OpenIdConnect(OpenIdConnectSecurityScheme {
            description,
            open_id_connect_url: text(&fields, &["openIdConnectUrl", "open_id_connect_url"]),
        }),
        Kind::MutualTls => SecurityScheme::MutualTls(MutualTlsSecurityScheme { description }),
    })
}

/// OpenAPI lists several flows where v1.0 has one: the first of these that can be read.
fn flows(json: &Json) -> OAuthFlows {
    const ORDER: [&str; 9] = [
        "authorizationCode",
        "authorization_code",
        "clientCredentials",
        "client_credentials",
        "deviceCode",
        "device_code",
        "implicit",
        "password",
        "$case",
    ];
    let Ok(fields) = json.to_value::<Fields>() else { return OAuthFlows::Unset };
    let only = |name: &str| {
        let flow = fields.get(name).filter(|flow| flow.as_str().starts_with('{'))?;
        let alone = Json::from_value(&BTreeMap::from([(name, flow)])).ok()?;
        alone.to_value::<OAuthFlows>().ok().filter(|flows| *flows != OAuthFlows::Unset)
    };
    ORDER.iter().find_map(|name| only(name)).unwrap_or_default()
}

/// What is required, under either name: the newer one counts if it is there.
pub(super) fn requirements(newer: &[Json], older: &[Json]) -> Vec<SecurityRequirement> {
    let written = if newer.is_empty() { older } else { newer };
    written.iter().filter_map(requirement).collect()
}

/// The scopes by the names of the schemes, bare or as ProtoJSON wraps them.
fn requirement(json: &Json) -> Option<SecurityRequirement> {
    let fields: Fields = json.to_value().ok()?;
    let wrapped = fields.get("schemes").filter(|schemes| schemes.as_str().starts_with('{'));
    let fields = match wrapped {
        Some(schemes) => schemes.to_value().ok()?,
        None => fields,
    };
    let list = |json: &Json| match json.to_value::<Vec<String>>() {
        Ok(list) => StringList { list },
        Err(_) => json.to_value().unwrap_or_default(),
    };
    Some(SecurityRequirement {
        schemes: fields.iter().map(|(name, json)| (name.clone(), list(json))).collect(),
    })
}

/// The first of these fields that is a text.
fn text(fields: &Fields, names: &[&str]) -> String {
    let found = names.iter().find_map(|name| fields.get(*name)?.to_value::<String>().ok());
    found.unwrap_or_default()
}

impl Kind {
    /// The kind that a type, a member or a case names, in any spelling.
    fn named(name: &str) -> Option<Self> {
        let plain: String =
            name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        match plain.trim_end_matches("securityscheme").trim_end_matches("scheme") {
            "apikey" => Some(Self::ApiKey),
            "http" | "httpauth" => Some(Self::Http),
            "oauth2" | "oauth" => Some(Self::OAuth2),
            "openidconnect" | "oidc" => Some(Self::OpenIdConnect),
            "mtls" | "mutualtls" => Some(Self::MutualTls),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<SecurityScheme> {
        scheme(&Json::parse(json).unwrap(), None)
    }

    #[test]
    fn schemes_are_read_in_every_spelling() {
        let key = SecurityScheme::api_key_header("X-Key");
        for json in [
            r#"{"type":"apiKey","in":"header","name":"X-Key"}"#,
            r#"{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}}"#,
            r#"{"api_key_security_scheme":{"location":"header","name":"X-Key"}}"#,
            r#"{"apiKey":{"in":"header","name":"X-Key"}}"#,
            r#"{"scheme":{"$case":"apiKeySecurityScheme","value":{"location":"header","name":"X-Key"}}}"#,
            r#"{"scheme":{"$case":"apiKeySecurityScheme","apiKeySecurityScheme":{"location":"header","name":"X-Key"}}}"#,
            r#"{"type":"apiKey","in":"header","name":"X-Key","apiKeySecurityScheme":{"location":"header","name":"X-Key"}}"#,
        ] {
            assert_eq!(read(json), Some(key.clone()), "{json}");
        }
        assert_eq!(read(r#"{"type":"http","scheme":"Bearer"}"#), Some(SecurityScheme::bearer()));
        assert_eq!(read(r#"{"httpAuthSecurityScheme":{"scheme":"Bearer"}}"#), Some(SecurityScheme::bearer()));
        assert!(matches!(read(r#"{"type":"mutualTLS"}"#), Some(SecurityScheme::MutualTls(_))));
        assert!(matches!(read(r#"{"mtls_security_scheme":{}}"#), Some(SecurityScheme::MutualTls(_))));
        for json in
            ["7", "{}", r#"{"type":"magic"}"#, r#"{"scheme":{"$case":"x"}}"#, r#"{"scheme":"Bearer"}"#]
        {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn of_several_flows_the_best_is_taken() {
        let flow = r#"{"authorizationUrl":"a","tokenUrl":"t","scopes":{}}"#;
        let json = format!(r#"{{"type":"oauth2","flows":{{"implicit":{flow},"authorizationCode":{flow}}}}}"#);
        let Some(SecurityScheme::OAuth2(scheme)) = read(&json) else { panic!("{json}") };
        assert!(matches!(scheme.flows, OAuthFlows::AuthorizationCode(_)), "{scheme:?}");
        let Some(SecurityScheme::OAuth2(scheme)) = read(r#"{"type":"oauth2","flows":{"x":{}}}"#) else {
            panic!()
        };
        assert_eq!(scheme.flows, OAuthFlows::Unset);
    }

    #[test]
    fn requirements_are_read_in_either_shape() {
        let wanted = SecurityRequirement::default().and("o", &["read"]).and("k", &[]);
        for json in [
            r#"{"o":["read"],"k":[]}"#,
            r#"{"schemes":{"o":{"list":["read"]},"k":{}}}"#,
            r#"{"schemes":{"o":["read"],"k":[]}}"#,
        ] {
            assert_eq!(requirement(&Json::parse(json).unwrap()), Some(wanted.clone()), "{json}");
        }
    }
}
