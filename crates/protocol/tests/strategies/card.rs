//! Arbitrary agent cards and everything that stands in one.

use std::collections::BTreeMap;

use chancery_protocol::*;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

use super::json::metadata;
use super::{text, texts};

// === security ===

fn scopes() -> impl Strategy<Value = BTreeMap<String, String>> + Clone {
    btree_map(text(), text(), 0..3)
}

pub(crate) fn string_list() -> impl Strategy<Value = StringList> + Clone {
    texts().prop_map(|list| StringList { list })
}

pub(crate) fn requirement() -> impl Strategy<Value = SecurityRequirement> + Clone {
    btree_map(text(), string_list(), 0..3).prop_map(|schemes| SecurityRequirement { schemes })
}

pub(crate) fn api_key() -> impl Strategy<Value = ApiKeySecurityScheme> + Clone {
    (text(), text(), text()).prop_map(|(description, location, name)| ApiKeySecurityScheme {
        description,
        location,
        name,
    })
}

pub(crate) fn http_auth() -> impl Strategy<Value = HttpAuthSecurityScheme> + Clone {
    (text(), text(), text()).prop_map(|(description, scheme, bearer_format)| HttpAuthSecurityScheme {
        description,
        scheme,
        bearer_format,
    })
}

pub(crate) fn oauth2() -> impl Strategy<Value = OAuth2SecurityScheme> + Clone {
    (text(), flows(), text()).prop_map(|(description, flows, oauth2_metadata_url)| OAuth2SecurityScheme {
        description,
        flows,
        oauth2_metadata_url,
    })
}

pub(crate) fn open_id_connect() -> impl Strategy<Value = OpenIdConnectSecurityScheme> + Clone {
    (text(), text()).prop_map(|(description, open_id_connect_url)| OpenIdConnectSecurityScheme {
        description,
        open_id_connect_url,
    })
}

pub(crate) fn mutual_tls() -> impl Strategy<Value = MutualTlsSecurityScheme> + Clone {
    text().prop_map(|description| MutualTlsSecurityScheme { description })
}

pub(crate) fn scheme() -> impl Strategy<Value = SecurityScheme> + Clone {
    prop_oneof![
        api_key().prop_map(SecurityScheme::ApiKey),
        http_auth().prop_map(SecurityScheme::HttpAuth),
        oauth2().prop_map(SecurityScheme::OAuth2),
        open_id_connect().prop_map(SecurityScheme::OpenIdConnect),
        mutual_tls().prop_map(SecurityScheme::MutualTls),
    ]
}

pub(crate) fn authorization_code() -> impl Strategy<Value = AuthorizationCodeOAuthFlow> + Clone {
    (text(), text(), text(), scopes(), any::<bool>()).prop_map(
        |(authorization_url, token_url, refresh_url, scopes, pkce_required)| AuthorizationCodeOAuthFlow {
            authorization_url,
            token_url,
            refresh_url,
            scopes,
            pkce_required,
        },
    )
}

pub(crate) fn client_credentials() -> impl Strategy<Value = ClientCredentialsOAuthFlow> + Clone {
    (text(), text(), scopes()).prop_map(|(token_url, refresh_url, scopes)| ClientCredentialsOAuthFlow {
        token_url,
        refresh_url,
        scopes,
    })
}

pub(crate) fn implicit() -> impl Strategy<Value = ImplicitOAuthFlow> + Clone {
    (text(), text(), scopes()).prop_map(|(authorization_url, refresh_url, scopes)| ImplicitOAuthFlow {
        authorization_url,
        refresh_url,
        scopes,
    })
}

pub(crate) fn password() -> impl Strategy<Value = PasswordOAuthFlow> + Clone {
    (text(), text(), scopes()).prop_map(|(token_url, refresh_url, scopes)| PasswordOAuthFlow {
        token_url,
        refresh_url,
        scopes,
    })
}

