//! How much one caller, and one address, may have of the gateway at a time, and of what is kept.

use std::time::Duration;

use chancery_sdk::ServerLimits;
use chancery_store::StoreLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much one caller, and one address, may have at a time. Each address of anonymous callers counts as one caller here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerLimitsSection {
    /// So many connections at a time; at most half as many as files may be open, since agents, the store, programs and the admin
    /// interface need some as well.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) connections: usize,
    /// So many connections at a time from one address, or one /64 of IPv6; from `trusted_proxies` as many as there may be.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) connections_per_source: usize,
    /// So many open streams at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) streams: usize,
    /// So many open streams of one caller.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) streams_per_caller: usize,
    /// So many MiB of answers that are larger than 16 KiB and that their callers have not read yet. One answer may be larger.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) unread_mib: usize,
    /// The same for one caller.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) unread_mib_per_caller: usize,
    /// A connection is closed whose other end takes nothing for so long although there is something for it, in milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) write_timeout_ms: u64,
    /// So many wrong credentials may come from one address in a minute. For the rest of that minute requests from there that show
    /// a credential are refused with 429.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) wrong_credentials_per_minute: usize,
}

/// How much is kept, and how much of each caller. Where there is too much of all, whoever has most loses its oldest; nobody loses
/// anything for another who has more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreLimitsSection {
    /// So many tasks that have ended; 1,000,000 unless said otherwise, in memory 25,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) tasks: Option<usize>,
    /// So many of one caller; as many as of all unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) tasks_per_caller: Option<usize>,
    /// So many idempotency keys; 1,000,000 unless said otherwise, in memory 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) keys: Option<usize>,
    /// So many of one caller; as many as of all unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) keys_per_caller: Option<usize>,
    /// So many records of calls that are over; 1,000,000 unless said otherwise, in memory 25,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) calls: Option<usize>,
    /// So many of one caller; as many as of all unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) calls_per_caller: Option<usize>,
}

impl StoreLimitsSection {
    /// The limits of the store that a URL names.
    pub(crate) fn of_store(&self, url: &str) -> StoreLimits {
        let mut limits = StoreLimits::for_url(url);
        let kept = &mut limits.retention;
        kept.max_tasks = self.tasks.unwrap_or(kept.max_tasks);
        kept.max_tasks_per_owner = self.tasks_per_caller.unwrap_or(kept.max_tasks);
        kept.max_admissions = self.keys.unwrap_or(kept.max_admissions);
        kept.max_admissions_per_owner = self.keys_per_caller.unwrap_or(kept.max_admissions);
        kept.max_edges = self.calls.unwrap_or(kept.max_edges);
        kept.max_edges_per_owner = self.calls_per_caller.unwrap_or(kept.max_edges);
        limits
    }
}

impl Default for ServerLimitsSection {
    fn default() -> Self {
        let limits = ServerLimits::default();
        Self {
            connections: limits.connections,
            connections_per_source: limits.connections_per_source,
            streams: limits.streams,
            streams_per_caller: limits.streams_per_owner,
            unread_mib: limits.unread_bytes >> 20,
            unread_mib_per_caller: limits.unread_bytes_per_owner >> 20,
            write_timeout_ms: u64::try_from(limits.write_timeout.as_millis()).unwrap_or(u64::MAX),
            wrong_credentials_per_minute: limits.refused_credentials,
        }
    }
}

impl ServerLimitsSection {
    /// The limits of the server, where so many files may be open.
    pub(crate) fn of_server(&self, open_files: usize) -> ServerLimits {
        ServerLimits {
            connections: self.connections.min(open_files / 2).max(1),
            connections_per_source: self.connections_per_source,
            streams: self.streams,
            streams_per_owner: self.streams_per_caller,
            unread_bytes: self.unread_mib << 20,
            unread_bytes_per_owner: self.unread_mib_per_caller << 20,
            write_timeout: Duration::from_millis(self.write_timeout_ms),
            refused_credentials: self.wrong_credentials_per_minute,
            ..ServerLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_open_files_to_the_rest() {
        let section = ServerLimitsSection::default();
        let connections = |open_files| section.of_server(open_files).connections;
        assert_eq!((connections(1 << 20), connections(1_024), connections(1)), (8_192, 512, 1));
    }
}
