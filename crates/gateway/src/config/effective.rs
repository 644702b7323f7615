//! The configuration as it is in force: every value, and where it comes from.

use serde_json::{Value, json};

use super::Loaded;

/// One value that is in force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effective {
    pub(crate) path: String,
    pub(crate) value: Value,
    pub(crate) origin: String,
}

/// Every value that is in force, in the order of the sections.
pub(crate) fn effective(loaded: &Loaded) -> Vec<Effective> {
    let config = serde_json::to_value(&loaded.config).unwrap_or_default();
    let mut all = Vec::new();
    walk(loaded, &config, &mut Vec::new(), &mut all);
    all
}

fn walk(loaded: &Loaded, value: &Value, path: &mut Vec<String>, all: &mut Vec<Effective>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                path.push(key.clone());
                walk(loaded, value, path, all);
                path.pop();
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (place, value) in items.iter().enumerate() {
                path.push(place.to_string());
                walk(loaded, value, path, all);
                path.pop();
            }
        }
        _ => {
            let keys: Vec<_> = path.iter().map(String::as_str).collect();
            let origin = loaded.origin(&keys).to_string();
            all.push(Effective { path: path.join("."), value: value.clone(), origin });
        }
    }
}

impl Effective {
    pub(crate) fn to_json(&self) -> Value {
        json!({"path": self.path, "value": self.value, "origin": self.origin})
    }
}
