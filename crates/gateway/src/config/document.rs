//! A configuration file as a tree in which everything knows where it stands: TOML, or YAML or JSON by its name.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Content,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Table(Vec<Entry>),
    List(Vec<Node>),
    /// A text, a number, a truth value or nothing.
    Plain(Value),
}

/// A key of a table with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Origin,
    pub(crate) node: Node,
}

/// Where a value comes from. A later one wins over an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Default,
    File { path: Arc<str>, line: usize, column: usize },
    Environment(String),
    Flag(&'static str),
}

// === reading ===

impl Node {
    pub(crate) fn empty() -> Self {
        Self { value: Content::Table(Vec::new()), origin: Origin::Default }
    }

    /// Reads a file's text. Whatever is wrong with its syntax is told at once.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Vec<Problem>> {
        let shown: Arc<str> = path.display().to_string().into();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml" | "yml" | "json") => parse_yaml(&shown, text),
            _ => parse_toml(&shown, text),
        }
    }

    /// A value that comes from one place as a whole.
    pub(crate) fn of(value: Value, origin: &Origin) -> Self {
        let value = match value {
            Value::Array(items) => {
                Content::List(items.into_iter().map(|item| Self::of(item, origin)).collect())
            }
            Value::Object(entries) => {
                let entry =
                    |(key, value)| Entry { key, place: origin.clone(), node: Self::of(value, origin) };
                Content::Table(entries.into_iter().map(entry).collect())
            }
            plain => Content::Plain(plain),
        };
        Self { value, origin: origin.clone() }
    }

    /// The value without the places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.value {
            Content::Table(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.node.to_value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Plain(value) => value.clone(),
        }
    }

    /// What stands at a path of keys and places in lists.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match &self.value {
            Content::Table(entries) => entries.iter().find(|entry| entry.key == *first)?.node.at(rest),
            Content::List(items) => items.get(first.parse::<usize>().ok()?)?.at(rest),
            Content::Plain(_) => None,
        }
    }

    /// Forgets every key but one.
    pub(crate) fn keep_only(&mut self, key: &str) {
        if let Content::Table(entries) = &mut self.value {
            entries.retain(|entry| entry.key == key);
        }
    }

    /// Takes away what stands at a path. Says whether something did that is no entry of a list, whose other entries would move.
    pub(crate) fn remove(&mut self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        match &mut self.value {
            Content::Table(entries) => {
                let Some(place) = entries.iter().position(|entry| entry.key == *first) else { return false };
                if rest.is_empty() {
                    entries.remove(place);
                    return true;
                }
                entries[place].node.remove(rest)
            }
            Content::List(items) => first
                .parse()
                .ok()
                .and_then(|place: usize| items.get_mut(place))
                .is_some_and(|one| one.remove(rest)),
            Content::Plain(_) => false,
        }
    }

    /// Puts a value at a path, over what stands there.
    pub(crate) fn set(&mut self, path: &[&str], value: Value, origin: &Origin) {
        let Some((first, rest)) = path.split_first() else {
            *self = Self::of(value, origin);
            return;
        };
        if !matches!(self.value, Content::Table(_)) {
            *self = Self { value: Content::Table(Vec::new()), origin: origin.clone() };
        }
        if let Content::Table(entries) = &mut self.value {
            let place = entries.iter().position(|entry| entry.key == *first).unwrap_or_else(|| {
                let node = Self { value: Content::Table(Vec::new()), origin: origin.clone() };
                entries.push(Entry { key: (*first).to_owned(), place: origin.clone(), node });
                entries.len() - 1
            });
            entries[place].node.set(rest, value, origin);
        }
    }
}

fn parse_toml(path: &Arc<str>, text: &str) -> Result<Node, Vec<Problem>> {
    // Where each line begins, found once: a file with many agents has many places to tell.
    let newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
    let lines: Vec<usize> = std::iter::once(0).chain(newlines).collect();
    let at = |offset: usize| {
        let offset = text.floor_char_boundary(offset);
        let line = lines.partition_point(|start| *start <= offset);
        let column = text[lines[line - 1]..offset].chars().count() + 1;
        Origin::File { path: path.clone(), line, column }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(from_toml_table(table.get_ref(), at(0), &at));
    }
    let problem = |error: &toml::de::Error| {
        Problem::new(at(error.span().map_or(0, |span| span.start)), "", error.message().to_owned())
    };
    Err(Problem::in_order(errors.iter().map(problem).collect()))
}

fn from_toml(value: &Spanned<DeValue<'_>>, at: &impl Fn(usize) -> Origin) -> Node {
    let origin = at(value.span().start);
    let plain = |value| Node { value: Content::Plain(value), origin: origin.clone() };
    match value.get_ref() {
        DeValue::Table(table) => from_toml_table(table, origin, at),
        DeValue::Array(items) => {
            Node { value: Content::List(items.iter().map(|item| from_toml(item, at)).collect()), origin }
        }
        DeValue::String(text) => plain(Value::from(text.as_ref())),
        DeValue::Boolean(truth) => plain(Value::from(*truth)),
        DeValue::Integer(number) => {
            plain(i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from))
        }
        DeValue::Float(number) => plain(float(number.as_str().parse().unwrap_or(f64::NAN))),
        DeValue::Datetime(time) => plain(Value::from(time.to_string())),
    }
}

