//! An agent on one server, and a relay to it on another.

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::{ProtocolBinding, SecurityScheme};
use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{AgentSpec, Client as Caller, Principal, Relay, Server};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::*;

/// Which binding the caller speaks, and which one the agent.
pub(crate) const WAYS: [(Wire, Wire); 4] = [
    (Wire::JsonRpc, Wire::JsonRpc),
    (Wire::JsonRpc, Wire::Rest),
    (Wire::Rest, Wire::JsonRpc),
    (Wire::Rest, Wire::Rest),
];

pub(crate) struct Pair {
    pub(crate) agent: Site,
    pub(crate) relay: Site,
}

pub(crate) fn binding(wire: Wire) -> ProtocolBinding {
    match wire {
        Wire::JsonRpc => ProtocolBinding::JsonRpc,
        Wire::Rest => ProtocolBinding::HttpJson,
    }
}

/// A relay to whatever is at a URL, that loses patience soon.
pub(crate) async fn relay(url: &str, wire: Wire) -> Relay {
    let limit = Duration::from_secs(5);
    let client = Caller::builder()
        .prefer([binding(wire)])
        .request_timeout(limit)
        .stream_idle_timeout(limit)
        .stream_resumes(2)
        .retries(1)
        .connect(url)
        .await
        .expect("the agent has a card");
    Relay::new(client, "relayed").await.expect("the card is there").patience(Duration::from_secs(1))
}

pub(crate) async fn serve_relay(url: &str, wire: Wire) -> Site {
    let relay = relay(url, wire).await;
    serve_with(|server| server.relay_at("", relay)).await
}

pub(crate) async fn pair(spec: AgentSpec, wire: Wire) -> Pair {
    let agent = serve(spec).await;
    let relay = serve_relay(&format!("http://{}", agent.address), wire).await;
    Pair { agent, relay }
}

/// A server that can be stopped, on a store in a file.
pub(crate) struct Stoppable {
    pub(crate) site: Site,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

/// Serves a relay on a store in a file, all callers being the same one.
pub(crate) async fn serve_on_file(path: &std::path::Path, relay: Relay) -> Stoppable {
    let url = format!("sqlite:{}", path.display());
    let store = Arc::new(Store::open(&url, StoreLimits::for_url(&url)).expect("the store opens"));
    let server = Server::builder().store(store.clone()).relay_at("", relay);
    let server = server
        .authenticate(|_| Ok(Principal::anonymous()))
        .security_scheme("bearer", SecurityScheme::bearer())
        .limits(chancery_sdk::ServerLimits { drain: Duration::from_millis(1), ..Default::default() })
        .bind("127.0.0.1:0")
        .await
        .expect("the server binds");
    let address = server.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let server = tokio::spawn(server.run_until(stop.clone().cancelled_owned()));
    Stoppable { site: Site { address, store }, stop, server }
}

impl Stoppable {
    /// Stops the server and waits until the store is let go of.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.server.await.expect("the server ends");
        let store = self.site.store;
        until("letting go of the store", || async { Arc::strong_count(&store) == 1 }).await;
        store.close();
    }
}
