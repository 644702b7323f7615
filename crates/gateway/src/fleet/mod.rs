//! The fleet as a whole: who is in it, who may see whom, and what is found at which address.
//!
//! | file | holds |
//! |---|---|
//! | `roster` | who is in it |
//! | `sight` | what a caller may see and use |
//! | `address` | which path leads where |
//! | `card` | the cards of the fleet and of single skills |
//! | `catalogue` | the members, filtered and paged |
//! | `health` | how the members are |
//! | `active` | the open tasks of a member |
//! | `endpoint` | calls to the fleet itself |
//! | `build` | agents made of their sections |
//! | `discover` | members of other fleets |
//! | `reload` | another configuration in the place of the one in force |

mod active;
mod address;
mod build;
mod card;
mod catalogue;
mod discover;
mod endpoint;
mod health;
mod reload;
mod roster;
pub(crate) mod sight;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use chancery_control::routing::{Peer, Pool, PoolSettings};
use chancery_sdk::protocol::ErrorCode;
use chancery_sdk::{Body, Error, Offer, Refused, Service};
use chancery_store::Store;
use http::{HeaderValue, Response, header};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::govern::{Governor, Regime};
use endpoint::Front;
use health::Findings;

pub(crate) use address::{Addresses, RESERVED};
pub(crate) use build::{Agents, build};
use discover::{Discovered, LeftOut};
pub(crate) use health::{Asked, Health, Trouble};
pub(crate) use reload::{Beside, Load, Reloader, read};
pub(crate) use roster::{Member, Roster};
pub(crate) use sight::Seen;

/// The name that the fleet itself is mounted under. No agent can be called that.
pub(crate) const FLEET: &str = "fleet";

/// What is known about the fleet as a whole, whatever it is configured to be.
pub(crate) struct Fleet {
    governor: Arc<Governor>,
    store: Arc<Store>,
    service: OnceLock<Service>,
    findings: Findings,
    /// Places for those who ask members how they are.
    asking: Semaphore,
    /// How busy the members are with what came through the fleet.
    loads: Pool,
    /// Counts the messages that several members could have got.
    turn: AtomicU64,
}

/// The fleet as one configuration has it: what a request sees of it from beginning to end.
#[derive(Clone)]
pub(crate) struct Formation {
    fleet: Arc<Fleet>,
    regime: Arc<Regime>,
}

impl Fleet {
    pub(crate) fn new(governor: Arc<Governor>, store: Arc<Store>) -> Arc<Self> {
        let loads = Pool::try_new(FLEET, peers(&governor.regime().roster), PoolSettings::default());
        Arc::new(Self {
            governor,
            store,
            service: OnceLock::new(),
            findings: Findings::default(),
            asking: Semaphore::new(health::AT_A_TIME),
            loads: loads.expect("no two members have the same name"),
            turn: AtomicU64::new(0),
        })
    }

    /// Says who serves, once that is known.
    pub(crate) fn serves(&self, service: Service) {
        let _ = self.service.set(service);
    }

    /// As a configuration has it.
    pub(crate) fn under(self: &Arc<Self>, regime: Arc<Regime>) -> Formation {
        Formation { fleet: self.clone(), regime }
    }

    /// The URL of a path here.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.service.get().map_or("", Service::url))
    }
}

impl Formation {
    /// The fleet as something that answers calls, at the root.
    pub(crate) fn offer(&self) -> Offer {
        // What is shown is made for each caller; this is for whoever may see nobody.
        let card = card::of_fleet(&self.regime.about, "", &[]);
        Offer::endpoint(FLEET, card, Arc::new(Front::new(self.clone()))).at("")
    }

    pub(crate) fn regime(&self) -> &Arc<Regime> {
        &self.regime
    }
}

impl Deref for Formation {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fleet
    }
}

/// Has the fleet be what the file says, and what is found in other fleets, for as long as the process runs.
pub(crate) fn keep_up(reloader: &Arc<Reloader>, file: Option<PathBuf>) {
    tokio::spawn(discover::watch(reloader.clone()));
    tokio::spawn(reload::watch(reloader.clone(), file));
}

/// The members, as they are chosen from.
fn peers(roster: &Roster) -> impl Iterator<Item = Peer> {
    roster.all().map(|member| Peer::new(member.name.clone()))
}

/// An answer in JSON that is for one caller alone.
pub(crate) fn private_json(value: &impl Serialize) -> Result<Response<Body>, Refused> {
    let text = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer cannot be written");
        Error::new(ErrorCode::Internal)
    })?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}
