//! Remote is local, seen from outside: the same callers talk to the same agent, once where `chancery serve` runs it itself and once
//! where it is another process (`chancery demo --agent conformance`) behind it. What they are told is the same, but for ids, times
//! and the extension that says where something comes from.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]
#![allow(clippy::print_stdout, reason = "how many scenarios are the same is what is asked")]
#![cfg(unix)]

mod caller;
#[path = "../govern/gateway.rs"]
#[allow(dead_code, reason = "the other tests use the rest of it")]
mod gateway;
#[path = "../conformance/http.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod http;
#[path = "../accept_remote/normal.rs"]
mod normal;
#[path = "../conformance/receiver.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod receiver;
mod refusals;
mod scenarios;
#[path = "../conformance/schema.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod schema;
mod site;
mod tasks;

use caller::Caller;
use site::Site;

/// How much of a difference is shown, and how much of what stands before it.
const SHOWN: usize = 400;
const BEFORE: usize = 80;

/// What a caller goes through with an agent, and what it is called.
type Scenario = (&'static str, fn(&mut Caller));

#[test]
fn an_agent_in_another_process_answers_as_one_that_the_gateway_runs() {
    judge(&Site::remote(&[]));
}

#[test]
fn so_does_one_that_speaks_v0_3_only() {
    judge(&Site::remote(&["--without-version", "1.0"]));
}

#[test]
#[ignore = "it wants another SDK; interop/test runs it"]
fn so_does_one_on_another_sdk() {
    judge(&Site::foreign());
}

#[test]
fn what_is_compared_is_what_does_not_depend_on_who_is_faster() {
    judge(&Site::local());
}

/// Plays every scenario where the gateway runs the agent, and where it may not.
fn judge(other: &Site) {
    let here = Site::local();
    let scenarios: Vec<&Scenario> = scenarios::ALL.iter().chain(&tasks::ALL).chain(&refusals::ALL).collect();
    assert!(scenarios.len() >= 28, "there are to be 28 at least");
    let mut differences = Vec::new();
    for (name, scenario) in &scenarios {
        let (one, other) = (here.play(*scenario), other.play(*scenario));
        if one.contains(caller::BROKE_OFF) || one.is_empty() {
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
