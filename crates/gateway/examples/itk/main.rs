//! An agent for the A2A integration test kit (a2aproject/a2a-itk), which sends nested instructions from agent to agent.
//!
//! The kit starts it with `--httpPort N --grpcPort M` and looks for its card at port N. All bindings are served there, as
//! the card says, so port M stays free.

mod agent;
mod instruction;

use anyhow::Context as _;
use chancery_sdk::Server;
use chancery_sdk::egress::Egress;
use clap::Parser;

/// An agent for the A2A integration test kit
#[derive(Parser)]
struct Arguments {
    /// The port for all bindings
    #[arg(long = "httpPort")]
    http_port: u16,

    /// Not needed: gRPC is served on the other port too
    #[arg(long = "grpcPort")]
    grpc_port: u16,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { http_port, grpc_port: _ } = Arguments::parse();
    let egress = Egress::default().allow("127.0.0.0/8".parse()?);
    let server = Server::builder().agent(agent::spec(egress.clone())).jsonrpc_path("/jsonrpc").egress(egress);
    let server = server.bind(("127.0.0.1", http_port)).await;
    server.with_context(|| format!("cannot serve on port {http_port}"))?.run().await;
    Ok(())
}