fn from_toml_table(table: &DeTable<'_>, origin: Origin, at: &impl Fn(usize) -> Origin) -> Node {
    let entry = |(key, value): (&Spanned<toml::de::DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
        key: key.get_ref().to_string(),
        place: at(key.span().start),
        node: from_toml(value, at),
    };
    Node { value: Content::Table(table.iter().map(entry).collect()), origin }
}

fn parse_yaml(path: &Arc<str>, text: &str) -> Result<Node, Vec<Problem>> {
    let at = |line: usize, column: usize| Origin::File { path: path.clone(), line, column: column + 1 };
    match MarkedYaml::load_from_str(text) {
        Ok(documents) => Ok(documents.first().map_or_else(Node::empty, |document| from_yaml(document, &at))),
        Err(error) => {
            let place = at(error.marker().line(), error.marker().col());
            Err(vec![Problem::new(place, "", error.info().to_owned())])
        }
    }
}

fn from_yaml(yaml: &MarkedYaml<'_>, at: &impl Fn(usize, usize) -> Origin) -> Node {
    let place = |yaml: &MarkedYaml<'_>| at(yaml.span.start.line(), yaml.span.start.col());
    let value = match &yaml.data {
        YamlData::Mapping(pairs) => {
            let entry = |(key, value): (&MarkedYaml<'_>, &MarkedYaml<'_>)| Entry {
                key: match from_yaml(key, at).value {
                    Content::Plain(Value::String(text)) => text,
                    Content::Plain(other) => other.to_string(),
                    Content::Table(_) | Content::List(_) => String::new(),
                },
                place: place(key),
                node: from_yaml(value, at),
            };
            Content::Table(pairs.iter().map(entry).collect())
        }
        YamlData::Sequence(items) => Content::List(items.iter().map(|item| from_yaml(item, at)).collect()),
        YamlData::Value(scalar) => Content::Plain(match scalar {
            Scalar::Boolean(truth) => Value::from(*truth),
            Scalar::Integer(number) => Value::from(*number),
            Scalar::FloatingPoint(number) => float(number.into_inner()),
            Scalar::String(text) => Value::from(&**text),
            Scalar::Null => Value::Null,
        }),
        YamlData::Tagged(_, inner) => return from_yaml(inner, at),
        YamlData::Representation(text, ..) => Content::Plain(Value::from(&**text)),
        YamlData::Alias(_) | YamlData::BadValue => Content::Plain(Value::Null),
    };
    Node { value, origin: place(yaml) }
}

/// What is infinite or no number at all stays what was written, so that nobody takes it for a number or for nothing.
fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::from(number.to_string()), Value::Number)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: &Node, path: &[&str]) -> String {
        node.at(path).expect("it is there").origin.to_string()
    }

    #[test]
    fn everything_knows_where_it_stands() {
        let toml = "[budget.global]\nmax_usd_per_minute = 10.0\n\n[[agent]]\nname = \"é\"; ";
        assert!(Node::parse(Path::new("c.toml"), toml).is_err());
        let toml = Node::parse(Path::new("c.toml"), "[budget.global]\ncap = 10.5\n[[agent]]\nname = \"é\"\n")
            .unwrap();
        assert_eq!(place(&toml, &["budget", "global", "cap"]), "c.toml:2:7");
        assert_eq!(place(&toml, &["agent", "0", "name"]), "c.toml:4:8");
        let yaml =
            Node::parse(Path::new("c.yaml"), "budget:\n  global:\n    cap: 10.5\nagent:\n  - name: é\n")
                .unwrap();
        assert_eq!(place(&yaml, &["budget", "global", "cap"]), "c.yaml:3:10");
        let json =
            Node::parse(Path::new("c.json"), r#"{"budget":{"global":{"cap":10.5}},"agent":[{"name":"é"}]}"#)
                .unwrap();
        assert_eq!(place(&json, &["agent", "0", "name"]), "c.json:1:52");
        assert_eq!(toml.to_value(), yaml.to_value());
        assert_eq!(toml.to_value(), json.to_value());
    }

    #[test]
    fn all_mistakes_of_syntax_are_told_at_once() {
        let problems = Node::parse(Path::new("c.toml"), "a = \nb = 1\nc = 08\n").unwrap_err();
        let places: Vec<_> = problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places.len(), 2, "{problems:?}");
        assert!(places[0].starts_with("c.toml:1:") && places[1].starts_with("c.toml:3:"), "{places:?}");
    }

    #[test]
    fn a_later_value_stands_over_an_earlier_one() {
        let mut node = Node::parse(Path::new("c.toml"), "a = 1\n").unwrap();
        node.set(&["b", "c"], Value::from(2), &Origin::Environment("X".to_owned()));
        node.set(&["a"], Value::from(3), &Origin::Flag("--a"));
        assert_eq!(node.to_value(), serde_json::json!({"a": 3, "b": {"c": 2}}));
        node.set(&["a"], serde_json::json!(["x", {"y": 1}]), &Origin::Flag("--a"));
        assert_eq!(place(&node, &["a", "1", "y"]), "flag --a");
        assert_eq!(place(&node, &["b", "c"]), "environment X");
    }
}
