//! Whatever is changed in a signed card, it is noticed.

use std::collections::BTreeSet;

use chancery_protocol::signing::{CardPolicy, CardRefusal, Signing, verify_card};
use serde_json::{Value, json};

use crate::{keys, now, signed, trusting, verify};

/// A card with every field there is.
pub(crate) const FULL: &str = r#"{
    "name": "Router", "description": "Plans routes",
    "supportedInterfaces": [
        {"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "tenant": "t", "protocolVersion": "1.0"},
        {"url": "a.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    ],
    "provider": {"url": "https://p.example", "organization": "Zoë"},
    "version": "2.1.0",
    "documentationUrl": "https://a.example/docs",
    "capabilities": {
        "streaming": true, "pushNotifications": false,
        "extensions": [{
            "uri": "urn:x", "description": "d", "required": true,
            "params": {"z": 7, "list": [1.5, "", null, {}], "object": {"deep": true}}
        }],
        "extendedAgentCard": true
    },
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"description": "d", "location": "header", "name": "X-Key"}},
        "http": {"httpAuthSecurityScheme": {"description": "d", "scheme": "Bearer", "bearerFormat": "JWT"}},
        "oidc": {"openIdConnectSecurityScheme": {"description": "d", "openIdConnectUrl": "https://id.example"}},
        "tls": {"mtlsSecurityScheme": {"description": "d"}},
        "code": {"oauth2SecurityScheme": {"description": "d", "oauth2MetadataUrl": "https://m.example", "flows":
            {"authorizationCode": {"authorizationUrl": "https://a.example", "tokenUrl": "https://t.example",
             "refreshUrl": "https://r.example", "scopes": {"s": "d"}, "pkceRequired": true}}}},
        "client": {"oauth2SecurityScheme": {"flows": {"clientCredentials":
            {"tokenUrl": "https://t.example", "refreshUrl": "https://r.example", "scopes": {"s": "d"}}}}},
        "implicit": {"oauth2SecurityScheme": {"flows": {"implicit":
            {"authorizationUrl": "https://a.example", "refreshUrl": "https://r.example", "scopes": {"s": "d"}}}}},
        "password": {"oauth2SecurityScheme": {"flows": {"password":
            {"tokenUrl": "https://t.example", "refreshUrl": "https://r.example", "scopes": {"s": "d"}}}}},
        "device": {"oauth2SecurityScheme": {"flows": {"deviceCode":
            {"deviceAuthorizationUrl": "https://d.example", "tokenUrl": "https://t.example",
             "refreshUrl": "https://r.example", "scopes": {"s": "d"}}}}}
    },
    "securityRequirements": [{"schemes": {"oidc": {"list": ["read"]}}}, {"schemes": {"tls": {}}}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["application/json"],
    "skills": [{
        "id": "s", "name": "S", "description": "does S", "tags": ["map"], "examples": ["from A to B"],
        "inputModes": ["text/plain"], "outputModes": ["image/png"],
        "securityRequirements": [{"schemes": {"oidc": {"list": ["write"]}}}]
    }],
    "iconUrl": "https://a.example/icon.png"
}"#;

/// The names of all fields of a card, from the specification.
const FIELDS: &str = "name description supportedInterfaces provider version documentationUrl capabilities \
    securitySchemes securityRequirements defaultInputModes defaultOutputModes skills iconUrl url protocolBinding tenant \
    protocolVersion organization streaming pushNotifications extensions extendedAgentCard uri required params id tags \
    examples inputModes outputModes schemes list apiKeySecurityScheme httpAuthSecurityScheme oauth2SecurityScheme \
    openIdConnectSecurityScheme mtlsSecurityScheme location scheme bearerFormat flows oauth2MetadataUrl openIdConnectUrl \
    authorizationCode clientCredentials implicit password deviceCode authorizationUrl tokenUrl refreshUrl scopes \
    pkceRequired deviceAuthorizationUrl";

/// What is done to a value: one of these, at one place, makes a forged card.
fn forgeries(value: &Value) -> Vec<Value> {
    let mut all = changes(value);
    all.retain(|forged| forged != value);
    all
}

