//! What people write agents with, and our gateway: as the agent behind it, and as its caller.

use crate::caller;
use crate::cell::{Cell, Findings, Side, all_failed};
use crate::ours::Server;
use crate::peer::Peer;
use crate::scenario::Scenario;
use crate::wire::JSONRPC_1_0;

/// Everything that a framework does on one side. The gateway is told about the agent that the framework calls what it must be.
pub(crate) async fn meet(peer: &'static Peer, side: Side, called: &str) -> Vec<Findings> {
    let Some(player) = peer.player(side) else { return Vec::new() };
    let cell = Cell { peer, side, wire: peer.wires[0], upstream: None };
    let outcomes = match side {
        Side::Client => {
            let config = format!("[[agent]]\nname = \"conformance\"\nkind = \"builtin\"\n{called}\n");
            let gateway = Server::serve(&config, None);
            player.program.run(&format!("{}/agents/conformance", gateway.url()), cell.wire).await
        }
        Side::Server => match player.program.serve().await {
            Ok(theirs) => {
                let config = format!("[[agent]]\nname = \"it\"\nkind = \"a2a\"\nurl = {:?}\n", theirs.url);
                let gateway = Server::serve(&config, None);
                let url = format!("{}/agents/it", gateway.url());
                // One that works on one task at a time, and goes on with what was canceled, has no time for anything after that.
                let is_last = |scenario| scenario == Scenario::Cancel;
                let first =
                    caller::run(&url, JSONRPC_1_0, |scenario| cell.can(scenario) && !is_last(scenario)).await;
                let last =
                    caller::run(&url, JSONRPC_1_0, |scenario| cell.can(scenario) && is_last(scenario)).await;
                let both = Scenario::ALL.into_iter().zip(first.into_iter().zip(last));
                let mut outcomes = all_failed("not asked for");
                for (outcome, (scenario, (first, last))) in outcomes.iter_mut().zip(both) {
                    *outcome = if is_last(scenario) { last } else { first };
                }
                outcomes
            }
            Err(why) => all_failed(&why),
        },
    };
    vec![Findings::new(cell, outcomes)]
}
