//! Compares a configuration, or a body that somebody sent, with its schema and tells everything that does not fit, at once.
//!
//! The schema is generated from the types that the text is read into (`chancery config-schema` prints it, `/schemas` shows
//! those of bodies), so that there is one account of what may be said. What is checked here is the part of JSON Schema that
//! those types use.

use serde_json::Value;

use super::document::{Content, Entry, Node};
use super::problem::{Problem, nearest};
use super::units::{USD_FORMAT, amount};

/// Keys that there once were, and what to do instead.
const FORMER: [(&str, &str); 1] = [(
    "recursion.require_lineage",
    "leave it out: agents have to say on whose behalf they call unless `budget.unattributed` has a limit",
)];

/// Everything in a configuration that its schema does not allow.
pub(crate) fn check(node: &Node, schema: &Value) -> Vec<Problem> {
    let mut walk = Walk { root: schema, problems: Vec::new() };
    walk.node(node, schema, &mut Vec::new());
    Problem::in_order(walk.problems)
}

struct Walk<'a> {
    root: &'a Value,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn node(&mut self, node: &Node, schema: &'a Value, path: &mut Vec<String>) {
        let schema = self.resolve(schema);
        if *schema == Value::Bool(true) {
            return;
        }
        if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            return self.choice(node, choices, path);
        }
        if let Some(wanted) = mismatch(node, schema) {
            let found = describe(node);
            self.problem(node, path, format!("expected {wanted}, found {found}"));
            return;
        }
        match &node.value {
            Content::Table(entries) => self.table(node, entries, schema, path),
            Content::List(items) => {
                self.count(node, items.len(), schema, ("minItems", "maxItems"), "entries", path);
                if let Some(of) = schema.get("items") {
                    for (place, item) in items.iter().enumerate() {
                        path.push(place.to_string());
                        self.node(item, of, path);
                        path.pop();
                    }
                }
            }
            Content::Plain(value) => self.plain(node, value, schema, path),
        }
    }

    fn table(&mut self, node: &Node, entries: &[Entry], schema: &'a Value, path: &mut Vec<String>) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| **others != Value::Bool(false));
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            if entries.iter().all(|entry| entry.key != key) {
                path.push(key.to_owned());
                self.problem(node, path, "must be there".to_owned());
                path.pop();
            }
        }
        for entry in entries {
            path.push(entry.key.clone());
            match (known.and_then(|known| known.get(&entry.key)), others) {
                (Some(of), _) | (None, Some(of)) => self.node(&entry.node, of, path),
                // Nothing is said about what it may have.
                (None, None) if known.is_none() && schema.get("additionalProperties").is_none() => {}
                (None, None) => {
                    let names = known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
                    let mut problem =
                        Problem::new(entry.place.clone(), path.join("."), "there is no such key");
                    if let Some((_, instead)) = FORMER.iter().find(|(former, _)| *former == path.join(".")) {
                        problem = problem.hint((*instead).to_owned());
                    } else if let Some(meant) = nearest(&entry.key, names.clone()) {
                        problem = problem.hint(format!("did you mean `{meant}`?"));
                    } else {
                        let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
                        problem = problem.hint(format!("there are {}", names.join(", ")));
                    }
                    self.problems.push(problem);
                }
            }
            path.pop();
        }
    }

    fn plain(&mut self, node: &Node, value: &Value, schema: &'a Value, path: &[String]) {
        let mut allowed = words(schema).peekable();
        if allowed.peek().is_some() && !words(schema).any(|word| word == value) {
            let listed: Vec<_> = allowed.map(ToString::to_string).collect();
            self.problem(node, path, format!("expected {}, found {}", listed.join(" or "), describe(node)));
        }
        if let Some(text) = value.as_str() {
            self.count(node, text.chars().count(), schema, ("minLength", "maxLength"), "characters", path);
        }
        let number = value.as_f64();
        if schema.get("format").and_then(Value::as_str) == Some(USD_FORMAT)
            && number.is_none_or(|number| number >= 0.0)
            && let Err(why) = amount(&written(value))
        {
            self.problem(node, path, why);
        }
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        if let (Some(number), Some(least)) = (number, bound("minimum"))
            && number < least
        {
            self.problem(node, path, format!("must be at least {least}, found {value}"));
        }
        if let (Some(number), Some(most)) = (number, bound("maximum"))
            && number > most
        {
            self.problem(node, path, format!("must be at most {most}, found {value}"));
        }
    }

    /// Whether there are enough of something, and not too many.
    fn count(
        &mut self,
        node: &Node,
        count: usize,
        schema: &Value,
        (least, most): (&str, &str),
        of: &str,
        path: &[String],
    ) {
        let bound = |name| schema.get(name).and_then(Value::as_u64);
        if let Some(least) = bound(least).filter(|least| (count as u64) < *least) {
            self.problem(node, path, format!("must have at least {least} {of}, found {count}"));
        }
        if let Some(most) = bound(most).filter(|most| count as u64 > *most) {
            self.problem(node, path, format!("must have at most {most} {of}, found {count}"));
        }
    }

    /// One of several shapes. Of a value that fits none it is said what is wrong with the shape of its kind; if there is
    /// none of its kind, what there is to choose from.
    fn choice(&mut self, node: &Node, choices: &'a [Value], path: &mut Vec<String>) {
        let mut nearest_shape: Option<Vec<Problem>> = None;
        for choice in choices {
            let mut tried = Walk { root: self.root, problems: Vec::new() };
            tried.node(node, choice, path);
            if tried.problems.is_empty() {
                return;
            }
            let choice = self.resolve(choice);
            let is_of_kind = mismatch(node, choice).is_none() && words(choice).next().is_none();
            if is_of_kind && nearest_shape.as_ref().is_none_or(|nearest| tried.problems.len() < nearest.len())
            {
                nearest_shape = Some(tried.problems);
            }
        }
        if let Some(problems) = nearest_shape {
            return self.problems.extend(problems);
        }
        let resolved: Vec<_> = choices.iter().map(|choice| self.resolve(choice)).collect();
        let wanted: Vec<_> = resolved.iter().flat_map(|choice| wanted(choice)).collect();
        self.problem(node, path, format!("expected {}, found {}", wanted.join(" or "), describe(node)));
        let words = resolved.iter().flat_map(|choice| words(choice)).filter_map(Value::as_str);
        if let Content::Plain(Value::String(typed)) = &node.value
            && let (Some(meant), Some(problem)) = (nearest(typed, words), self.problems.last_mut())
        {
            problem.hint = Some(format!("did you mean `{meant}`?"));
        }
    }

    fn resolve(&self, mut schema: &'a Value) -> &'a Value {
        while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let Some(found) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
            else {
                break;
            };
            schema = found;
        }
        schema
    }

    fn problem(&mut self, node: &Node, path: &[String], what: String) {
        self.problems.push(Problem::new(node.origin.clone(), path.join("."), what));
    }
}

