//! Who is calling, and how that was proven.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

/// Who is calling, as proven and not as claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    /// What isolates: nothing of one realm is ever seen from another.
    pub realm: Arc<str>,
    /// Who it is within the realm; owns the tasks it creates.
    pub id: Arc<str>,
}

/// What was proven about a caller besides its name. Shared by all calls that are made with one credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// How it was proven.
    pub proof: Proof,
    /// The groups that the caller belongs to.
    pub groups: Vec<Arc<str>>,
    /// The agent of this fleet that the caller is, if it is one.
    pub agent: Option<Arc<str>>,
    /// The id of the API key that the caller has shown, if it did.
    pub key: Option<Arc<str>>,
    /// The id of the key that the caller signed with, if it did: a digest of it, the same in every fleet.
    pub agent_id: Option<Arc<str>>,
    /// The proof of descent of every call that is made with the credential, if it was handed out for one turn of an agent.
    pub lineage: Option<Arc<str>>,
}

/// How a caller has shown who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Proof {
    /// Not at all.
    #[default]
    Anonymous,
    /// By an application of yours that let it in.
    Application,
    /// By a key that this gateway has handed out.
    ApiKey,
    /// By a token that it signed with its own key.
    AgentToken,
}

/// Somebody who calls: who it is, and what else was proven about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who it is; owns the tasks it creates.
    pub principal: Principal,
    /// What else was proven.
    pub identity: Arc<Identity>,
}

// === impl Principal ===

impl Principal {
    /// Somebody in a realm.
    pub fn new(realm: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        Self { realm: realm.into(), id: id.into() }
    }
}

/// Somebody whom an application has let in by itself.
impl From<Principal> for Caller {
    fn from(principal: Principal) -> Self {
        static APPLICATION: LazyLock<Arc<Identity>> =
            LazyLock::new(|| Arc::new(Identity { proof: Proof::Application, ..Identity::default() }));
        Self { principal, identity: APPLICATION.clone() }
    }
}

/// The network that an address stands for where each source is counted: who has one address of the sixth version has 2^64 of them.
pub fn network_of(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(_) => source,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        },
    }
}
