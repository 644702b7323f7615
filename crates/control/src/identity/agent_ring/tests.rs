//! Tokens of agents are believed for what they prove, and for no longer.

use chancery_protocol::signing::{AgentKey, jws};
use serde_json::{Value, json};

use super::super::agent_token::mint_agent_token;
use super::*;

const NOW: Millis = Millis(1_800_000_000_000);
const HERE: &str = "https://gateway.example";

fn rules() -> TokenRules {
    TokenRules { audiences: vec![HERE.to_owned()], ..TokenRules::default() }
}

fn trusting(keys: &[&AgentKey]) -> AgentRing {
    let ring = AgentRing::new(rules());
    let agents = keys.iter().map(|key| TrustedAgent {
        groups: vec!["planners".into()],
        agent: Some("planner".into()),
        ..TrustedAgent::new(key.id(), "default", "planner")
    });
    ring.replace(agents, NOW).unwrap();
    ring
}

fn minted(key: &AgentKey) -> String {
    mint_agent_token(key, HERE, MAX_LIFETIME, None, NOW).unwrap()
}

fn claims(key: &AgentKey) -> Value {
    let seconds = NOW.0 / 1000;
    json!({"iss": key.id(), "aud": HERE, "iat": seconds, "exp": seconds + 60})
}

/// The claims with some of them changed, signed.
fn with(key: &AgentKey, changes: &Value) -> String {
    let mut claims = claims(key);
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    jws::sign_token(key, "JWT", &claims).unwrap()
}

#[test]
fn a_token_proves_which_agent_calls() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let token = minted(&key);
    // The second time from memory.
    for _ in 0..2 {
        let proof = ring.verify(&token, NOW).unwrap();
        assert_eq!(proof.caller.principal, Principal::new("default", "planner"));
        assert_eq!(proof.caller.identity.proof, Proof::AgentToken);
        assert_eq!(proof.caller.identity.agent_id.as_deref(), Some(&*key.id().to_string()));
        assert_eq!(proof.binding, None);
    }
    assert_eq!(ring.trust.load().verified.read().tokens.len(), 1);
}

#[test]
fn a_token_ends_also_in_memory() {
    let key = AgentKey::generate().unwrap();
    let token = minted(&key);
    for remembered in [false, true] {
        let ring = trusting(&[&key]);
        if remembered {
            ring.verify(&token, NOW).unwrap();
        }
        assert!(ring.verify(&token, NOW + Duration::from_millis(64_999)).is_ok());
        let refusal = trusting(&[&key]).verify(&token, NOW + Duration::from_secs(65)).unwrap_err();
        assert_eq!(refusal, TokenRefusal::Time);
        assert_eq!(ring.verify(&token, NOW + Duration::from_secs(65)).unwrap_err(), TokenRefusal::Time);
    }
}

#[test]
fn an_agent_that_is_no_longer_trusted_is_out_at_once() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let token = minted(&key);
    assert!(ring.verify(&token, NOW).is_ok());
    ring.replace([], NOW).unwrap();
    assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::UnknownAgent);
}

#[test]
fn what_a_token_says_is_held_against_it() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let seconds = NOW.0 / 1000;
    for (changes, refusal) in [
        (json!({"iss": AgentKey::generate().unwrap().id()}), TokenRefusal::UnknownAgent),
        (json!({"iss": "planner"}), TokenRefusal::Malformed),
        (json!({"aud": "https://other.example"}), TokenRefusal::Audience),
        (json!({"aud": ""}), TokenRefusal::Audience),
        (json!({"exp": seconds + 61}), TokenRefusal::Time),
        (json!({"exp": u64::MAX}), TokenRefusal::Time),
        (json!({"iat": u64::MAX, "exp": u64::MAX}), TokenRefusal::Time),
        (json!({"iat": seconds - 70, "exp": seconds - 10}), TokenRefusal::Time),
        (json!({"iat": seconds + 6, "exp": seconds + 20}), TokenRefusal::Time),
        (json!({"iat": seconds + 1, "exp": seconds}), TokenRefusal::Time),
        (json!({"nbf": seconds + 6}), TokenRefusal::Time),
        (json!({"nbf": u64::MAX}), TokenRefusal::Time),
        (json!({"nbf": "soon"}), TokenRefusal::Malformed),
        (json!({"exp": null}), TokenRefusal::Malformed),
        (json!({"iat": null}), TokenRefusal::Malformed),
        (json!({"urn:chancery:body": "x"}), TokenRefusal::Malformed),
        (json!({"urn:chancery:body": "x", "jti": "j".repeat(129)}), TokenRefusal::Malformed),
    ] {
        assert_eq!(ring.verify(&with(&key, &changes), NOW).unwrap_err(), refusal, "{changes}");
    }
    assert!(ring.verify(&with(&key, &json!({"iat": seconds + 5})), NOW).is_ok());
    assert!(ring.verify(&with(&key, &json!({"nbf": seconds + 5})), NOW).is_ok());
    assert!(ring.verify(&with(&key, &json!({"nbf": seconds - 3600})), NOW).is_ok());
    for typ in ["JOSE", "lineage+jwt", "at+jwt", ""] {
        let token = jws::sign_token(&key, typ, &claims(&key)).unwrap();
        assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::Malformed, "{typ}");
    }
    assert!(ring.verify(&jws::sign_token(&key, "jwt", &claims(&key)).unwrap(), NOW).is_ok());
    assert!(ring.verify(&with(&key, &json!({"jti": "named"})), NOW).is_ok());
}

