//! The table in `docs/conformance.md`, made of what was found.

use std::path::Path;

use crate::cell::{Findings, Side};
use crate::known::Known;
use crate::scenario::{Outcome, Scenario};

const BEGIN: &str = "<!-- interop:begin -->\n";
const END: &str = "<!-- interop:end -->";

/// Writes the table. Gives 1 if that changed what had been checked in, where nobody would check it in again.
pub(crate) fn publish(met: &[Findings], known: &Known) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let text = std::fs::read_to_string(&path).expect("docs/conformance.md");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (_, after) = rest.split_once(END).expect("where the table ends");
    let new = format!("{before}{BEGIN}{}{END}{after}", render(met, known));
    if new == text {
        return 0;
    }
    std::fs::write(&path, new).expect("docs/conformance.md can be written");
    println!("\nthe table in docs/conformance.md has changed: check it in");
    usize::from(std::env::var_os("CI").is_some())
}

fn render(met: &[Findings], known: &Known) -> String {
    let mut cited = Vec::new();
    let mut text = String::new();
    for (side, heading) in
        [(Side::Client, "Their client, our server"), (Side::Server, "Our client, their server")]
    {
        text.push_str(&format!("**{heading}**\n\n| | wire |"));
        Scenario::ALL.iter().for_each(|scenario| text.push_str(&format!(" {} |", scenario.name())));
        text.push_str(&format!("\n|---|---|{}\n", "---|".repeat(Scenario::ALL.len())));
        for findings in met.iter().filter(|findings| findings.cell.side == side) {
            let wire = findings.cell.wire;
            let title = findings.cell.peer.title();
            text.push_str(&format!("| {title} | v{} {} |", wire.version.as_str(), wire.binding.as_str()));
            for (scenario, outcome) in findings.each() {
                let reason = known.reason(&findings.cell, scenario, outcome);
                text.push_str(&format!(" {} |", shown(outcome, reason, &mut cited)));
            }
            text.push('\n');
        }
        text.push('\n');
    }
    for (number, index) in cited.iter().enumerate() {
        let reason = &known.known[*index];
        text.push_str(&format!("{}. {} ({})\n", number + 1, reason.reason, reason.evidence));
    }
    text
}

fn shown(outcome: &Outcome, reason: Option<usize>, cited: &mut Vec<usize>) -> String {
    match (outcome, reason) {
        (Outcome::Ok, _) => "ok".to_owned(),
        (Outcome::NotThere, _) => "–".to_owned(),
        (Outcome::Failed(_), None) => "**fails**".to_owned(),
        (Outcome::Failed(_), Some(index)) => {
            let number = cited.iter().position(|known| *known == index).unwrap_or_else(|| {
                cited.push(index);
                cited.len() - 1
            });
            format!("({})", number + 1)
        }
    }
}
