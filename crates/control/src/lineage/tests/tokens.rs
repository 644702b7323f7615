//! What a token must be to be believed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

const ELSEWHERE: &str = "https://elsewhere.example";

pub(super) fn json(token: &str, part: usize) -> serde_json::Value {
    let part = token.split('.').nth(part).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn refused(gate: &Lineage, token: &str) -> bool {
    gate.descend(Who::Agent("a"), Some(token)).is_err_and(|denied| denied.reason == LINEAGE_INVALID)
}

#[test]
fn a_token_says_what_its_bearer_needs_to_know() {
    let gate = gate(Rules::default());
    let (realm, caller, agent) = (text("default"), text("alice"), text("a"));
    let departure = Departure {
        reserved: chancery_protocol::Amount { micro_usd: 500, tokens: 70, tasks: 1 },
        allowance: Allowance { micro_usd: Some(2_000), tokens: None },
        ..Departure::new(HopId::generate(), &realm, &caller, &agent)
    };
    let hop = gate.dispatch(&gate.descend(Who::User, None).unwrap(), departure).unwrap();
    let token = gate.tokens.mint(&hop, Millis(1_500));
    assert_eq!(json(&token, 0), serde_json::json!({"alg": "HS256", "typ": "lineage+jwt", "kid": "k1"}));
    let expected = serde_json::json!({
        "iss": GATEWAY, "aud": GATEWAY, "sub": "a", "exp": 2, "realm": "default",
        "root": hop.hop, "parent": hop.hop, "depth": 0, "path": ["a"], "rootAgent": "a",
        "traceId": hop.context.trace_id.to_string(),
        "reserved": {"microUsd": 500, "tokens": 70}, "allowance": {"microUsd": 2_000},
    });
    assert_eq!(json(&token, 1), expected);
}

#[test]
fn a_token_ends_at_its_time() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.tokens.mint(&root, Millis(2_000));
    let (realm, agent) = (text("default"), text("a"));
    let arrival =
        Arrival { realm: &realm, agent: Some(&agent), anonymous: false, token: Some(&token), trace: None };
    assert!(gate.attribute(&arrival, Millis(1_999)).is_ok());
    assert_eq!(reason(gate.attribute(&arrival, Millis(2_000))), LINEAGE_INVALID);
}

#[test]
fn only_the_realm_that_it_is_of_takes_a_token() {
    let gate = gate(Rules::default());
    let token = gate.token(&gate.call(Who::User, None, "a").unwrap());
    let (realm, agent) = (text("other"), text("a"));
    let arrival =
        Arrival { realm: &realm, agent: Some(&agent), anonymous: false, token: Some(&token), trace: None };
    assert_eq!(reason(gate.attribute(&arrival, Millis(0))), LINEAGE_INVALID);
}

#[test]
fn another_algorithm_another_key_or_another_gateway_is_refused() {
    let mut gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let good = gate.token(&root);
    let body = good.split('.').nth(1).unwrap().to_owned();
    let with_head = |head: &str, seal: &str| format!("{}.{body}.{seal}", URL_SAFE_NO_PAD.encode(head));
    let seal = good.rsplit('.').next().unwrap();
    for token in [
        with_head(r#"{"alg":"none","typ":"lineage+jwt","kid":"k1"}"#, ""),
        with_head(r#"{"alg":"HS512","typ":"lineage+jwt","kid":"k1"}"#, seal),
        with_head(r#"{"alg":"HS256","typ":"JWT","kid":"k1"}"#, seal),
        with_head(r#"{"alg":"EdDSA","typ":"lineage+jwt","kid":"k1"}"#, seal),
        good.replacen('.', "..", 1),
        format!("{good}="),
        format!("{good}."),
        good[..good.len() - 1].to_owned(),
        String::new(),
        ".".repeat(MAX_TOKEN_BYTES),
        "x".repeat(MAX_TOKEN_BYTES + 1),
    ] {
        assert!(refused(&gate, &token), "{token}");
    }
    assert!(!refused(&gate, &good));

    let other_key = Keyring::try_new("k1", &[8; 32]).unwrap();
    assert!(refused(&gate, &Tokens::new(GATEWAY, other_key.clone()).mint(&root, LATER)));
    let other_name = Tokens::new(ELSEWHERE, Keyring::try_new("k1", &[7; 32]).unwrap());
    assert!(refused(&gate, &other_name.mint(&root, LATER)));
    gate.tokens = Tokens::new(GATEWAY, other_key);
    assert!(refused(&gate, &good));
}

#[test]
fn a_key_goes_out_of_use_with_overlap() {
    let mut gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let old = gate.token(&root);
    let keys = Keyring::try_new("k1", &[7; 32]).unwrap().rotated("k2", &[9; 32], Millis(0), LATER).unwrap();
    gate.tokens = Tokens::new(GATEWAY, keys);
    let new = gate.token(&root);
    assert_eq!(json(&new, 0)["kid"], "k2");
    assert!(!refused(&gate, &old) && !refused(&gate, &new));
}

#[test]
fn the_longest_names_make_a_token_that_is_taken() {
    let gate = gate(Rules { max_call_depth: 65, ..Rules::default() });
    let names: Vec<String> = (0..65).map(|number| format!("{number:0>63}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let last = gate.chain(&names).unwrap();
    let token = gate.token(&last);
    assert!(token.len() <= MAX_TOKEN_BYTES, "{}", token.len());
    let path = json(&token, 1)["path"].as_array().unwrap().clone();
    assert_eq!(path.last().unwrap(), names[64]);
    // Who was cut off the token is not forgotten.
    assert_eq!(reason(gate.call(Who::Agent(names[64]), Some(&token), names[0])), REVISIT_DENIED);
}

proptest! {
    #[test]
    fn no_change_to_a_token_survives(place in 0usize..400, flip in 1u8..128) {
        let gate = gate(Rules::default());
        let mut bytes = gate.token(&gate.call(Who::User, None, "a").unwrap()).into_bytes();
        let place = place % bytes.len();
        bytes[place] ^= flip;
        // What looks like a token that another gateway made for itself says nothing, as if it were not there.
        if let Ok(token) = String::from_utf8(bytes) {
            let without = gate.descend(Who::Agent("a"), None).map(|descent| descent.basis);
            let with = gate.descend(Who::Agent("a"), Some(&token)).map(|descent| descent.basis);
            prop_assert!(refused(&gate, &token) || with == without, "{with:?}");
            prop_assert!(with != Ok(Basis::Token));
        }
    }

    #[test]
    fn no_text_is_a_token(text in "[A-Za-z0-9_.=-]{0,200}|.{0,100}") {
        prop_assert!(refused(&gate(Rules::default()), &text));
    }
}