#[test]
fn nobody_speaks_for_another() {
    let (key, thief) = (AgentKey::generate().unwrap(), AgentKey::generate().unwrap());
    let ring = trusting(&[&key, &thief]);
    // Signed by another, with the other's key or with the agent's beside it.
    let token = jws::sign_token(&thief, "JWT", &claims(&key)).unwrap();
    assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::Signature);
    let header = minted(&key).split('.').next().unwrap().to_owned();
    let payload = token.split('.').nth(1).unwrap();
    let message = format!("{header}.{payload}");
    let token = format!("{message}.{}", jws::encode(&thief.sign(message.as_bytes())));
    assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::Signature);
}

#[test]
fn a_changed_token_is_no_token() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let token = minted(&key);
    for place in (0..token.len()).step_by(7) {
        let mut bytes = token.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        assert!(ring.verify(&String::from_utf8(bytes).unwrap(), NOW).is_err(), "{place}");
    }
    for junk in ["", "..", "a.b.c", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
        assert_eq!(ring.verify(junk, NOW).unwrap_err(), TokenRefusal::Malformed);
    }
    assert!(ring.trust.load().verified.read().tokens.is_empty());
}

#[test]
fn a_token_for_one_body_counts_once() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let token = mint_agent_token(&key, HERE, MAX_LIFETIME, Some(b"body"), NOW).unwrap();
    let binding = ring.verify(&token, NOW).unwrap().binding.unwrap();
    assert!(binding.fits(b"body"));
    assert!(!binding.fits(b"other"));
    assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::Used);
    // Not even a change of configuration makes it count again.
    ring.replace([TrustedAgent::new(key.id(), "default", "planner")], NOW).unwrap();
    assert_eq!(ring.verify(&token, NOW).unwrap_err(), TokenRefusal::Used);
}

#[test]
fn memory_is_bounded_for_each_agent() {
    let (busy, calm) = (AgentKey::generate().unwrap(), AgentKey::generate().unwrap());
    let ring = trusting(&[&busy, &calm]);
    let kept = minted(&calm);
    ring.verify(&kept, NOW).unwrap();
    for number in 0..40 {
        ring.verify(&with(&busy, &json!({"jti": number.to_string()})), NOW).unwrap();
    }
    let trust = ring.trust.load();
    let verified = trust.verified.read();
    assert_eq!(verified.tokens.len(), rules().remembered_per_agent + 1);
    assert!(verified.tokens.contains_key(&*kept));
}

#[test]
fn wrong_entries_change_nothing() {
    let key = AgentKey::generate().unwrap();
    let ring = trusting(&[&key]);
    let agent = TrustedAgent::new(key.id(), "default", "other");
    assert_eq!(ring.replace([agent.clone(), agent], NOW), Err(AgentError::Twice(key.id())));
    let anonymous = TrustedAgent::new(key.id(), "default", "anonymous");
    assert_eq!(ring.replace([anonymous], NOW), Err(AgentError::Anonymous(key.id())));
    assert_eq!(&*ring.verify(&minted(&key), NOW).unwrap().caller.principal.id, "planner");
}
