//! Own users, processes, network, host name, messages and mounts.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};

/// Who owns nothing: the user that a program runs as when the gateway is root, and the one that it sees itself as.
const NOBODY: u32 = 65_534;

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

/// Enters namespaces of its own. Processes of the next generation are in them; this one is their root.
pub(super) fn enter(network: bool) -> io::Result<()> {
    let mut kinds = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if !network {
        kinds |= CloneFlags::CLONE_NEWNET;
    }
    enter_as(0, kinds)
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
