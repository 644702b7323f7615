//! What is really applied, as seen from inside. Nothing here is believed because it was asked for.

use std::collections::BTreeMap;
use std::fs::{self, File};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::limits;
use super::plan::{Facts, Plan};
use super::root::Binds;

/// The kinds of namespace, as `/proc` names them.
const KINDS: [&str; 6] = ["user", "mnt", "pid", "ipc", "uts", "net"];

/// The namespaces of this process.
pub(super) fn namespaces() -> BTreeMap<String, String> {
    let link = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).ok();
    let known = KINDS.iter().filter_map(|kind| Some(((*kind).to_owned(), link(kind)?)));
    known.map(|(kind, link)| (kind, link.to_string_lossy().into_owned())).collect()
}

/// Which namespaces are not the gateway's.
pub(super) fn own(plan: &Plan, here: &BTreeMap<String, String>) -> BTreeMap<String, bool> {
    let is_own = |kind: &str| match (plan.outer.get(kind), here.get(kind)) {
        (Some(outer), Some(inner)) => outer != inner,
        _ => false,
    };
    KINDS.iter().map(|kind| ((*kind).to_owned(), is_own(kind))).collect()
}

/// Looks around.
pub(super) fn look(plan: &Plan, own: BTreeMap<String, bool>, landlock: bool, binds: Binds) -> Facts {
    let tmpfs = statfs(".").is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC);
    Facts {
        user: plan.user,
        own,
        landlock,
        files: plan.canary.as_ref().is_some_and(|path| File::open(path).is_err()),
        tmpfs: tmpfs && plan.namespaces,
        limits: limits::hold(&plan.limits),
        binds: binds.all,
        writable_binds: binds.writable,
    }
}
