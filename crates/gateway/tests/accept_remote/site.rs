//! A server with all gates in front of the agents, which are in the same process, or in another server behind a relay.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chancery_control::ledger::{Cap, Caps, Ledger, Limits, Price, PriceSettings, Prices};
use chancery_control::lineage::{Keyring, Lineage, Open, Rules, Tokens};
use chancery_control::policy::{Limits as PolicyLimits, Policy, Rule};
use chancery_control::{Executor, Governed, Hands, Millis, Pipeline, Plane, PlaneSettings, Stop};
use chancery_protocol::{
    Amount, BoxFuture, Caller, Denied, DynEndpoint, Edge, HopId, Principal, Quota, TaskId, Timestamp,
};
use chancery_sdk::{Client, Guard, Relay, Restored, Server, ServerBuilder, Service, Ward};
use chancery_store::{Scope, Store};

use crate::actor::specs;

/// What the agent that has little time has.
const LITTLE: Duration = Duration::from_millis(300);

/// Serves until the test ends.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
}

#[derive(Debug)]
struct World {
    store: Arc<Store>,
    service: Arc<OnceLock<Service>>,
}

struct Gates {
    plane: Arc<Plane>,
    is_local: bool,
}

impl Site {
    /// The agents are here.
    pub(crate) async fn local() -> Self {
        let server = specs().into_iter().fold(Server::builder(), ServerBuilder::fleet_agent);
        Self::govern(server, true).await
    }

    /// The agents are on another server, which knows nothing of gates.
    pub(crate) async fn remote() -> Self {
        let upstream = specs().into_iter().fold(Server::builder(), ServerBuilder::fleet_agent);
        let upstream = upstream.bind("127.0.0.1:0").await.expect("a free port");
        let url = upstream.url().to_owned();
        tokio::spawn(upstream.run());
        let mut server = Server::builder();
        for spec in specs() {
            let client = Client::connect(format!("{url}/agents/{}", spec.name())).await.expect("it is there");
            let relay = Relay::new(client, spec.name()).await.expect("it has a card");
            // What was said before a deadline is known only of a stream.
            server = server.fleet_relay(relay.always_stream());
        }
        Self::govern(server, false).await
    }

    async fn govern(server: ServerBuilder, is_local: bool) -> Self {
        let (store, service) = (Arc::new(Store::memory()), Arc::new(OnceLock::new()));
        let world = Arc::new(World { store: store.clone(), service: service.clone() });
        let plane = Arc::new(plane(world));
        let gates = Gates { plane: plane.clone(), is_local };
        let server = server.store(store).guard(Arc::new(gates));
        let server = server.bind("127.0.0.1:0").await.expect("a free port");
        let _ = service.set(server.service().clone());
        let address = server.local_addr().expect("it listens");
        tokio::spawn(server.run());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                plane.tick();
            }
        });
        Self { address }
    }
}

fn plane(world: Arc<World>) -> Plane {
    let usd = |most| Cap { micro_usd: Some(most), ..Cap::default() };
    let global = Caps { per_day: usd(1_000_000), ..Caps::default() };
    let prices =
        specs().into_iter().map(|spec| (Arc::from(spec.name()), Price { per_call: 100, per_1k_tokens: 0 }));
    let keys = Keyring::try_new("k", &[7; 32]).expect("it is long enough");
    let hasty = Rule {
        agents: Some([Arc::from("hasty")].into()),
        limits: PolicyLimits { max_duration: Some(LITTLE), ..PolicyLimits::default() },
        ..Rule::named("hasty")
    };
    Plane::new(
        None,
        Ledger::new(Limits { global, ..Limits::default() }),
        Prices::new(PriceSettings { agents: prices.collect(), ..PriceSettings::default() }),
        Lineage {
            rules: Rules::default(),
            tokens: Tokens::new("here", keys),
            open: Arc::new(Open::default()),
        },
        Policy::new([hasty]),
        PlaneSettings::default(),
        world,
    )
}

impl Guard for Gates {
    fn protect(&self, ward: &Ward) -> Arc<dyn DynEndpoint> {
        let (name, skills, endpoint) =
            (ward.name.clone(), ["act"].into_iter().collect(), ward.endpoint.clone());
        let governed = Governed { name, skills, pool: None, reach: None, is_local: self.is_local };
        let executor = match self.is_local {
            true => Executor::Local(endpoint),
            false => Executor::Remote(endpoint),
        };
        Arc::new(Pipeline::new(self.plane.clone(), Arc::new(governed), executor))
    }

    fn restored(&self, _: &str) -> Vec<Restored> {
        Vec::new()
    }

    fn count(&self, _: Option<IpAddr>, _: Option<&Caller>) -> Result<Option<Quota>, Denied> {
        Ok(None)
    }
}

impl Hands for World {
    fn now(&self) -> Millis {
        Millis(u64::try_from(Timestamp::now().as_millis()).unwrap_or_default())
    }

    fn stop(&self, stop: Stop) {
        let service = self.service.clone();
        tokio::spawn(async move {
            let (Some(service), Stop { agent, principal, task, why }) = (service.get(), stop) else { return };
            let _ = match why {
                Some(why) => service.stop_task(&agent, &principal, &task, &why).await,
                None => service.cancel_task(&agent, &principal, &task).await,
            };
        });
    }

    fn record(&self, _: Box<Edge>) {}

    fn wake(&self) {}

    fn task_of_key(
        &self,
        principal: Principal,
        agent: Arc<str>,
        key: String,
    ) -> BoxFuture<'static, Option<TaskId>> {
        let store = self.store.clone();
        let scope = Scope { realm: principal.realm, owner: principal.id, agent };
        Box::pin(async move { store.task_of_key(&scope, &key).await.ok().flatten() })
    }

    fn charged_under(&self, _: HopId) -> BoxFuture<'static, Option<Amount>> {
        Box::pin(std::future::ready(Some(Amount::default())))
    }
}
