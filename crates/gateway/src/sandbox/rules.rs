//! Landlock: what of the files may be read and written, whatever the mounts are.

use std::fs::File;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest generation of rules that is asked for. What the kernel does not know of it is left out, but nothing of
/// the first generation is.
const NEWEST: ABI = ABI::V6;

/// What a program needs of `/dev`.
pub(super) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Shuts out everything else for good. Whether that is in force. A `binary` that has no path there may be run all the same.
pub(super) fn apply(
    read: &[PathBuf],
    write: &[PathBuf],
    binary: Option<&File>,
    network: bool,
) -> Result<bool, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    let rules = if network { rules } else { rules.handle_access(AccessNet::from_all(NEWEST))? };
    let devices = DEVICES.map(Path::new);
    let run = AccessFs::ReadFile | AccessFs::Execute;
    let status = rules
        .create()?
        .add_rules(binary.map(|binary| Ok::<_, RulesetError>(PathBeneath::new(binary, run))))?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(NEWEST)))?
        .add_rules(path_beneath_rules(devices, AccessFs::ReadFile | AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced && status.no_new_privs)
}
