//! Our relay between two parties that are not ours: every wire on the one side with every wire on the other.

use chancery_sdk::egress::Egress;
use chancery_sdk::{Relay, Server};
use tokio::task::JoinHandle;

use crate::caller;
use crate::cell::{Cell, Findings, Side, Upstream, all_failed};
use crate::peer::Peer;
use crate::process::Foreign;
use crate::wire::{SPOKEN, Wire};

/// Who calls, one for each wire, and who is called. Of v0.1 there is no server to be had.
const CLIENTS: [&str; 3] = ["python-1.0", "python-0.3", "rvagent"];
const SERVERS: [&str; 2] = ["javascript-1.0", "python-0.3"];

/// A relay in front of somebody's server. It ends when this is dropped.
struct Relaying {
    url: String,
    serving: JoinHandle<()>,
    _upstream: Foreign,
}

/// The servers that are called through a relay, on each wire that they and we speak.
pub(crate) fn upstreams(peers: &[&'static Peer]) -> impl Iterator<Item = Upstream> {
    let called = peers.iter().filter(|peer| SERVERS.contains(&peer.key));
    called.flat_map(|peer| spoken(peer).map(|wire| Upstream { peer, wire }))
}

/// What comes of every client that meets this server through a relay.
pub(crate) async fn meet(upstream: Upstream, clients: &[&'static Peer]) -> Vec<Findings> {
    let program = upstream.peer.player(Side::Server).unwrap().program;
    let relaying = match program.serve().await {
        Ok(theirs) => Relaying::start(theirs, upstream.wire).await,
        Err(why) => Err(why),
    };
    let callers = clients.iter().filter(|client| CLIENTS.contains(&client.key));
    let mut met = Vec::new();
    for (peer, wire) in callers.flat_map(|peer| spoken(peer).map(move |wire| (*peer, wire))) {
        let cell = Cell { peer, side: Side::Client, wire, upstream: Some(upstream) };
        let outcomes = match &relaying {
            Ok(relaying) => cell.player().program.run(&relaying.url, wire).await,
            Err(why) => all_failed(why),
        };
        met.push(Findings::new(cell, outcomes));
    }
    met
}

fn spoken(peer: &'static Peer) -> impl Iterator<Item = Wire> {
    peer.wires.iter().copied().filter(|wire| SPOKEN.contains(wire))
}

// === impl Relaying ===

impl Relaying {
    async fn start(upstream: Foreign, wire: Wire) -> Result<Self, String> {
        let client = caller::connect(&upstream.url, wire).await?;
        let relay = Relay::new(client, "interop").await.map_err(|error| error.to_string())?;
        let egress = Egress::default().allow("127.0.0.0/8".parse().unwrap());
        let server = Server::builder().relay_at("", relay).egress(egress);
        let server = server.bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let url = server.url().to_owned();
        Ok(Self { url, serving: tokio::spawn(server.run()), _upstream: upstream })
    }
}

impl Drop for Relaying {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
