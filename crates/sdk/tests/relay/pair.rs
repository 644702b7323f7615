//! An agent on one server, and a relay to it on another.

use std::sync::Arc;
use std::time::Duration;

use chancery_sdk::protocol::{ProtocolBinding, SecurityScheme};
use chancery_sdk::store::{Store, StoreLimits};
use chancery_sdk::{AgentSpec, Client as Caller, PROVENANCE_EXTENSION, Principal, Relay, Server};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::*;

/// What the agent is called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    JsonRpc,
    Rest,
    Grpc,
}

/// Which binding the caller speaks, and which one the agent.
pub(crate) const WAYS: [(Wire, There); 6] = [
    (Wire::JsonRpc, There::JsonRpc),
    (Wire::JsonRpc, There::Rest),
    (Wire::Rest, There::JsonRpc),
    (Wire::Rest, There::Rest),
    (Wire::JsonRpc, There::Grpc),
    (Wire::Rest, There::Grpc),
];

/// Those of them by which JSON is spoken throughout.
pub(crate) const WAYS_IN_JSON: &[(Wire, There)] = WAYS.split_at(4).0;

pub(crate) struct Pair {
    pub(crate) agent: Site,
    pub(crate) relay: Site,
}

impl From<Wire> for There {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::JsonRpc => Self::JsonRpc,
            Wire::Rest => Self::Rest,
        }
    }
}

pub(crate) fn binding(there: impl Into<There>) -> ProtocolBinding {
    match there.into() {
        There::JsonRpc => ProtocolBinding::JsonRpc,
        There::Rest => ProtocolBinding::HttpJson,
        There::Grpc => ProtocolBinding::Grpc,
    }
}

/// A relay to whatever is at a URL, that loses patience soon.
pub(crate) async fn relay(url: &str, there: impl Into<There>) -> Relay {
    let limit = Duration::from_secs(5);
    let client = Caller::builder()
        .prefer([binding(there)])
        .request_timeout(limit)
        .stream_idle_timeout(limit)
        .stream_resumes(2)
        .retries(1)
        .connect(url)
        .await
        .expect("the agent has a card");
    Relay::new(client, "relayed").await.expect("the card is there").patience(Duration::from_secs(1))
}

pub(crate) async fn serve_relay(url: &str, there: impl Into<There>) -> Site {
    let relay = relay(url, there).await;
    serve_with(|server| server.relay_at("", relay)).await
}

pub(crate) async fn pair(spec: AgentSpec, there: impl Into<There>) -> Pair {
    let agent = serve(spec).await;
    let relay = serve_relay(&format!("http://{}", agent.address), there).await;
    Pair { agent, relay }
}

/// The id of the newest task at an agent: its own, which callers of the relay never see.
pub(crate) async fn newest(agent: &Site) -> String {
    let listed = agent.rest().call("ListTasks", serde_json::json!({})).await.result();
    id(&listed["tasks"][0])
}

/// What is said, without the ids of task and context, times and where it comes from, which are each server's own.
pub(crate) fn bare(said: &serde_json::Value) -> serde_json::Value {
    match said {
        serde_json::Value::Object(fields) => {
            let is_own = |name: &str| {
                matches!(name, "id" | "taskId" | "contextId" | "timestamp" | PROVENANCE_EXTENSION)
            };
            let kept = fields.iter().filter(|(name, _)| !is_own(name));
            let kept = kept.map(|(name, value)| (name.clone(), bare(value)));
            kept.filter(|(name, value)| name != "metadata" || *value != serde_json::json!({})).collect()
        }
        serde_json::Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
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
    Stoppable { site: Site { address, store, service: None }, stop, server }
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
