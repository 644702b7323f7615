//! Own users, processes, network, host name, messages and mounts, and which of them are own.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};

/// Who owns nothing: the user that a program runs as when the gateway is root, and the one that it sees itself as.
pub(super) const NOBODY: u32 = 65_534;

/// Leaves off being root, for good.
pub(super) fn become_nobody() -> nix::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    // Or what is about this process in /proc would be root's, and its maps could not be written.
    prctl::set_dumpable(true)
}

/// The kinds of namespace, as `/proc` names them.
const KINDS: [&str; 6] = ["user", "mnt", "pid", "ipc", "uts", "net"];

/// The namespaces of this process.
pub(super) fn of_this_process() -> BTreeMap<String, String> {
    let link = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).ok();
    let known = KINDS.iter().filter_map(|kind| Some(((*kind).to_owned(), link(kind)?)));
    known.map(|(kind, link)| (kind, link.to_string_lossy().into_owned())).collect()
}

/// The kinds of which this process has another namespace than those out there.
pub(super) fn own(outer: &BTreeMap<String, String>) -> Vec<String> {
    let here = of_this_process().into_iter();
    let own = here.filter(|(kind, link)| outer.get(kind).is_some_and(|outer| outer != link));
    own.map(|(kind, _)| kind).collect()
}

/// Enters namespaces of its own. Processes of the next generation are in them; this one is their root, or root makes them.
pub(super) fn enter(network: bool, by_root: bool) -> io::Result<()> {
    let mut kinds = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if !network {
        kinds |= CloneFlags::CLONE_NEWNET;
    }
    if by_root { Ok(unshare(kinds)?) } else { enter_as(0, kinds) }
}

/// Enters one more namespace of users, in which it is nobody: what the first one's root may do, a program may not.
pub(super) fn enter_as_nobody() -> io::Result<()> {
    enter_as(NOBODY, CloneFlags::empty())
}

fn enter_as(inside: u32, kinds: CloneFlags) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(kinds | CloneFlags::CLONE_NEWUSER)?;
    // Already denied in a namespace within one where it was.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{inside} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{inside} {group} 1"))
}
