//! Names of agents that are nowhere: a limit or an exception for one would never count.

use super::document::Node;
use super::file::Config;
use super::problem::Problem;
use super::sense::Sense;

/// Every name of an agent that no agent has. To be asked when all are known, those of files of Markdown too.
pub(super) fn problems(config: &Config, node: &Node) -> Vec<Problem> {
    let mut sense = Sense { node, problems: Vec::new() };
    let agents: Vec<_> = config.agent.iter().map(|agent| agent.name.as_str()).collect();
    // Who is in another fleet is known only while the gateway runs.
    let is_found = |name: &str| {
        let mut below = config.discover.iter().filter_map(|found| name.strip_prefix(&found.prefix));
        below.any(|below| below.starts_with('-'))
    };
    let mut known = |path: &[&str], name: &str| {
        if !is_found(name) {
            sense.one_of(path, name, "agent", &agents);
        }
    };
    for name in config.budget.agents.keys() {
        known(&["budget", "agents", name], name);
    }
    for (place, name) in config.recursion.revisit_allowlist.iter().enumerate() {
        known(&["recursion", "revisit_allowlist", &place.to_string()], name);
    }
    for (policy, section) in &config.policy {
        for (place, name) in section.agents.iter().enumerate() {
            known(&["policy", policy, "agents", &place.to_string()], name);
        }
    }
    sense.problems
}
