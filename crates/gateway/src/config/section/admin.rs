//! How the gateway is looked after.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the gateway is looked after while it runs. Where it listens for that, and the token that it wants, stand in
/// `admin.json` in the data directory, which is where `chancery admin` looks.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AdminSection {
    /// Whether it listens for that at all.
    pub(crate) enabled: bool,
    /// An address that only this machine can reach. Any free port unless said otherwise.
    pub(crate) listen: SocketAddr,
}

impl Default for AdminSection {
    fn default() -> Self {
        Self { enabled: true, listen: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }
}
