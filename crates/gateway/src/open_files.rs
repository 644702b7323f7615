//! How many files may be open: as many as the system lets this process have. The usual limit is for programs of another time.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Raises the limit to the highest that this process may have, and says how many that is.
pub(crate) fn raise_limit() -> usize {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < hard => match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => whole(hard),
            Err(error) => {
                tracing::warn!(%error, soft, "the limit of open files stays at {soft}");
                whole(soft)
            }
        },
        Ok((soft, _)) => whole(soft),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be read");
            LEAST
        }
    }
}

/// What any system lets a process have.
const LEAST: usize = 1_024;

fn whole(files: rlim_t) -> usize {
    usize::try_from(files).unwrap_or(usize::MAX)
}
