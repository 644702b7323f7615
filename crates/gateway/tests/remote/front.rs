//! One address for an agent that answers gRPC on a port of its own: the gateway goes nowhere on its own machine but where it was
//! told to, and it is told one URL.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::process::Foreign;

/// Leads each connection to where it is understood, by its first bytes. Gone with all connections when this is dropped.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
    serving: JoinSet<()>,
    ports: Arc<Mutex<AgentPorts>>,
}

/// Where the agent takes HTTP/1.1 and where gRPC.
#[derive(Clone, Default)]
struct AgentPorts {
    http: String,
    grpc: String,
}

impl Front {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { address, listener: Some(listener), serving: JoinSet::new(), ports: Arc::default() }
    }

    pub(crate) fn serve(mut self, agent: &Foreign) -> Self {
        self.lead_to(agent);
        let listener = self.listener.take().expect("it does not serve yet");
        let ports = self.ports.clone();
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((here, _)) = listener.accept().await {
                let to = ports.lock().clone();
                connections.spawn(lead(here, to));
            }
        });
        self
    }

    /// Leads new connections to this process from now on.
    pub(crate) fn lead_to(&self, agent: &Foreign) {
        let http = agent.url.trim_start_matches("http://").to_owned();
        let grpc = agent.grpc.clone().unwrap_or_else(|| http.clone());
        *self.ports.lock() = AgentPorts { http, grpc };
    }

    /// Nobody listens any more, and all connections are gone.
    pub(crate) async fn close(&mut self) {
        self.serving.shutdown().await;
    }
}

async fn lead(mut here: TcpStream, to: AgentPorts) {
    let mut first = [0; 3];
    let is_http2 = matches!(here.peek(&mut first).await, Ok(3)) && first == *b"PRI";
    if let Ok(mut there) = TcpStream::connect(if is_http2 { to.grpc } else { to.http }).await {
        let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
    }
}
