//! Ways in which a body can be broken, by accident or on purpose.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::tree::Tree;

/// What happens to a body on its way here.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Truncate(Index),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, usize),
    DropField(Index),
    RepeatField(Index),
    Retype(Index, &'static str),
}

const OTHER_TYPES: &[&str] =
    &["null", "true", "0", "-1", "1e400", "1.5", "\"\"", "\"x\"", "[]", "{}", "[null]", "[{}]", "[[[[]]]]"];

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    prop_oneof![
        place().prop_map(Damage::Truncate),
        (place(), 1u8..).prop_map(|(place, bits)| Damage::Flip(place, bits)),
        (place(), vec(any::<u8>(), 1..4)).prop_map(|(place, bytes)| Damage::Insert(place, bytes)),
        (place(), 1usize..8).prop_map(|(place, length)| Damage::Cut(place, length)),
        place().prop_map(Damage::DropField),
        place().prop_map(Damage::RepeatField),
        (place(), select(OTHER_TYPES)).prop_map(|(place, json)| Damage::Retype(place, json)),
    ]
}

impl Damage {
    /// The body after the damage.
    pub(crate) fn apply(&self, body: &str) -> Vec<u8> {
        let mut bytes = body.as_bytes().to_vec();
        match self {
            Self::Truncate(place) => bytes.truncate(place.index(bytes.len())),
            Self::Flip(place, bits) => {
                let place = place.index(bytes.len());
                bytes[place] ^= bits;
            }
            Self::Insert(place, more) => {
                let place = place.index(bytes.len());
                bytes.splice(place..place, more.iter().copied());
            }
            Self::Cut(place, length) => {
                let start = place.index(bytes.len());
                let end = bytes.len().min(start + length);
                bytes.drain(start..end);
            }
            Self::DropField(place) => {
                bytes = change_field(body, place, |fields, at| drop(fields.remove(at)));
            }
            Self::RepeatField(place) => {
                bytes = change_field(body, place, |fields, at| fields.push(fields[at].clone()));
            }
            Self::Retype(place, json) => {
                let other = Tree::Raw((*json).to_owned());
                bytes = change_field(body, place, |fields, at| fields[at].1 = other.clone());
            }
        }
        bytes
    }
}

fn change_field(body: &str, place: &Index, change: impl Fn(&mut Vec<(String, Tree)>, usize)) -> Vec<u8> {
    let tree = Tree::parse(body);
    let count = tree.field_names().len();
    if count == 0 {
        return body.as_bytes().to_vec();
    }
    tree.change_field(place.index(count), change).to_string().into_bytes()
}
