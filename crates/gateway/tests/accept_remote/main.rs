//! Remote is local: the same callers talk to the same agents, once in the gateway's own process and once elsewhere, through
//! the same gates; what they are told is the same to the byte, but for ids and times that nobody can know beforehand.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing where it must be has failed")]

mod actor;
#[path = "../conformance/http.rs"]
#[allow(dead_code, reason = "the kit uses more of it")]
mod http;
mod normal;
mod scenarios;
mod site;

use scenarios::{Caller, SCENARIOS};
use site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_elsewhere_answers_to_the_byte_as_one_here() {
    let (here, elsewhere) = (Site::local().await, Site::remote().await);
    let mut differences = Vec::new();
    for (name, scenario) in SCENARIOS {
        let talk = |site: &Site| {
            let address = site.address;
            tokio::task::spawn_blocking(move || {
                let mut caller = Caller::new(address);
                scenario(&mut caller);
                caller.transcript()
            })
        };
        let (one, other) = (talk(&here).await.expect(name), talk(&elsewhere).await.expect(name));
        assert!(!one.is_empty(), "{name}: nothing was said");
        if one != other {
            differences.push(format!("{name}\n{}", first_difference(&one, &other)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Where two transcripts part.
fn first_difference(one: &str, other: &str) -> String {
    let lines = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    let (one, other) = lines.unwrap_or((one, other));
    format!("  here:      {one}\n  elsewhere: {other}")
}
