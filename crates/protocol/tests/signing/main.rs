//! Cards are signed so that whoever reads them can tell, and nobody can change them unnoticed.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

#[path = "../strategies/mod.rs"]
mod strategies;

mod others;
mod tampering;

use chancery_protocol::signing::jws::{self, Header};
use chancery_protocol::signing::{
    AgentKey, Algorithm, CardPolicy, CardRefusal, Form, P256Key, Signing, SigningKey, TrustedKeys, Verified,
    sign_card, verify_card,
};
use chancery_protocol::{AgentCard, SecurityRequirement, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use strategies::{card, tries};

fn keys() -> [SigningKey; 2] {
    [AgentKey::from_seed(&[1; 32]).into(), P256Key::generate().unwrap().into()]
}

fn trusting(keys: &[SigningKey]) -> TrustedKeys {
    let mut trusted = TrustedKeys::default();
    keys.iter().for_each(|key| trusted.trust(key.public()));
    trusted
}

fn strict() -> CardPolicy {
    CardPolicy { forms: vec![Form::Spec], ..CardPolicy::default() }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

fn signed(keys: &[SigningKey], signing: &Signing) -> Value {
    let mut card: AgentCard = serde_json::from_str(tampering::FULL).unwrap();
    sign_card(&mut card, &keys.iter().collect::<Vec<_>>(), signing).unwrap();
    serde_json::to_value(&card).unwrap()
}

fn verify(card: &Value, keys: &TrustedKeys) -> Result<Verified, CardRefusal> {
    verify_card(&card.to_string(), keys, &CardPolicy::default(), now())
}

/// The card with another protected header, signed anew with the key.
fn with_header(mut card: Value, key: &SigningKey, change: impl FnOnce(&mut Value)) -> Value {
    let protected = card["signatures"][0]["protected"].as_str().unwrap().to_owned();
    let mut header: Value = serde_json::from_slice(&jws::decode(&protected).unwrap()).unwrap();
    change(&mut header);
    let protected = jws::encode(header.to_string().as_bytes());
    let payload = canonical_of(&card);
    let message = format!("{protected}.{}", jws::encode(payload.as_bytes()));
    card["signatures"] =
        json!([{"protected": protected, "signature": jws::encode(&key.sign(message.as_bytes()))}]);
    card
}

fn canonical_of(card: &Value) -> String {
    let mut unsigned = card.clone();
    unsigned.as_object_mut().unwrap().remove("signatures");
    chancery_protocol::signing::canonical_json(&unsigned.to_string()).unwrap()
}

#[test]
fn each_key_signs_and_each_signature_is_enough() {
    let keys = keys();
    let card =
        signed(&keys, &Signing { jku: Some("https://a.example/jwks.json".to_owned()), ..Signing::default() });
    assert_eq!(card["signatures"].as_array().unwrap().len(), 2);
    for (key, algorithm) in keys.iter().zip([Algorithm::EdDsa, Algorithm::Es256]) {
        let mut trusted = TrustedKeys::default();
        trusted.trust(key.public());
        let verified = verify(&card, &trusted).unwrap();
        assert_eq!((verified.kid.as_str(), verified.form), (key.kid(), Form::Spec));
        assert_eq!(verified.key.algorithm(), algorithm);
    }
    let protected = card["signatures"][0]["protected"].as_str().unwrap();
    let header: Header = serde_json::from_slice(&jws::decode(protected).unwrap()).unwrap();
    assert_eq!((header.alg.as_str(), header.kid.as_deref()), ("EdDSA", Some(keys[0].kid())));
    assert_eq!(
        (header.typ.as_deref(), header.jku.as_deref()),
        (Some("JOSE"), Some("https://a.example/jwks.json"))
    );
}

#[test]
fn signing_again_replaces_what_was_there() {
    let keys = keys();
    let mut card: AgentCard = serde_json::from_value(signed(&keys, &Signing::default())).unwrap();
    sign_card(&mut card, &[&keys[0]], &Signing::default()).unwrap();
    assert_eq!(card.signatures.len(), 1);
    assert!(verify(&serde_json::to_value(&card).unwrap(), &trusting(&keys)).is_ok());
}

#[test]
fn keys_that_are_unknown_or_expired_do_not_count() {
    let keys = keys();
    let card = signed(&keys[..1], &Signing::default());
    let refusal = verify(&card, &trusting(&keys[1..])).unwrap_err();
    assert!(matches!(refusal, CardRefusal::UnknownKey { kid } if kid == keys[0].kid()));

    let mut expired = TrustedKeys::default();
    expired.trust_as(keys[0].kid(), keys[0].public(), Some(now()));
    assert!(matches!(verify(&card, &expired), Err(CardRefusal::Expired { .. })));
    let mut expiring = TrustedKeys::default();
    expiring.trust_as(keys[0].kid(), keys[0].public(), Some(Timestamp::from_millis(now().as_millis() + 1)));
    assert!(verify(&card, &expiring).is_ok());

    // Another key under the same name is another key.
    let mut other = TrustedKeys::default();
    other.trust_as(keys[0].kid(), AgentKey::generate().unwrap().public(), None);
    assert!(matches!(verify(&card, &other), Err(CardRefusal::Altered { .. })));
}

#[test]
fn an_agent_is_trusted_by_its_id_with_the_key_that_comes_along() {
    let keys = keys();
    let id = |key: &SigningKey| key.public().agent_id().unwrap();
    let card = signed(&keys, &Signing::default());
    let mut trusted = TrustedKeys::default();
    trusted.trust_agent(id(&keys[0]));
    assert_eq!(verify(&card, &trusted).unwrap().key, keys[0].public());

    let mut forged = card.clone();
    forged["name"] = json!("somebody else");
    assert!(matches!(verify(&forged, &trusted), Err(CardRefusal::Altered { .. })));

    // Whoever brings a key of its own, under whatever name, is somebody else.
    let other = [AgentKey::generate().unwrap().into()];
    let theirs = signed(&other, &Signing::default());
    let renamed = with_header(theirs.clone(), &other[0], |header| header["kid"] = json!(keys[0].kid()));
    for card in [theirs, renamed] {
        assert!(matches!(verify(&card, &trusted), Err(CardRefusal::UnknownKey { .. })));
    }
    let borrowed = with_header(card, &other[0], |_| {});
    assert!(matches!(verify(&borrowed, &trusted), Err(CardRefusal::Altered { .. })));
}

#[test]
fn the_algorithm_is_the_key_s_and_one_that_is_allowed() {
    let keys = keys();
    let card = signed(&keys[..1], &Signing::default());
    let trusted = trusting(&keys);
    for alg in ["none", "HS256", "HS512", "RS256", "ES256", ""] {
        let changed = with_header(card.clone(), &keys[0], |header| header["alg"] = json!(alg));
        assert!(
            matches!(verify(&changed, &trusted), Err(CardRefusal::Algorithm { algorithm }) if algorithm == alg)
        );
    }
    let only_es256 = CardPolicy { algorithms: vec![Algorithm::Es256], ..CardPolicy::default() };
    let refusal = verify_card(&card.to_string(), &trusted, &only_es256, now()).unwrap_err();
    assert!(matches!(refusal, CardRefusal::Algorithm { algorithm } if algorithm == "EdDSA"));
}

#[test]
fn a_header_that_cannot_be_followed_is_refused() {
    let keys = keys();
    let card = signed(&keys[..1], &Signing::default());
    let trusted = trusting(&keys);
    assert!(verify(&with_header(card.clone(), &keys[0], |_| ()), &trusted).is_ok());
    for (name, value) in [("crit", json!(["b64"])), ("kid", Value::Null), ("kid", json!(7))] {
        let changed = with_header(card.clone(), &keys[0], |header| header[name] = value);
        assert!(matches!(verify(&changed, &trusted), Err(CardRefusal::Malformed)), "{name}");
    }
    let changed = with_header(card, &keys[0], |header| header["urn:chancery:form"] = json!("another"));
    assert!(matches!(verify(&changed, &trusted), Err(CardRefusal::Altered { .. })));
}

#[test]
fn a_card_without_a_usable_signature_is_refused() {
    let keys = keys();
    let card = signed(&keys, &Signing::default());
    let trusted = trusting(&keys);
    let with = |signatures: Value| {
        let mut card = card.clone();
        card["signatures"] = signatures;
        verify(&card, &trusted).unwrap_err()
    };
    assert!(matches!(with(Value::Null), CardRefusal::Unsigned));
    assert!(matches!(with(json!([])), CardRefusal::Unsigned));
    assert!(matches!(with(json!("e30")), CardRefusal::Unsigned));
    assert!(matches!(
        with(json!([null, 1, {}, {"protected": "?", "signature": "e30"}])),
        CardRefusal::Malformed
    ));
    assert!(matches!(with(json!(vec![card["signatures"][0].clone(); 17])), CardRefusal::TooManySignatures));
    for text in ["", "[", "null", "[]", "7"] {
        assert!(verify_card(text, &trusted, &CardPolicy::default(), now()).is_err());
    }
}

#[test]
fn one_good_signature_among_bad_ones_is_found() {
    let keys = keys();
    let mut card = signed(&keys, &Signing::default());
    let signatures = card["signatures"].as_array_mut().unwrap();
    signatures[0]["signature"] = signatures[1]["signature"].clone();
    signatures.insert(0, json!({"protected": "", "signature": ""}));
    assert_eq!(verify(&card, &trusting(&keys)).unwrap().kid, keys[1].kid());
}

#[test]
fn what_readers_without_empties_verify_is_signed_only_when_asked_for() {
    let keys = keys();
    let trusted = trusting(&keys);
    let mut card: AgentCard = serde_json::from_str(tampering::FULL).unwrap();
    card.security_requirements.push(SecurityRequirement::default().and("key", &[]));
    let signing = Signing { for_readers_without_empties: true, ..Signing::default() };
    for (signing, signatures) in [(Signing::default(), 1), (signing, 2)] {
        sign_card(&mut card, &[&keys[0]], &signing).unwrap();
        assert_eq!(card.signatures.len(), signatures);
        let mut stripped = serde_json::to_value(&card).unwrap();
        assert_eq!(verify(&stripped, &trusted).unwrap().form, Form::Spec);
        stripped["securityRequirements"].as_array_mut().unwrap().pop();
        // This is what such a signature costs, with those who take it.
        assert_eq!(verify(&stripped, &trusted).is_ok(), signatures == 2);
        assert!(verify_card(&stripped.to_string(), &trusted, &strict(), now()).is_err());
    }
}

proptest! {
    #![proptest_config(tries(100))]

    #[test]
    fn every_card_that_has_a_canonical_form_can_be_signed_and_verified(card in card::card()) {
        let keys = [SigningKey::from(AgentKey::from_seed(&[1; 32]))];
        let mut card = card;
        if sign_card(&mut card, &[&keys[0]], &Signing::default()).is_ok() {
            let text = serde_json::to_string(&card).unwrap();
            let verified = verify_card(&text, &trusting(&keys), &strict(), now());
            prop_assert!(verified.is_ok(), "{verified:?}: {text}");
        }
    }
}
