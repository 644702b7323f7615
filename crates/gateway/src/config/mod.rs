//! The configuration of `chancery serve`: one file, over which the environment and flags stand.
//!
//! | file | holds |
//! |---|---|
//! | `file`, `section` | what may be said |
//! | `markdown`, `front_matter` | agents from files of Markdown |
//! | `document` | a file as a tree in which everything knows where it stands |
//! | `check` | the tree compared with the schema of what may be said |
//! | `sense` | what the schema cannot say: names that must be known, things that exclude each other |
//! | `names` | names of agents that are nowhere |
//! | `here` | what must be there on this machine: programs, secrets, callers that have a key |
//! | `effective` | every value with where it comes from |
//! | `units` | money |
//! | `problem` | what is wrong, where, and what to do about it |

mod check;
mod document;
mod effective;
mod file;
mod front_matter;
mod here;
mod markdown;
mod names;
mod problem;
mod section;
mod sense;
mod units;

use std::path::Path;

use serde_json::Value;
use serde_path_to_error::Segment;

use document::Node;

pub(crate) use document::Origin;
pub(crate) use effective::effective;
pub(crate) use file::*;
pub(crate) use here::secret_files;
pub(crate) use markdown::{Folders, Standing, schema as markdown_schema};
pub(crate) use problem::{BadConfig, Problem};
pub(crate) use section::*;
pub(crate) use units::{UnknownCost, Usd};

/// What the names of variables begin with: `CHANCERY__BUDGET__GLOBAL__MAX_USD_PER_MINUTE` is
/// `budget.global.max_usd_per_minute`.
const PREFIX: &str = "CHANCERY__";

/// A configuration and where its parts come from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    node: Node,
}

