//! Arbitrary user JSON, with every spelling that a round trip through a parsed tree would lose.

use chancery_protocol::{Json, JsonObject};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::text;

/// A JSON value whose leaves and keys are tokens as written.
#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    Leaf(String),
    List(Vec<Tokens>),
    Object(Vec<(String, Tokens)>),
}

const LEAVES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "7",
    "7.0",
    "-0",
    "-0.0",
    "1e400",
    "-1E+400",
    "1e-400",
    "12345678901234567890",
    "-12345678901234567890123456789",
    "0.1000000000000000055511151231257827",
    "1.0E2",
    r#""""#,
    r#"" ""#,
    r#""\u00e9\u0000\/\b\f\n\r\t\\\"""#,
    r#""\ud83e\udd80""#,
    r#""\ud800""#,
    r#""] } [ { , :""#,
];

const KEYS: &[&str] = &[r#""""#, r#""a""#, r#""snake_case""#, r#""messageId""#, r#""\u0061""#, r#""\"\\""#];

impl Tokens {
    /// The text with the same white space between any two tokens.
    pub(crate) fn spaced(&self, gap: &str) -> String {
        match self {
            Self::Leaf(token) => token.clone(),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| item.spaced(gap)).collect();
                format!("[{gap}{}{gap}]", items.join(&format!("{gap},{gap}")))
            }
            Self::Object(entries) => {
                let entry = |(key, value): &(String, Self)| format!("{key}{gap}:{gap}{}", value.spaced(gap));
                let entries: Vec<_> = entries.iter().map(entry).collect();
                format!("{{{gap}{}{gap}}}", entries.join(&format!("{gap},{gap}")))
            }
        }
    }

    pub(crate) fn compact(&self) -> String {
        self.spaced("")
    }
}

fn quoted() -> impl Strategy<Value = String> + Clone {
    text().prop_map(|text| serde_json::to_string(&text).expect("text is always JSON"))
}

fn key() -> impl Strategy<Value = String> + Clone {
    prop_oneof![select(KEYS).prop_map(str::to_owned), quoted()]
}

pub(crate) fn tokens() -> impl Strategy<Value = Tokens> + Clone {
    let leaf = prop_oneof![3 => select(LEAVES).prop_map(str::to_owned), 1 => quoted()];
    leaf.prop_map(Tokens::Leaf).prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Tokens::List),
            vec((key(), inner), 0..3).prop_map(Tokens::Object),
        ]
    })
}

pub(crate) fn object_tokens() -> impl Strategy<Value = Tokens> + Clone {
    vec((key(), tokens()), 0..3).prop_map(Tokens::Object)
}

pub(crate) fn json() -> impl Strategy<Value = Json> + Clone {
    tokens().prop_map(|tokens| Json::parse(&tokens.compact()).expect("tokens make JSON"))
}

pub(crate) fn object() -> impl Strategy<Value = JsonObject> + Clone {
    object_tokens().prop_map(|tokens| JsonObject::parse(&tokens.compact()).expect("tokens make an object"))
}

pub(crate) fn metadata() -> impl Strategy<Value = Option<JsonObject>> + Clone {
    prop_oneof![2 => Just(None), 1 => object().prop_map(Some)]
}
