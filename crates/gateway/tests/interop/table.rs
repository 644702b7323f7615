//! The table in `docs/conformance.md`, made of what was found.

use std::path::Path;

use crate::cell::{Findings, Side, Upstream};
use crate::known::Known;
use crate::scenario::{Outcome, Scenario};

/// Writes the table between two marks of this name. Gives 1 if that changed what had been checked in, where nobody would check it in again.
pub(crate) fn publish(met: &[Findings], known: &Known, name: &str, headings: [&str; 2]) -> usize {
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let text = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let (before, rest) = text.split_once(&begin).expect("where the table begins");
    let (_, after) = rest.split_once(&end).expect("where the table ends");
    let new = format!("{before}{begin}{}{end}{after}", render(met, known, headings));
    if new == text {
        return 0;
    }
    std::fs::write(&path, new).expect("docs/conformance.md can be written");
    println!("\nthe table in docs/conformance.md has changed: check it in");
    usize::from(std::env::var_os("CI").is_some())
}

fn render(met: &[Findings], known: &Known, headings: [&str; 2]) -> String {
    let mut notes = Notes { known, cited: Vec::new() };
    let mut text = String::new();
    let is_asked = |scenario: &Scenario| {
        let asks = |findings: &Findings| {
            findings.each().any(|(one, outcome)| one == *scenario && *outcome != Outcome::NotThere)
        };
        met.iter().any(asks)
    };
    let columns: Vec<_> = Scenario::ALL.into_iter().filter(is_asked).collect();
    for (side, heading) in [Side::Client, Side::Server].into_iter().zip(headings) {
        let rows =
            met.iter().filter(|findings| findings.cell.side == side && findings.cell.upstream.is_none());
        text.push_str(&format!("**{heading}**\n\n| | wire |"));
        columns.iter().for_each(|scenario| text.push_str(&format!(" {} |", scenario.name())));
        text.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
        for findings in rows {
            text.push_str(&format!("| {} | {} |", findings.cell.peer.title(), findings.cell.wire));
            for (scenario, outcome) in findings.each().filter(|(scenario, _)| columns.contains(scenario)) {
                text.push_str(&format!(" {} |", notes.shown(findings, scenario, outcome)));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text.push_str(&render_relay(met, &mut notes));
    for (number, index) in notes.cited.iter().enumerate() {
        let reason = &known.known[*index];
        text.push_str(&format!("{}. {} ({})\n", number + 1, reason.reason, reason.evidence));
    }
    text
}

/// One row for each client, one column for each server: how many scenarios work of those that both can do, and which fail.
fn render_relay(met: &[Findings], notes: &mut Notes<'_>) -> String {
    let relayed: Vec<_> = met.iter().filter(|findings| findings.cell.upstream.is_some()).collect();
    let Some(first) = relayed.first() else { return String::new() };
    let columns =
        relayed.iter().take_while(|findings| findings.cell.place().2 == first.cell.place().2).count();
    let mut text = "**Their client, our relay, their server**\n\n| client \\ server |".to_owned();
    for Upstream { peer, wire } in relayed[..columns].iter().filter_map(|findings| findings.cell.upstream) {
        text.push_str(&format!(" {}, {wire} |", peer.title()));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(columns)));
    for row in relayed.chunks(columns) {
        text.push_str(&format!("| {}, {} |", row[0].cell.peer.title(), row[0].cell.wire));
        for findings in row {
            let asked = findings.each().filter(|(_, outcome)| **outcome != Outcome::NotThere);
            let well = findings.each().filter(|(_, outcome)| **outcome == Outcome::Ok);
            let mut shown = vec![format!("{} of {}", well.count(), asked.count())];
            for (scenario, outcome) in findings.each() {
                if matches!(outcome, Outcome::Failed(_)) {
                    shown.push(format!("{} {}", scenario.name(), notes.shown(findings, scenario, outcome)));
                }
            }
            text.push_str(&format!(" {} |", shown.join(", ")));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The reasons that are pointed to, in the order in which they are.
struct Notes<'a> {
    known: &'a Known,
    cited: Vec<usize>,
}

impl Notes<'_> {
    fn shown(&mut self, findings: &Findings, scenario: Scenario, outcome: &Outcome) -> String {
        match (outcome, self.known.reason(&findings.cell, scenario, outcome)) {
            (Outcome::Ok, _) => "ok".to_owned(),
            (Outcome::NotThere, _) => "–".to_owned(),
            (Outcome::Failed(_), None) => "**fails**".to_owned(),
            (Outcome::Failed(_), Some(index)) => {
                let number = self.cited.iter().position(|known| *known == index).unwrap_or_else(|| {
                    self.cited.push(index);
                    self.cited.len() - 1
                });
                format!("({})", number + 1)
            }
        }
    }
}
