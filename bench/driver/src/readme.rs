//! The short table in the front README, made of a result file: what one governed call costs, beside what else could stand there.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::compile;
use crate::gateway::{self, ENVOY};
use crate::measure::product::{GROUP, SEND};
use crate::report::number;

const BEGIN: &str = "<!-- product:begin -->";
const END: &str = "<!-- product:end -->";

/// What stands in the columns, by the figure's name.
const FIGURES: [&str; 4] = ["CPU µs/call", "calls/s", "p50 ms", "p99 ms"];

/// Puts the figures of a result file into the front README.
pub(crate) fn update(results: &Path) -> anyhow::Result<()> {
    let results: Value = serde_json::from_slice(
        &std::fs::read(results).with_context(|| format!("could not read {}", results.display()))?,
    )?;
    let readme = compile::product().join("README.md");
    let text = std::fs::read_to_string(&readme)?;
    std::fs::write(&readme, with_table(&text, &table(&results)?)?)?;
    Ok(())
}

fn table(results: &Value) -> anyhow::Result<String> {
    let figures = results["figures"].as_array().context("a result file without figures")?;
    let row = |figure: &str| {
        let name = format!("{SEND}: {figure}");
        let found = figures.iter().find(|row| row["group"] == GROUP && row["figure"] == *name);
        found.map(|row| &row["servers"]).with_context(|| format!("no `{name}` in the result file"))
    };
    let [cpu, rate, p50, p99] = FIGURES.map(row);
    let (cpu, others) = (cpu?, [rate?, p50?, p99?]);
    let mut text = format!(
        "| one call through | {} of the gateway | of {ENVOY}'s | {} |\n",
        FIGURES[0],
        FIGURES[1..].join(" | ")
    );
    text.push_str("|---|---:|---:|---:|---:|---:|\n");
    for gateway in &gateway::ALL {
        let Some(micros) = median(cpu, gateway.name) else { continue };
        let ratio = cpu[gateway.name][format!("to_{ENVOY}")].as_f64();
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x"));
        let rest = others.map(|row| median(row, gateway.name).unwrap_or_default()).join(" | ");
        text.push_str(&format!("| {} | {micros} | {ratio} | {rest} |\n", gateway.name));
    }
    let said = |key: &str| results[key].as_str().unwrap_or("?").to_owned();
    let (command, commit, machine, date) = (said("command"), said("commit"), said("machine"), said("date"));
    let date = date.split('T').next().unwrap_or_default();
    text.push_str(&format!(
        "\n`{command}` in `bench/`, commit {commit}, {date}, {machine}, {} rounds, medians.\n",
        results["rounds"]
    ));
    Ok(text)
}

fn median(row: &Value, name: &str) -> Option<String> {
    row[name]["median"].as_f64().map(number)
}

/// The text with another table between the marks.
fn with_table(text: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no {BEGIN} in README.md"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END} in README.md"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let text = format!("| a |\n{BEGIN}\n| old |\n{END}\n| b |\n");
        assert_eq!(
            with_table(&text, "| new |\n").unwrap(),
            format!("| a |\n{BEGIN}\n| new |\n{END}\n| b |\n")
        );
        assert!(with_table("no marks", "").is_err());
    }

    #[test]
    fn a_gateway_that_was_not_measured_has_no_row() {
        let row = |figure: &str, own: f64| {
            json!({"group": GROUP, "figure": format!("{SEND}: {figure}"), "servers": {
                "chancery, SQLite, send": {"median": own, "to_Envoy": 2.5}, "Envoy": {"median": 10.0, "to_Envoy": 1.0}}})
        };
        let results = json!({"date": "2026-11-19T01:02Z", "commit": "abc", "machine": "2 cores", "command": "cargo run",
            "rounds": 5, "figures": FIGURES.map(|figure| row(figure, 25.0))});
        let table = table(&results).unwrap();
        assert!(
            table.contains("| chancery, SQLite, send | 25.0 | 2.50x | 25.0 | 25.0 | 25.0 |\n"),
            "{table}"
        );
        assert!(table.contains("| Envoy | 10.0 | 1.00x |"), "{table}");
        assert!(
            table.ends_with(
                "\n`cargo run` in `bench/`, commit abc, 2026-11-19, 2 cores, 5 rounds, medians.\n"
            ),
            "{table}"
        );
        assert!(!table.contains("nginx"), "{table}");
        assert!(super::table(&json!({"figures": []})).is_err());
    }
}
