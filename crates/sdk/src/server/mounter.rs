//! Makes mounts of what is offered, when a site is built and whenever something is put there later.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use chancery_protocol::{AgentCard, SecurityScheme};
use chancery_store::Store;

use super::card::{CardSigner, GrpcInterface, Place};
use super::guard::Guard;
use super::mount::{Mount, Placed, Served};
use super::offer::{Offer, Offered};
use super::shown::Shown;
use super::versions::Versions;
use crate::egress::Egress;
use crate::push::{Deliverer, PushLimits};
use crate::relay::Relay;
use crate::runtime::{Notifier, Runtime};
use crate::spec::AgentSpec;

/// Where JSON-RPC is posted to below the path of an agent, besides where its card says.
pub(crate) const JSONRPC_PATHS: [&str; 2] = ["/rpc", "/jsonrpc"];

/// What every mount of a site has in common.
pub(crate) struct Mounter {
    pub(super) url: String,
    pub(super) store: Arc<Store>,
    /// Whether anything stands in front of the agents, and answers who asks for a card of their own.
    pub(super) is_guarded: bool,
    pub(super) guard_extends: bool,
    pub(crate) versions: Versions,
    pub(super) jsonrpc_path: String,
    pub(super) security: BTreeMap<String, SecurityScheme>,
    /// Whether callers may keep to themselves who they are.
    pub(super) is_open: bool,
    /// Who signs the cards.
    pub(super) card_signer: Option<Arc<dyn CardSigner>>,
    /// The `host:port` that the cards name for gRPC.
    pub(super) grpc: Option<String>,
    /// The same for agents that have a port of their own, by name.
    pub(super) own_grpc: HashMap<Arc<str>, String>,
    pub(super) tenant_is_realm: bool,
    /// Whether callers may see extended cards at all.
    pub(super) extends: bool,
    pub(super) egress: Egress,
    pub(super) push_limits: PushLimits,
    /// Posts notifications, from when the first agent has them; stops with the site.
    pub(super) deliverer: OnceLock<Deliverer>,
}

impl Mounter {
    /// Mounts something. An agent that takes the place of an `earlier` one goes on with its tasks: those who work on them
    /// or watch them are known to it. One that is `alone` can be found without its name.
    pub(super) fn mount(
        &self,
        offer: &Offer,
        alone: bool,
        earlier: Option<&Served>,
        guard: Option<&Arc<dyn Guard>>,
    ) -> Arc<Mount> {
        let Offer { path, what, internal, omitted } = offer;
        let tenant = if path.is_empty() || alone { "" } else { what.name() };
        let versions = self.versions.without(omitted);
        let mut place = Place { versions: versions.clone(), ..self.place(path, tenant) };
        place.own_grpc = self.own_grpc.get(what.name()).cloned();
        let card = Arc::new(what.card(&place));
        let shown = Shown::new(AgentCard::clone(&card), &versions, self.card_signer.clone());
        let (store, notifier) = (self.store.clone(), self.notifier(what));
        let served = match what {
            Offered::Agent(spec) => {
                let earlier = earlier.and_then(Served::runtime);
                Served::Agent(Runtime::after(earlier, AgentSpec::clone(spec), card, store, notifier))
            }
            Offered::Relay(relay) => {
                shown.follow(Relay::clone(relay), place);
                Served::Agent(relay.start_after(earlier.and_then(Served::runtime), store, notifier))
            }
            Offered::Endpoint { endpoint, .. } => Served::Endpoint(endpoint.clone()),
        };
        let bare = self.jsonrpc_path.trim_end_matches('/');
        let placed = Placed {
            path: path.clone(),
            name: what.name().clone(),
            internal: *internal,
            tenant_is_realm: self.tenant_is_realm,
            versions,
            shown,
            served,
            jsonrpc_paths: [bare].into_iter().chain(JSONRPC_PATHS).map(str::to_owned).collect(),
        };
        if let Some(guard) = guard {
            placed.readmitted_by(guard);
        }
        Arc::new(Mount::new(placed, guard))
    }

    /// A path here, as cards name it.
    pub(super) fn place(&self, path: &str, tenant: &str) -> Place {
        let grpc = |place: &String| GrpcInterface { place: place.clone(), tenant: tenant.to_owned() };
        Place {
            url: format!("{}{path}", self.url),
            jsonrpc_path: self.jsonrpc_path.clone(),
            versions: self.versions.clone(),
            grpc: self.grpc.as_ref().map(grpc),
            own_grpc: None,
            security: self.security.clone(),
            is_open: self.is_open,
            reads_descent: self.is_guarded,
            extends: self.guard_extends,
        }
    }

    fn notifier(&self, what: &Offered) -> Option<Arc<dyn Notifier>> {
        what.pushes().then(|| {
            let spawn = || Deliverer::spawn(self.store.clone(), self.egress.clone(), self.push_limits);
            Arc::new(self.deliverer.get_or_init(spawn).clone()) as Arc<dyn Notifier>
        })
    }
}