fn changes(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!(0), json!("")],
        Value::Bool(truth) => vec![json!(!truth)],
        Value::Number(_) => vec![json!(8), json!("7")],
        Value::String(text) => vec![json!(format!("{text}x")), json!(""), json!(format!(" {text}"))],
        Value::Array(values) => {
            let mut longer = values.clone();
            longer.push(values[0].clone());
            let shorter = values[1..].to_vec();
            let reversed = values.iter().rev().cloned().collect();
            let mut all = vec![json!(longer), json!(shorter), json!([])];
            all.extend((values.len() > 1).then_some(Value::Array(reversed)));
            all
        }
        Value::Object(entries) => {
            let mut all = vec![json!({})];
            for name in entries.keys() {
                let mut fewer = entries.clone();
                fewer.remove(name);
                all.push(Value::Object(fewer));
                let mut renamed = entries.clone();
                let entry = renamed.remove(name).unwrap();
                renamed.insert(format!("{name}x"), entry);
                all.push(Value::Object(renamed));
            }
            all
        }
    }
}

/// Every place in a card, as a JSON pointer.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    found.push(place.to_owned());
    match value {
        Value::Array(values) => {
            values
                .iter()
                .enumerate()
                .for_each(|(index, value)| places(value, &format!("{place}/{index}"), found));
        }
        Value::Object(entries) => {
            entries.iter().for_each(|(name, value)| places(value, &format!("{place}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn a_change_to_any_field_is_noticed() {
    // One signature is enough here, and there are hundreds of cards to verify.
    let keys = &keys()[..1];
    let trusted = trusting(keys);
    let card = signed(keys, &Signing::default());
    assert!(verify(&card, &trusted).is_ok());
    let mut unsigned = card.clone();
    unsigned.as_object_mut().unwrap().remove("signatures");
    let mut all = Vec::new();
    places(&unsigned, "", &mut all);

    let mut forged = 0;
    for place in &all {
        for value in forgeries(unsigned.pointer(place).unwrap()) {
            let mut changed = unsigned.clone();
            *changed.pointer_mut(place).unwrap() = value;
            changed["signatures"] = card["signatures"].clone();
            let verdict = verify(&changed, &trusted);
            assert!(
                matches!(verdict, Err(CardRefusal::Altered { .. })),
                "{place}: {verdict:?} for {changed}"
            );
            forged += 1;
        }
    }
    assert!(forged > 400, "only {forged} forgeries");
    let visited: BTreeSet<_> = all.iter().filter_map(|place| place.rsplit('/').next()).collect();
    let missed: Vec<_> = FIELDS.split_whitespace().filter(|field| !visited.contains(field)).collect();
    assert!(missed.is_empty(), "no forgery of {missed:?}");
}

#[test]
fn nothing_can_be_added_to_a_card_not_even_what_is_empty() {
    let keys = keys();
    let trusted = trusting(&keys);
    let card = signed(&keys, &Signing::default());
    let additions = [
        ("/securityRequirements/-", json!({"schemes": {"key": {}}})),
        ("/securityRequirements/-", json!({})),
        ("/securityRequirements/0/schemes/key", json!({})),
        ("/securitySchemes/more", json!({"mtlsSecurityScheme": {}})),
        ("/capabilities/extensions/-", json!({"uri": ""})),
        ("/capabilities/extensions/0/params/more", json!(null)),
        ("/skills/0/tags/-", json!("")),
        ("/defaultInputModes/-", json!("")),
    ];
    for (place, value) in additions {
        let mut changed = card.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(values) => values.push(value),
            parent => parent[name] = value,
        }
        assert!(verify(&changed, &trusted).is_err(), "{place}");
    }
}

#[test]
fn a_key_that_is_written_twice_is_noticed() {
    let keys = keys();
    let text = signed(&keys, &Signing::default()).to_string();
    for (once, twice) in [
        (r#""name":"Router""#, r#""name":"Forged","name":"Router""#),
        (r#""z":7"#, r#""z":8,"z":7"#),
        (r#""tls":{}"#, r#""tls":{"list":["x"]},"tls":{}"#),
    ] {
        assert!(text.contains(once), "{once}");
        let verdict =
            verify_card(&text.replace(once, twice), &trusting(&keys), &CardPolicy::default(), now());
        assert!(matches!(verdict, Err(CardRefusal::Unreadable(_))), "{twice}: {verdict:?}");
    }
}

#[test]
fn what_is_no_field_neither_breaks_a_signature_nor_is_covered_by_it() {
    let keys = keys();
    let mut card = signed(&keys, &Signing::default());
    // As in a card that is served to clients of v0.3 as well.
    card["url"] = json!("https://old.example");
    card["skills"][0]["security"] = json!([]);
    assert!(verify(&card, &trusting(&keys)).is_ok());
}
