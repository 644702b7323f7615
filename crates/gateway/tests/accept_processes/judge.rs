//! Whether what callers are told is the same.

use crate::caller::{BROKE_OFF, Caller};
use crate::site::Site;
use crate::{refusals, scenarios, tasks};

/// What a caller goes through with an agent, and what it is called.
pub(crate) type Scenario = (&'static str, fn(&mut Caller));

/// How much of a difference is shown, and how much of what stands before it.
const SHOWN: usize = 400;
const BEFORE: usize = 80;

/// Plays every scenario where the gateway runs the agent, and where it may not. Those that are known to differ are left out.
pub(crate) fn judge(other: &Site, known: &[(&str, &str)]) {
    let here = Site::local();
    let all = scenarios::ALL.iter().chain(&tasks::ALL).chain(&refusals::ALL);
    let is_known = |name: &str| known.iter().any(|(known, _)| *known == name);
    let scenarios: Vec<&Scenario> = all.filter(|(name, _)| !is_known(name)).collect();
    assert!(scenarios.len() >= 28, "there are to be 28 at least");
    let mut differences = Vec::new();
    for (name, scenario) in &scenarios {
        let (one, other) = (here.play(*scenario), other.play(*scenario));
        if one.contains(BROKE_OFF) || one.is_empty() {
            differences.push(format!("{name}: it is not even played to the end here: {one}"));
        } else if one != other {
            differences.push(format!("{name}\n{}", first_difference(&one, &other)));
        }
    }
    println!("{} of {}", scenarios.len() - differences.len(), scenarios.len());
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Where two transcripts part: the lines, from shortly before that.
fn first_difference(one: &str, other: &str) -> String {
    let line = one.lines().zip(other.lines()).position(|(one, other)| one != other);
    let line = line.unwrap_or_else(|| one.lines().count().min(other.lines().count()));
    let [one, other] = [one, other].map(|text| text.lines().nth(line).unwrap_or("(nothing more)"));
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(BEFORE);
    let [here, there] = [one, other].map(|text| text.chars().skip(from).take(SHOWN).collect::<String>());
    format!("  line {line}, from character {from}\n  here:      {here}\n  elsewhere: {there}")
}
