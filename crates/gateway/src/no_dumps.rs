//! The memory of the gateway holds keys and what agents say to each other. Nobody is to find it in a file: it leaves no core
//! dump, and no other process of the same user can look into it.

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};

/// To be called before anything secret is read. What the gateway starts is dumpable again, but leaves no core either.
pub(crate) fn forbid() {
    // A handler that the system pipes cores to is not kept off by the limit, and a process that may not be dumped is.
    let limited = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let forbidden = prctl::set_dumpable(false);
    if let Err(error) = limited.and(forbidden) {
        tracing::warn!(%error, "if the gateway crashes, its memory may be written to a file: {error}");
    }
}