/// A value that a flag sets, by its path.
pub(crate) type Flag = (&'static str, &'static [&'static str], Value);

impl Loaded {
    /// Reads the file if there is one, then the environment, then flags. Everything that is wrong is told at once.
    pub(crate) fn read(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        flags: Vec<Flag>,
    ) -> Result<Self, Vec<Problem>> {
        Self::of(gather(path, environment, flags)?)
    }

    /// Reads what comes with Chancery, then flags.
    pub(crate) fn read_own(text: &str, flags: Vec<Flag>) -> Result<Self, Vec<Problem>> {
        let mut node = Node::parse(Path::new("own.toml"), text)?;
        for (flag, path, value) in flags {
            node.set(path, value, &Origin::Flag(flag));
        }
        Self::of(node)
    }

    fn of(node: Node) -> Result<Self, Vec<Problem>> {
        let problems = check::check(&node, schema().as_value());
        if !problems.is_empty() {
            return Err(Self::with_what_else_is_wrong(node, problems));
        }
        let config = match Self::values(&node) {
            Ok(config) => config,
            Err(problem) => return Err(Self::with_what_else_is_wrong(node, vec![problem])),
        };
        let mut problems = sense::problems(&config, &node);
        if config.markdown.is_empty() {
            problems.extend(names::problems(&config, &node));
        }
        if problems.is_empty() { Ok(Self { config, node }) } else { Err(Problem::in_order(problems)) }
    }

    /// The values as they are meant, if each can be read.
    fn values(node: &Node) -> Result<Config, Problem> {
        serde_path_to_error::deserialize(node.to_value()).map_err(|error| {
            let keys: Vec<String> = error.path().iter().filter_map(key).collect();
            let path: Vec<_> = keys.iter().map(String::as_str).collect();
            let place = node.at(&path).unwrap_or(node).origin.clone();
            Problem::new(place, path.join("."), error.inner().to_string())
        })
    }

    /// What else is wrong with a configuration of which some values are not even of the right kind: everything is told at once. What
    /// may only follow from those is left out.
    fn with_what_else_is_wrong(mut node: Node, mut problems: Vec<Problem>) -> Vec<Problem> {
        for problem in &problems {
            let path: Vec<_> = problem.path.split('.').collect();
            node.remove(&path);
        }
        let config = loop {
            let problem = match Self::values(&node) {
                Ok(config) => break config,
                Err(problem) => problem,
            };
            let path = problem.path.clone();
            let is_known = problems.iter().any(|known| known.path.starts_with(&path));
            if !is_known {
                problems.push(problem);
            }
            // What must be there cannot be taken away, and there is an end to what can.
            if is_known || !node.remove(&path.split('.').collect::<Vec<_>>()) {
                return Problem::in_order(problems);
            }
        };
        let of_agent = |path: &str| {
            let mut steps = path.split('.');
            Some(format!("{}.{}.", steps.next().filter(|first| *first == "agent")?, steps.next()?))
        };
        let follows = |other: &Problem| {
            problems.iter().any(|known| {
                let of_agent = of_agent(&known.path);
                known.path.starts_with(&other.path)
                    || other.path.starts_with(&known.path)
                    || of_agent.is_some_and(|agent| other.path.starts_with(&agent))
            })
        };
        let mut others = sense::problems(&config, &node);
        if config.markdown.is_empty() {
            others.extend(names::problems(&config, &node));
        }
        others.retain(|other| !follows(other));
        problems.extend(others);
        Problem::in_order(problems)
    }

    /// What is wrong with it on this machine, although it may be right on another.
    pub(crate) fn problems_here(&self) -> Vec<Problem> {
        Problem::in_order(here::problems(&self.config, &self.node))
    }

    /// Adds the agents that files in folders describe. Gives what is wrong with the files; the others are added all the same.
    pub(crate) fn add_described(&mut self, path: Option<&Path>, folders: &Folders) -> Vec<Problem> {
        let config = &mut self.config;
        let (agents, mut problems) = folders.read(&config.markdown, directory(path), &config.agent);
        config.agent.extend(agents);
        if !config.markdown.is_empty() {
            problems.extend(names::problems(config, &self.node));
        }
        problems
    }

    /// Where a value comes from, by its path.
    pub(crate) fn origin(&self, path: &[&str]) -> &Origin {
        self.node.at(path).map_or(&Origin::Default, |node| &node.origin)
    }
}

/// The file if there is one, over it the environment, over that flags.
fn gather(
    path: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Vec<Flag>,
) -> Result<Node, Vec<Problem>> {
    let mut node = match path {
        None => Node::empty(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let what = format!("cannot read {}: {error}", path.display());
                vec![Problem::new(Origin::Flag("--config"), "", what)]
            })?;
            Node::parse(path, &text)?
        }
    };
    let mut variables: Vec<_> = environment.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, value) in variables {
        let keys = name[PREFIX.len()..].to_ascii_lowercase();
        let path: Vec<_> = keys.split("__").collect();
        node.set(&path, plain(&value), &Origin::Environment(name.clone()));
    }
    for (flag, path, value) in flags {
        node.set(path, value, &Origin::Flag(flag));
    }
    Ok(node)
}

/// Reads of the same only where things are kept, whatever is wrong with the rest.
pub(crate) fn read_store(
    path: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Vec<Flag>,
) -> Result<StoreSection, Vec<Problem>> {
    let mut node = gather(path, environment, flags)?;
    node.keep_only("store");
    Ok(Loaded::of(node)?.config.store)
}

/// What the paths in a configuration file are seen from.
pub(crate) fn directory(path: Option<&Path>) -> &Path {
    path.and_then(Path::parent).unwrap_or(Path::new(""))
}

/// The JSON Schema of the configuration.
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}

/// What a value has that its schema does not allow: where, and what.
pub(crate) fn misfits(value: &Value, schema: &Value) -> Vec<(String, String)> {
    let told = |problem: Problem| {
        let hint = problem.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        (problem.path, problem.what + &hint)
    };
    check::check(&Node::of(value.clone(), &Origin::Default), schema).into_iter().map(told).collect()
}

/// A step on the way to a value that could not be read.
fn key(step: &Segment) -> Option<String> {
    match step {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// A value as it stands in a variable: what looks like a number or a list is one.
fn plain(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests;
