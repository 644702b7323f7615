//! The table, as Markdown for people and as JSON for later runs to compare with.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::compile;
use crate::contender::{Contender, LIMIT, OFFICIAL};
use crate::figures::{Figures, Row};
use crate::gateway;
use crate::measure::{client, product};
use crate::options::{Measure, Options};

/// Where and how the figures were made.
struct Circumstances {
    date: String,
    command: String,
    machine: String,
    commit: String,
    /// One `name = crate version` for each server.
    servers: Vec<String>,
}

/// What the columns of a table are, and which of them ratios refer to.
struct Columns {
    /// What the table is called, if not as its group.
    head: Option<&'static str>,
    names: Vec<&'static str>,
    base: &'static str,
    second: Option<&'static str>,
}

pub(crate) fn write(options: &Options, figures: &Figures) -> anyhow::Result<()> {
    let circumstances = Circumstances::now(options)?;
    let markdown = markdown(&circumstances, options, figures);
    println!("{markdown}");
    if options.save {
        let stem = circumstances.date.replace(':', "") + options.pick("", "-quick");
        let folder = compile::root().join("results");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{stem}.md")), &markdown)?;
        std::fs::write(folder.join(format!("{stem}.json")), json(&circumstances, options, figures))?;
        eprintln!("written: results/{stem}.md and .json");
    }
    Ok(())
}

// === impl Circumstances ===

impl Circumstances {
    fn now(options: &Options) -> anyhow::Result<Self> {
        let lock = std::fs::read_to_string(compile::root().join("Cargo.lock")).context("no Cargo.lock")?;
        let named =
            |server: &&Contender| format!("{} = {} {}", server.name, server.of, version(&lock, server.of));
        let servers = match options.measures[..] {
            [Measure::Product] => vec!["limit behind all gateways".to_owned()],
            _ => options.contenders.iter().map(named).collect(),
        };
        let cores = std::thread::available_parallelism()?;
        Ok(Self {
            date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%MZ").to_string(),
            command: ["cargo run --release -p bench --"]
                .into_iter()
                .chain(options.words.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
            machine: format!("{cores} cores, {}", processor()),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            servers,
        })
    }
}

fn markdown(circumstances: &Circumstances, options: &Options, figures: &Figures) -> String {
    let mut text = format!(
        "# Benchmark of {}\n\n`{}` in `bench/`, commit {}, {}, {} rounds.\nServers: {}.\n\n\
         Medians; in brackets the ratio to `{LIMIT}`, then to `{OFFICIAL}`, unless a table names another.\n",
        circumstances.date,
        circumstances.command,
        circumstances.commit,
        circumstances.machine,
        options.rounds,
        circumstances.servers.join(", "),
    );
    for group in figures.groups() {
        let columns = Columns::of(group, options);
        table_head(&mut text, group, &columns);
        for row in figures.rows.iter().filter(|row| row.group == group) {
            let cells: Vec<String> = columns.names.iter().map(|name| columns.cell(row, name)).collect();
            let _ = writeln!(text, "| {} | {} |", row.label, cells.join(" | "));
        }
    }
    if !figures.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
    }
    for note in &figures.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn table_head(text: &mut String, group: &str, columns: &Columns) {
    let head = columns.head.unwrap_or(group);
    let _ = writeln!(text, "\n| {head} | {} |", columns.names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.names.len()));
}

// === impl Columns ===

impl Columns {
    fn of(group: &str, options: &Options) -> Self {
        if group == client::GROUP {
            let head = Some("Client, against `chancery`; ratio to `raw`");
            return Self { head, names: client::WAYS.to_vec(), base: client::RAW, second: None };
        }
        if group == product::GROUP {
            let head = Some(
                "The product, 16 connections, in front of `limit`: CPU of the gateway; ratio to `Envoy`",
            );
            let names = gateway::ALL.iter().map(|gateway| gateway.name).collect();
            return Self { head, names, base: gateway::ENVOY, second: None };
        }
        let names = options.contenders.iter().map(|server| server.name).collect();
        Self { head: None, names, base: LIMIT, second: Some(OFFICIAL) }
    }

    fn cell(&self, row: &Row, name: &str) -> String {
        let Some(value) = row.median(name) else { return "–".to_owned() };
        if name == self.base {
            return number(value);
        }
        let ratio =
            |base: &str| row.ratio(name, base).map_or("–".to_owned(), |ratio| format!("{ratio:.2}x"));
        let ratios: Vec<String> = std::iter::once(self.base).chain(self.second).map(ratio).collect();
        format!("{} ({})", number(value), ratios.join(", "))
    }
}

/// One line for each figure, so that files stay small and can be compared line by line.
fn json(circumstances: &Circumstances, options: &Options, figures: &Figures) -> String {
    let head = [
        ("date", json!(circumstances.date)),
        ("command", json!(circumstances.command)),
        ("commit", json!(circumstances.commit)),
        ("machine", json!(circumstances.machine)),
        ("servers", json!(circumstances.servers)),
        ("rounds", json!(options.rounds)),
        ("notes", json!(figures.notes)),
    ];
    let mut text = String::from("{\n");
    for (key, value) in head {
        let _ = writeln!(text, "\"{key}\": {value},");
    }
    let rows: Vec<String> = figures.rows.iter().map(|row| json_row(row, options).to_string()).collect();
    let _ = writeln!(text, "\"figures\": [\n{}\n]\n}}", rows.join(",\n"));
    text
}

fn json_row(row: &Row, options: &Options) -> Value {
    let columns = Columns::of(row.group, options);
    let servers = columns.names.iter().filter_map(|name| {
        let mut figure = Map::new();
        figure.insert("median".to_owned(), json!(rounded(row.median(name)?)));
        for base in std::iter::once(columns.base).chain(columns.second) {
            figure.insert(format!("to_{base}"), json!(row.ratio(name, base).map(rounded)));
        }
        let rounds: Vec<f64> = row.rounds(name).into_iter().map(rounded).collect();
        figure.insert("rounds".to_owned(), json!(rounds));
        Some(((*name).to_owned(), Value::Object(figure)))
    });
    json!({ "group": row.group, "figure": row.label, "servers": servers.collect::<Map<_, _>>() })
}

/// Three or four digits that matter, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size < 1.0 {
        return format!("{value:.3}");
    }
    if size < 10.0 {
        return format!("{value:.2}");
    }
    if size < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{size:.0}");
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn version<'a>(lock: &'a str, name: &str) -> &'a str {
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("\nname = \"{name}\"\n")));
    entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next()).unwrap_or("?")
}

fn processor() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("unknown processor", |(_, model)| model.trim()).to_owned()
}

fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_numbers_as_people_read_them() {
        let written: Vec<String> = [0.081, 22.07, 173.4, 1234567.0].map(number).into();
        assert_eq!(written, ["0.081", "22.1", "173", "1,234,567"]);
    }

    #[test]
    fn finds_a_version_in_a_lockfile() {
        let lock = "[[package]]\nname = \"hyper-util\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"hyper\"\nversion = \"1.12.0\"\n";
        assert_eq!(version(lock, "hyper"), "1.12.0");
        assert_eq!(version(lock, "axum"), "?");
    }
}
