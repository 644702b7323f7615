//! Cards that others have signed. The files here were written with the SDKs that they name.

use chancery_protocol::signing::{
    CardPolicy, CardRefusal, Form, JwkSet, SigningKey, TrustedKeys, jws, verify_card,
};
use serde_json::{Value, json};

use crate::{canonical_of, keys, now, trusting, verify};

/// By the SDK for Python: canonical, without empty values.
const PYTHON_1_3: &str = include_str!("python_1_3.json");
/// By the SDK for Python when it was younger: in ASCII, without empty values.
const PYTHON_1_0: &str = include_str!("python_1_0.json");

fn vector(text: &str) -> (Value, JwkSet) {
    let vector: Value = serde_json::from_str(text).unwrap();
    (vector["card"].clone(), serde_json::from_value(vector["keys"].clone()).unwrap())
}

/// The trusted keys of a set, one at a time.
fn each(set: &JwkSet) -> impl Iterator<Item = (String, TrustedKeys)> {
    set.keys.iter().map(|key| {
        let mut trusted = TrustedKeys::default();
        trusted.trust_set(&JwkSet { keys: vec![key.clone()] }, None);
        (key.kid.clone().unwrap(), trusted)
    })
}

#[test]
fn cards_signed_in_python_are_verified_in_the_form_that_they_have() {
    for (text, form) in [(PYTHON_1_3, Form::NoEmpties), (PYTHON_1_0, Form::NoEmptiesAscii)] {
        let (card, set) = vector(text);
        for (kid, trusted) in each(&set) {
            let verified = verify(&card, &trusted).unwrap();
            assert_eq!((verified.kid, verified.form), (kid, form));

            let mut forged = card.clone();
            forged["supportedInterfaces"][0]["url"] = json!("https://b.example/rpc");
            assert!(matches!(verify(&forged, &trusted), Err(CardRefusal::Altered { .. })));

            let strict = CardPolicy { forms: vec![Form::Spec], ..CardPolicy::default() };
            assert!(verify_card(&card.to_string(), &trusted, &strict, now()).is_err());
        }
    }
}

#[test]
fn keys_of_older_versions_beside_the_fields_do_not_matter() {
    // Servers add them to the card that they have signed, for clients of v0.3.
    let (mut card, set) = vector(PYTHON_1_3);
    card["url"] = json!("https://a.example/rpc");
    card["preferredTransport"] = json!("JSONRPC");
    card["securitySchemes"]["key"]["type"] = json!("apiKey");
    let mut trusted = TrustedKeys::default();
    trusted.trust_set(&set, None);
    assert_eq!(verify(&card, &trusted).unwrap().form, Form::NoEmpties);
}

/// A card that somebody has signed without knowing any schema: its JSON as it is.
fn signed_as_it_is(mut card: Value, key: &SigningKey) -> Value {
    let protected =
        jws::encode(json!({"alg": "EdDSA", "kid": key.kid(), "typ": "JOSE"}).to_string().as_bytes());
    let message = format!("{protected}.{}", jws::encode(canonical_of(&card).as_bytes()));
    card["signatures"] =
        json!([{"protected": protected, "signature": jws::encode(&key.sign(message.as_bytes()))}]);
    card
}

#[test]
fn a_card_may_be_signed_as_it_is_of_any_version() {
    let keys = keys();
    let (card, _) = vector(PYTHON_1_3);
    let with_more = {
        let mut card = card;
        card["later"] = json!({"x": ""});
        card
    };
    let old =
        json!({"name": "old", "description": "", "url": "https://a.example", "version": "1", "skills": []});
    for card in [with_more, old] {
        let mut card = signed_as_it_is(card, &keys[0]);
        assert_eq!(verify(&card, &trusting(&keys)).unwrap().form, Form::AsReceived);
        card["description"] = json!("x");
        assert!(verify(&card, &trusting(&keys)).is_err());
    }
}
