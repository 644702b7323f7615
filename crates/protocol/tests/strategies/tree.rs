//! The JSON of a message as a tree that tells the protocol's own keys from those of its users, so that a test
//! can respell, add, drop or repeat fields and leave everything else as it was written.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Part of a message.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A message of the protocol: its keys are field names.
    Message(Vec<(String, Tree)>),
    /// A map: its keys belong to its author.
    Map(Vec<(String, Tree)>),
    /// A list.
    List(Vec<Tree>),
    /// A scalar, or user JSON, as it was written.
    Raw(String),
}

/// Fields that hold user JSON.
const USER_JSON: [&str; 4] = ["metadata", "data", "params", "header"];
/// Fields that hold a map.
const MAPS: [&str; 3] = ["securitySchemes", "schemes", "scopes"];

struct Entries(Vec<(String, Box<RawValue>)>);

impl Tree {
    /// Reads what the crate wrote, so its keys are in camelCase.
    pub(crate) fn parse(json: &str) -> Self {
        Self::read("", json)
    }

    fn read(field: &str, json: &str) -> Self {
        if USER_JSON.contains(&field) {
            return Self::Raw(json.to_owned());
        }
        match json.as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(json).expect("an object");
                let is_map = MAPS.contains(&field);
                let read = |(key, value): (String, Box<RawValue>)| {
                    let tree = Self::read(if is_map { "" } else { &key }, value.get());
                    (key, tree)
                };
                let entries = entries.into_iter().map(read).collect();
                if is_map { Self::Map(entries) } else { Self::Message(entries) }
            }
            Some(b'[') => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(json).expect("a list");
                Self::List(items.iter().map(|item| Self::read("", item.get())).collect())
            }
            _ => Self::Raw(json.to_owned()),
        }
    }

    /// Calls `change` with the fields of every message, the innermost first.
    pub(crate) fn change_messages(&mut self, change: &mut impl FnMut(&mut Vec<(String, Self)>)) {
        match self {
            Self::Message(fields) => {
                fields.iter_mut().for_each(|(_, value)| value.change_messages(change));
                change(fields);
            }
            Self::Map(entries) => entries.iter_mut().for_each(|(_, value)| value.change_messages(change)),
            Self::List(items) => items.iter_mut().for_each(|item| item.change_messages(change)),
            Self::Raw(_) => {}
        }
    }

    /// The names of all fields of all messages, in an order that [`Self::change_field`] shares.
    pub(crate) fn field_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut copy = self.clone();
        copy.change_messages(&mut |fields| names.extend(fields.iter().map(|(name, _)| name.clone())));
        names
    }

    /// This tree with the field at this place in [`Self::field_names`] changed: `change` gets the fields of
    /// its message and its place among them.
    pub(crate) fn change_field(
        &self,
        place: usize,
        change: impl Fn(&mut Vec<(String, Self)>, usize),
    ) -> Self {
        let mut tree = self.clone();
        let mut before = 0;
        tree.change_messages(&mut |fields| {
            let count = fields.len();
            if (before..before + count).contains(&place) {
                change(fields, place - before);
            }
            before += count;
        });
        tree
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(entries) | Self::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let key = serde_json::to_string(key).map_err(|_| fmt::Error)?;
                    write!(f, "{comma}{key}:{value}")?;
                }
                f.write_str("}")
            }
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
            Self::Raw(json) => f.write_str(json),
        }
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

/// The proto name of a field, given its JSON name.
pub(crate) fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for character in camel.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
