//! What must be there on the machine that serves: programs, secrets, keys of the callers that are named. Asked by `chancery check`; on
//! another machine, or before the first key is made, the same configuration may be right.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::Node;
use super::file::Config;
use super::problem::Problem;
use super::section::{AgentSection, ModelSection};
use super::sense::Sense;
use crate::identity::files;
use crate::{identity, kinds};

/// Everything that is not there.
pub(super) fn problems(config: &Config, node: &Node) -> Vec<Problem> {
    let mut sense = Sense { node, problems: Vec::new() };
    for (place, agent) in config.agent.iter().enumerate().filter(|(_, agent)| agent.described_in.is_none()) {
        let place = place.to_string();
        programs(&mut sense, agent, &place);
        secrets(&mut sense, agent, &place);
    }
    for (path, file) in secret_files(config) {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        if let Some(mode) = files::mode_for_others(file) {
            let file = file.display();
            sense.complain(&path, format!("others than its owner can read {file} (mode {mode:o})")).hint =
                Some(format!("run `chmod 600 {file}`"));
        }
    }
    callers(&mut sense, config);
    sense.problems
}

fn key_of(model: &Option<ModelSection>) -> Option<&Path> {
    model.as_ref()?.key_file.as_deref()
}

/// The files that hold secrets and are not the gateway's own, with the keys that name them.
pub(crate) fn secret_files(config: &Config) -> Vec<(Vec<String>, &Path)> {
    let mut files = vec![(vec!["server", "tls", "key"], config.server.tls.as_ref().map(|tls| &*tls.key))];
    let places: Vec<String> =
        (0..config.agent.len().max(config.markdown.len())).map(|place| place.to_string()).collect();
    for (agent, place) in config.agent.iter().zip(&places).filter(|(agent, _)| agent.described_in.is_none()) {
        let credential = agent.credential.as_ref().and_then(|known| known.secret_file.as_deref());
        files.push((vec!["agent", place, "credential", "secret_file"], credential));
        files.push((vec!["agent", place, "model", "key_file"], key_of(&agent.model)));
    }
    for (folder, place) in config.markdown.iter().zip(&places) {
        files.push((vec!["markdown", place, "model", "key_file"], key_of(&folder.model)));
        for (name, model) in &folder.models {
            files.push((vec!["markdown", place, "models", name, "key_file"], model.key_file.as_deref()));
        }
    }
    let owned = |path: Vec<&str>| path.into_iter().map(str::to_owned).collect();
    files.into_iter().filter_map(|(path, file)| Some((owned(path), file?))).collect()
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