pub(crate) fn device_code() -> impl Strategy<Value = DeviceCodeOAuthFlow> + Clone {
    (text(), text(), text(), scopes()).prop_map(
        |(device_authorization_url, token_url, refresh_url, scopes)| DeviceCodeOAuthFlow {
            device_authorization_url,
            token_url,
            refresh_url,
            scopes,
        },
    )
}

pub(crate) fn flows() -> impl Strategy<Value = OAuthFlows> + Clone {
    prop_oneof![
        authorization_code().prop_map(OAuthFlows::AuthorizationCode),
        client_credentials().prop_map(OAuthFlows::ClientCredentials),
        implicit().prop_map(OAuthFlows::Implicit),
        password().prop_map(OAuthFlows::Password),
        device_code().prop_map(OAuthFlows::DeviceCode),
        Just(OAuthFlows::Unset),
    ]
}

// === the card ===

pub(crate) fn binding() -> impl Strategy<Value = ProtocolBinding> + Clone {
    prop_oneof![
        Just(ProtocolBinding::JsonRpc),
        Just(ProtocolBinding::Grpc),
        Just(ProtocolBinding::HttpJson),
        text().prop_map(ProtocolBinding::from),
    ]
}

pub(crate) fn interface() -> impl Strategy<Value = AgentInterface> + Clone {
    (text(), binding(), text(), text()).prop_map(|(url, protocol_binding, tenant, protocol_version)| {
        AgentInterface { url, protocol_binding, tenant, protocol_version }
    })
}

pub(crate) fn provider() -> impl Strategy<Value = AgentProvider> + Clone {
    (text(), text()).prop_map(|(url, organization)| AgentProvider { url, organization })
}

pub(crate) fn extension() -> impl Strategy<Value = AgentExtension> + Clone {
    (text(), text(), any::<bool>(), metadata()).prop_map(|(uri, description, required, params)| {
        AgentExtension { uri, description, required, params }
    })
}

pub(crate) fn capabilities() -> impl Strategy<Value = AgentCapabilities> + Clone {
    (of(any::<bool>()), of(any::<bool>()), vec(extension(), 0..3), of(any::<bool>())).prop_map(
        |(streaming, push_notifications, extensions, extended_agent_card)| AgentCapabilities {
            streaming,
            push_notifications,
            extensions,
            extended_agent_card,
        },
    )
}

pub(crate) fn skill() -> impl Strategy<Value = AgentSkill> + Clone {
    let words = (text(), text(), text());
    (words, texts(), texts(), texts(), texts(), vec(requirement(), 0..2)).prop_map(
        |((id, name, description), tags, examples, input_modes, output_modes, security_requirements)| {
            AgentSkill {
                id,
                name,
                description,
                tags,
                examples,
                input_modes,
                output_modes,
                security_requirements,
            }
        },
    )
}

pub(crate) fn signature() -> impl Strategy<Value = AgentCardSignature> + Clone {
    (text(), text(), metadata()).prop_map(|(protected, signature, header)| AgentCardSignature {
        protected,
        signature,
        header,
    })
}

pub(crate) fn card() -> impl Strategy<Value = AgentCard> + Clone {
    let words = (text(), text(), text(), of(text()), of(text()));
    let abilities = (vec(interface(), 1..3), of(provider()), capabilities(), vec(skill(), 0..3));
    let security = (btree_map(text(), scheme(), 0..3), vec(requirement(), 0..2), vec(signature(), 0..2));
    (words, abilities, security, texts(), texts()).prop_map(
        |(words, abilities, security, default_input_modes, default_output_modes)| AgentCard {
            name: words.0,
            description: words.1,
            supported_interfaces: abilities.0,
            provider: abilities.1,
            version: words.2,
            documentation_url: words.3,
            capabilities: abilities.2,
            security_schemes: security.0,
            security_requirements: security.1,
            default_input_modes,
            default_output_modes,
            skills: abilities.3,
            signatures: security.2,
            icon_url: words.4,
        },
    )
}
