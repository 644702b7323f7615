//! Arbitrary values of the model, as small and as ugly as the wire allows.
//!
//! A value here is always one that the wire can carry: proto3 cannot tell an empty id from an absent one, so
//! optional ids are never empty, and a custom binding never has the name of a standard one.

#![allow(dead_code, reason = "each test crate uses its own part of this")]

pub(crate) mod card;
pub(crate) mod damage;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod tree;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// How many times a property is tried. Debug builds must stay quick.
pub(crate) fn tries(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 1000, ..ProptestConfig::default() }
}

const TEXTS: &[&str] = &[
    "",
    "hi",
    "a b",
    "text/plain",
    "https://a.example/x?y=1&z=%20",
    "line\nbreak\r\n\ttab",
    "quote\" back\\slash /",
    "\u{0}\u{1}\u{7f}\u{85}",
    "\u{2028}\u{2029}\u{feff}",
    "Zoë 字 🦀 \u{10ffff}",
    "data: {}\n\n",
    "snake_case camelCase",
    "null",
];

pub(crate) fn text() -> impl Strategy<Value = String> + Clone {
    let any_characters = vec(any::<char>(), 0..5).prop_map(String::from_iter);
    prop_oneof![3 => select(TEXTS).prop_map(str::to_owned), 1 => any_characters]
}

pub(crate) fn some_text() -> impl Strategy<Value = String> + Clone {
    text().prop_map(|text| if text.is_empty() { "x".to_owned() } else { text })
}

pub(crate) fn texts() -> impl Strategy<Value = Vec<String>> + Clone {
    vec(text(), 0..3)
}