/// The text of a number or of a text.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // The shortest decimal that means this float is the one that was written.
        value => value
            .as_f64()
            .filter(|_| value.is_f64())
            .map_or_else(|| value.to_string(), |number| number.to_string()),
    }
}

/// What was wanted, if a value is not even of the right kind.
fn mismatch(node: &Node, schema: &Value) -> Option<String> {
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = |kind: &&str| match (&node.value, *kind) {
        (Content::Table(_), kind) => kind == "object",
        (Content::List(_), kind) => kind == "array",
        (Content::Plain(value), "string") => value.is_string(),
        (Content::Plain(value), "boolean") => value.is_boolean(),
        (Content::Plain(value), "integer") => value.is_i64() || value.is_u64(),
        (Content::Plain(value), "number") => value.is_number(),
        (Content::Plain(value), "null") => value.is_null(),
        (Content::Plain(_), _) => false,
    };
    let names = kinds.iter().filter(|kind| **kind != "null").map(|kind| name(kind));
    (!kinds.iter().any(fits)).then(|| names.collect::<Vec<_>>().join(" or "))
}

/// The words that a schema allows, if it allows only some.
fn words(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema.get("enum").and_then(Value::as_array);
    listed.into_iter().flatten().chain(schema.get("const"))
}

/// What a schema wants, in words.
fn wanted(schema: &Value) -> Vec<String> {
    let words: Vec<_> = words(schema).map(ToString::to_string).collect();
    match schema.get("type").and_then(Value::as_str) {
        _ if !words.is_empty() => words,
        Some("null") | None => Vec::new(),
        Some(kind) => vec![name(kind).to_owned()],
    }
}

fn name(kind: &str) -> &str {
    match kind {
        "object" => "a table",
        "array" => "a list",
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        other => other,
    }
}

fn describe(node: &Node) -> String {
    match &node.value {
        Content::Table(_) => "a table".to_owned(),
        Content::List(_) => "a list".to_owned(),
        Content::Plain(Value::String(text)) => format!("the text `{text}`"),
        Content::Plain(Value::Null) => "nothing".to_owned(),
        Content::Plain(value) => format!("`{value}`"),
    }
}
