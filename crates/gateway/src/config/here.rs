//! What must be there on the machine that serves: programs, secrets, keys of the callers that are named. Asked by `chancery check`; on
//! another machine, or before the first key is made, the same configuration may be right.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::Node;
use super::file::Config;
use super::problem::Problem;
use super::section::AgentSection;
use super::sense::Sense;
use crate::{identity, kinds};

/// Everything that is not there.
pub(super) fn problems(config: &Config, node: &Node) -> Vec<Problem> {
    let mut sense = Sense { node, problems: Vec::new() };
    for (place, agent) in config.agent.iter().enumerate().filter(|(_, agent)| agent.described_in.is_none()) {
        let place = place.to_string();
        programs(&mut sense, agent, &place);
        secrets(&mut sense, agent, &place);
    }
    callers(&mut sense, config);
    sense.problems
}

fn programs(sense: &mut Sense<'_>, agent: &AgentSection, place: &str) {
    let Some(program) = agent.command.as_ref().and_then(|command| command.run.first()) else { return };
    if let Err(error) = kinds::located(program) {
        sense.complain(&["agent", place, "command", "run"], error.to_string());
    }
}

fn secrets(sense: &mut Sense<'_>, agent: &AgentSection, place: &str) {
    let (credential, model) = (agent.credential.as_ref(), agent.model.as_ref());
    let variables = [
        ("credential", "secret_env", credential.and_then(|known| known.secret_env.as_ref())),
        ("model", "key_env", model.and_then(|known| known.key_env.as_ref())),
    ];
    for (section, key, name) in variables {
        if let Some(name) = name.filter(|name| std::env::var_os(name).is_none()) {
            sense.complain(&["agent", place, section, key], format!("the variable `{name}` is not set"));
        }
    }
    let files = [
        ("credential", "secret_file", credential.and_then(|known| known.secret_file.as_ref())),
        ("model", "key_file", model.and_then(|known| known.key_file.as_ref())),
    ];
    for (section, key, path) in files {
        if let Some(path) = path.filter(|path| !path.is_file()) {
            sense.complain(&["agent", place, section, key], format!("there is no file {}", path.display()));
        }
    }
}

/// Callers and groups that nobody can be. Before the first key is made, nobody is anybody.
fn callers(sense: &mut Sense<'_>, config: &Config) {
    let Ok(keys) = identity::key_records(Path::new(&config.store.data)) else { return };
    if keys.is_empty() {
        return;
    }
    let (own, found) = (&config.agent, &config.identity.agent);
    let mut callers: BTreeSet<&str> = own.iter().map(|agent| agent.name.as_str()).collect();
    callers.extend(found.iter().map(|agent| agent.name.as_str()));
    callers.extend(keys.iter().map(|key| &*key.caller));
    callers.insert("anonymous");
    let groups: BTreeSet<&str> = found
        .iter()
        .flat_map(|agent| agent.groups.iter().map(String::as_str))
        .chain(keys.iter().flat_map(|key| key.groups.iter().map(|group| &**group)))
        .collect();
    let (callers, groups): (Vec<_>, Vec<_>) = (callers.into_iter().collect(), groups.into_iter().collect());
    const CALLER: &str = "caller with a key";
    const GROUP: &str = "group of a caller with a key";
    for name in config.budget.callers.keys() {
        sense.one_of(&["budget", "callers", name], name, CALLER, &callers);
    }
    for (policy, section) in &config.policy {
        for (place, name) in section.callers.iter().enumerate() {
            sense.one_of(&["policy", policy, "callers", &place.to_string()], name, CALLER, &callers);
        }
        for (place, name) in section.groups.iter().enumerate() {
            sense.one_of(&["policy", policy, "groups", &place.to_string()], name, GROUP, &groups);
        }
    }
    for (place, entry) in config.identity.allow.iter().enumerate() {
        let path = ["identity", "allow", &place.to_string()];
        if let Some(name) = entry.strip_prefix("caller:") {
            sense.one_of(&path, name, CALLER, &callers);
        } else if let Some(name) = entry.strip_prefix("group:") {
            sense.one_of(&path, name, GROUP, &groups);
        }
    }
}
