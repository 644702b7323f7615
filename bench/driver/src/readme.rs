//! The short tables in the front README, made of a result file: the figures that have a bar, and the bar.
//!
//! Only the lines of the tables change; the words around them are for people to write.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::compile;
use crate::report::number;

const SERVERS: [&str; 5] = ["limit", "official", "protocol", "chancery", "chancery+sqlite"];
const BETWEEN: [&str; 6] = ["proxy", "nginx", "relay", "relay from REST", "relay from v0.3", "relay+sqlite"];

/// One row: what it is called, the figure's group and name, and the bar.
struct Line(&'static str, &'static str, &'static str, &'static str);

const LINES: [Line; 20] = [
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
        "the same, 100 chunks",
        STREAMS,
        "100 chunks at once, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "the same, 1,000 chunks",
        STREAMS,
        "1000 chunks at once, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "stream of 10 chunks 1 ms apart, 16 connections: CPU µs/event",
        STREAMS,
        "10 chunks 1 ms apart, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "the same, 100 chunks",
        STREAMS,
        "100 chunks 1 ms apart, 16 connections: CPU µs/event",
        "1.5x; SQLite 4x",
    ),
    Line(
        "the same, 1,000 chunks",
        STREAMS,
        "1000 chunks 1 ms apart, 16 connections: CPU µs/event",
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

/// The same of the relay, beside a plain proxy.
const RELAYED: [Line; 5] = [
    Line(
        "SendMessage as fast as they can: CPU µs",
        RELAY,
        "SendMessage, 16 connections as fast as they can: CPU µs/request",
        "1.3x; translated 2x; SQLite 2.5x",
    ),
    Line(
        "the same at 2,000/s",
        RELAY,
        "SendMessage, 16 connections at 2000/s: CPU µs/request",
        "1.3x; translated 2x; SQLite 2.5x",
    ),
    Line(
        "stream of 10 chunks at once: CPU µs/event",
        RELAY,
        "stream of 10 chunks at once, 16 connections: CPU µs/event",
        "1.5x; translated 2x; SQLite 2.5x",
    ),
    Line(
        "the same, 100 chunks",
        RELAY,
        "stream of 100 chunks at once, 16 connections: CPU µs/event",
        "1.5x; translated 2x; SQLite 2.5x",
    ),
    Line(
        "the same, 100 chunks 1 ms apart",
        RELAY,
        "stream of 100 chunks 1 ms apart, 16 connections: CPU µs/event",
        "1.5x; translated 2x; SQLite 2.5x",
    ),
];

const SEND: &str = "SendMessage";
const GET: &str = "GetTask";
const WORK: &str = "Work per SendMessage";
const STREAMS: &str = "Streams";
const CLIENT: &str = crate::measure::client::GROUP;
const RELAY: &str = crate::measure::relay::GROUP;

/// Puts the figures of a result file into the front README.
pub(crate) fn update(results: &Path) -> anyhow::Result<()> {
    let results: Value = serde_json::from_slice(
        &std::fs::read(results).with_context(|| format!("could not read {}", results.display()))?,
    )?;
    let readme = compile::root().join("../README.md");
    let mut text = std::fs::read_to_string(&readme)?;
    for (mark, lines, columns) in [("bench", &LINES[..], &SERVERS[..]), ("relay", &RELAYED[..], &BETWEEN[..])]
    {
        let table = table(&results, lines, columns)?;
        // A run of some measures leaves the table of the others as it is.
        if table.lines().count() > HEAD {
            text = with_table(&text, mark, &table)?;
        }
    }
    std::fs::write(&readme, text)?;
    Ok(())
}

/// The lines of a table without rows.
const HEAD: usize = 2;

fn table(results: &Value, lines: &[Line], columns: &[&str]) -> anyhow::Result<String> {
    let figures = results["figures"].as_array().context("a result file without figures")?;
    let groups: Vec<&str> = lines.iter().map(|Line(_, group, ..)| *group).collect();
    let of_these = |row: &&Value| row["group"].as_str().is_some_and(|group| groups.contains(&group));
    let ran =
        |column: &&&str| figures.iter().filter(of_these).any(|row| row["servers"].get(**column).is_some());
    let columns: Vec<&str> = columns.iter().filter(ran).copied().collect();
    let mut text =
        format!("| | {} | wanted |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len() + 1));
    for Line(title, group, figure, wanted) in lines {
        let found = figures.iter().find(|row| row["group"] == *group && row["figure"] == *figure);
        let Some(row) = found else { continue };
        let cells: Vec<String> = columns.iter().map(|column| cell(row, group, column)).collect();
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
        (RELAY, _) => (column, "proxy", ""),
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
fn with_table(text: &str, mark: &str, table: &str) -> anyhow::Result<String> {
    let [begin, end] = ["begin", "end"].map(|side| format!("<!-- {mark}:{side} -->"));
    let (before, rest) = text.split_once(&begin).with_context(|| format!("no {begin} in README.md"))?;
    let (block, after) = rest.split_once(&end).with_context(|| format!("no {end} in README.md"))?;
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
    Ok(format!("{before}{begin}{words}{table}{more}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_table_between_the_marks_changes() {
        let [begin, end] = ["<!-- bench:begin -->", "<!-- bench:end -->"];
        let text = format!("| a |\n{begin}\nwords\n\n| old |\n| old |\n\nmore\n{end}\n| b |\n");
        let changed = with_table(&text, "bench", "| new |\n").unwrap();
        assert_eq!(changed, format!("| a |\n{begin}\nwords\n\n| new |\n\nmore\n{end}\n| b |\n"));
        assert!(with_table("no marks", "bench", "").is_err());
        assert!(with_table(&text, "relay", "").is_err());
    }

    #[test]
    fn rows_show_ratios_and_the_bare_client_stands_for_the_limit() {
        let results = json!({"figures": [
            {"group": "SendMessage", "figure": "16 connections: CPU µs/request", "servers": {
                "limit": {"median": 10.0, "to_limit": 1.0}, "chancery+sqlite": {"median": 35.0, "to_limit": 3.5}}},
            {"group": "Client", "figure": "SendMessage, 16 callers: CPU µs/call", "servers": {
                "raw": {"median": 20.0, "to_raw": 1.0}, "chancery": {"median": 30.0, "to_raw": 1.5}}},
        ]});
        let servers = table(&results, &LINES, &SERVERS).unwrap();
        assert!(servers.contains("| | limit | chancery | chancery+sqlite | wanted |\n"), "{servers}");
        assert!(servers.contains("CPU µs | 10.0 |  | 35.0 (3.50x) | 2x; SQLite 3.5x |\n"), "{servers}");
        assert!(servers.contains("CPU µs | 20.0 | 30.0 (1.50x) |  |  |\n"), "{servers}");
        assert_eq!(servers.lines().count(), HEAD + 2);
        assert_eq!(table(&results, &RELAYED, &BETWEEN).unwrap().lines().count(), HEAD);
    }
}
