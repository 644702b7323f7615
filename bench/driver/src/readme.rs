//! The short table in the front README, made of a result file: the figures that have a bar, and the bar.
//!
//! Only the lines of the table change; the words around it are for people to write.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::compile;
use crate::report::number;

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
const COLUMNS: [&str; 5] = ["limit", "official", "protocol", "chancery", "chancery+sqlite"];

/// One row: what it is called, the figure's group and name, and the bar.
struct Line(&'static str, &'static str, &'static str, &'static str);

const LINES: [Line; 17] = [
    Line(
        "SendMessage, 16 connections at 4,000/s: CPU µs",
        SEND,
        "16 connections at 4000/s: CPU µs/request",
        "2x",
    ),
    Line(
        "SendMessage, 16 connections as fast as they can: CPU µs",
        SEND,
        "16 connections: CPU µs/request",
        "2x; SQLite 3.5x",
    ),
    Line("the same with 64 connections: CPU µs", SEND, "64 connections: CPU µs/request", "2x; SQLite 3.5x"),
    Line("16 connections: requests/s", SEND, "16 connections: requests/s", "2x `official`"),
    Line(
        "SendMessage: instructions without memcpy",
        WORK,
        "instructions without memcpy, 1 connection",
        "80,000",
    ),
    Line("SendMessage: system calls", WORK, "system calls, 16 connections", "2.5"),
    Line(
        "GetTask, 16 connections at 4,000/s: CPU µs",
        GET,
        "16 connections at 4000/s: CPU µs/request",
        "1.3x",
    ),
    Line(
        "GetTask, 16 connections as fast as they can: CPU µs",
        GET,
        "16 connections: CPU µs/request",
        "1.3x",
    ),
    Line(
        "stream of 10 chunks at once, 16 connections: CPU µs/event",
        STREAMS,
        "10 chunks at once, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "stream of 1,000 chunks at once, 16 connections: CPU µs/event",
        STREAMS,
        "1000 chunks at once, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "stream of 100 chunks 1 ms apart, 16 connections: CPU µs/event",
        STREAMS,
        "100 chunks 1 ms apart, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line("bytes per held stream", "Memory", "bytes per held stream", "25,600"),
    Line("bytes per held subscription", "Held subscriptions", "bytes per held subscription", ""),
    Line("bytes per kept task", "Memory", "bytes per kept task", "1,500"),
    Line(
        "start with 1,000,000 tasks to the first GetTask: ms",
        "Boot",
        "1000000 tasks: ms from start to the first GetTask",
        "1,000",
    ),
    Line(
        "the client, 16 callers, beside a bare hyper client: CPU µs",
        CLIENT,
        "SendMessage, 16 callers: CPU µs/call",
        "",
    ),
    Line("the client: instructions without memcpy", CLIENT, "SendMessage: instructions without memcpy", ""),
];

const SEND: &str = "SendMessage";
const GET: &str = "GetTask";
const WORK: &str = "Work per SendMessage";
const STREAMS: &str = "Streams";
const CLIENT: &str = crate::measure::client::GROUP;

/// Puts the figures of a result file into the front README.
pub(crate) fn update(results: &Path) -> anyhow::Result<()> {
    let results: Value = serde_json::from_slice(
        &std::fs::read(results).with_context(|| format!("could not read {}", results.display()))?,
    )?;
    let readme = compile::root().join("../README.md");
    let text = std::fs::read_to_string(&readme)?;
    std::fs::write(&readme, with_table(&text, &table(&results)?)?)?;
    Ok(())
}

fn table(results: &Value) -> anyhow::Result<String> {
    let figures = results["figures"].as_array().context("a result file without figures")?;
    let mut text =
        format!("| | {} | wanted |\n|---|{}\n", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len() + 1));
    for Line(title, group, figure, wanted) in LINES {
        let found = figures.iter().find(|row| row["group"] == group && row["figure"] == figure);
        let Some(row) = found else { continue };
        let cells: Vec<String> = COLUMNS.iter().map(|column| cell(row, group, column)).collect();
        text.push_str(&format!("| {title} | {} | {wanted} |\n", cells.join(" | ")));
    }
    Ok(text)
}

/// The client's table has the bare client where the others have the bare server. For requests a second the peer
/// is what to beat.
fn cell(row: &Value, group: &str, column: &str) -> String {
    let is_rate = row["figure"].as_str().is_some_and(|figure| figure.ends_with("requests/s"));
    let (name, base, of) = match (group, column) {
        (CLIENT, "limit") => ("raw", "raw", ""),
        (CLIENT, _) => (column, "raw", ""),
        _ if is_rate => (column, "official", " `official`"),
        _ => (column, "limit", ""),
    };
    let figure = &row["servers"][name];
    let Some(value) = figure["median"].as_f64() else { return String::new() };
    match figure[format!("to_{base}")].as_f64() {
        Some(ratio) if name != base => format!("{} ({}x{of})", number(value), number(ratio)),
        _ => number(value),
    }
}

/// The text with another table between the marks.
fn with_table(text: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no {BEGIN} in README.md"))?;
    let (block, after) = rest.split_once(END).with_context(|| format!("no {END} in README.md"))?;
    let is_row = |line: &&str| line.starts_with('|');
    ensure!(block.lines().any(|line| is_row(&line)), "no table between the marks in README.md");
    let words: String =
        block.lines().take_while(|line| !is_row(line)).map(|line| format!("{line}\n")).collect();
    let more: String = block
        .lines()
        .skip_while(|line| !is_row(line))
        .skip_while(is_row)
        .map(|line| format!("{line}\n"))
        .collect();
    Ok(format!("{before}{BEGIN}{words}{table}{more}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_table_between_the_marks_changes() {
        let text = format!("| a |\n{BEGIN}\nwords\n\n| old |\n| old |\n\nmore\n{END}\n| b |\n");
        let changed = with_table(&text, "| new |\n").unwrap();
        assert_eq!(changed, format!("| a |\n{BEGIN}\nwords\n\n| new |\n\nmore\n{END}\n| b |\n"));
        assert!(with_table("no marks", "").is_err());
    }

    #[test]
    fn rows_show_ratios_and_the_bare_client_stands_for_the_limit() {
        let results = json!({"figures": [
            {"group": "SendMessage", "figure": "16 connections: CPU µs/request", "servers": {
                "limit": {"median": 10.0, "to_limit": 1.0}, "chancery+sqlite": {"median": 35.0, "to_limit": 3.5}}},
            {"group": "Client", "figure": "SendMessage, 16 callers: CPU µs/call", "servers": {
                "raw": {"median": 20.0, "to_raw": 1.0}, "chancery": {"median": 30.0, "to_raw": 1.5}}},
        ]});
        let table = table(&results).unwrap();
        assert!(table.contains("CPU µs | 10.0 |  |  |  | 35.0 (3.50x) | 2x; SQLite 3.5x |\n"), "{table}");
        assert!(table.contains("CPU µs | 20.0 |  |  | 30.0 (1.50x) |  |  |\n"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }
}
