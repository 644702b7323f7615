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

/// What a caller goes through with an agent, and what it is called.
type Scenario = (&'static str, fn(&mut Caller));

#[test]
fn an_agent_in_another_process_answers_as_one_that_the_gateway_runs() {
    let (local, remote) = (Site::local(), Site::remote());
    let scenarios: Vec<&Scenario> = scenarios::ALL.iter().chain(&tasks::ALL).chain(&refusals::ALL).collect();
    assert!(scenarios.len() >= 28, "there are to be 28 at least");
    let mut differences = Vec::new();
    for (name, scenario) in &scenarios {
        let (one, other) = (local.play(*scenario), remote.play(*scenario));
        if one.contains(caller::BROKE_OFF) || one.is_empty() {
            differences.push(format!("{name}: it is not even played to the end here: {one}"));
        } else if one != other {
            differences.push(format!("{name}\n{}", first_difference(&one, &other)));
        }
    }
    println!("{} of {}", scenarios.len() - differences.len(), scenarios.len());
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Where two transcripts part.
fn first_difference(one: &str, other: &str) -> String {
    let none = ("(nothing more)", "(nothing more)");
    let longest = one.lines().count().max(other.lines().count());
    let at = |text: &str, number: usize| text.lines().nth(number).map(str::to_owned);
    let mut pairs = (0..longest).map(|number| (at(one, number), at(other, number)));
    let (here, there) = pairs.find(|(here, there)| here != there).unwrap_or_default();
    format!(
        "  here:      {}\n  elsewhere: {}",
        here.as_deref().unwrap_or(none.0),
        there.as_deref().unwrap_or(none.1)
    )
}
