//! Limits that the kernel keeps for each process and whatever it starts.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::plan::Limits;

/// How many files may be open at a time.
const OPEN_FILES: u64 = 256;

/// What each process may have. Its memory is not limited so where the cgroup limits that of all.
fn all(limits: &Limits, whole: bool) -> impl Iterator<Item = (Resource, u64)> {
    let memory = (!whole).then_some((Resource::RLIMIT_AS, limits.memory_bytes));
    let others = [
        (Resource::RLIMIT_FSIZE, limits.disk_bytes),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_NOFILE, OPEN_FILES),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_MSGQUEUE, 0),
    ];
    others.into_iter().chain(memory)
}

pub(super) fn apply(limits: &Limits, whole: bool) -> nix::Result<()> {
    all(limits, whole).try_for_each(|(resource, most)| setrlimit(resource, most, most))
}

/// Whether they are in force.
pub(super) fn hold(limits: &Limits, whole: bool) -> bool {
    all(limits, whole).all(|(resource, most)| getrlimit(resource) == Ok((most, most)))
}

/// How many processes and threads a user has. The kernel counts all of them against the limit of each, unless they are in
/// a namespace of users of their own.
pub(super) fn threads_of(user: u32) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            let field = |name: &str| {
                status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
            };
            let is_own = field("Uid:")?.parse() == Ok(user);
            if is_own { field("Threads:")?.parse::<u64>().ok() } else { None }
        })
        .sum()
}
