//! Limits that the kernel keeps for each process and whatever it starts.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::plan::Limits;

/// How many files may be open at a time.
const OPEN_FILES: u64 = 256;

fn all(limits: &Limits) -> [(Resource, u64); 6] {
    [
        (Resource::RLIMIT_AS, limits.memory_bytes),
        (Resource::RLIMIT_FSIZE, limits.disk_bytes),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_NOFILE, OPEN_FILES),
        (Resource::RLIMIT_CORE, 0),
    ]
}

pub(super) fn apply(limits: &Limits) -> nix::Result<()> {
    all(limits).into_iter().try_for_each(|(resource, most)| setrlimit(resource, most, most))
}

/// Whether they are in force.
pub(super) fn hold(limits: &Limits) -> bool {
    all(limits).into_iter().all(|(resource, most)| getrlimit(resource) == Ok((most, most)))
}
