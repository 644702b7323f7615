//! One address for an agent that answers gRPC on a port of its own: the gateway goes nowhere on its own machine but where it was
//! told to, and it is told one URL.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::process::Foreign;

/// Leads each connection to where it is understood, by its first bytes. Gone with all connections when this is dropped.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
    serving: JoinSet<()>,
}

impl Front {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { address, listener: Some(listener), serving: JoinSet::new() }
    }

    pub(crate) fn serve(mut self, agent: &Foreign) -> Self {
        let http = agent.url.trim_start_matches("http://").to_owned();
        let grpc = agent.grpc.clone().unwrap_or_else(|| http.clone());
        let listener = self.listener.take().expect("it does not serve yet");
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((here, _)) = listener.accept().await {
                connections.spawn(lead(here, http.clone(), grpc.clone()));
            }
        });
        self
    }

    /// Nobody listens any more, and all connections are gone.
    pub(crate) async fn close(&mut self) {
        self.serving.shutdown().await;
    }
}

async fn lead(mut here: TcpStream, http: String, grpc: String) {
    let mut first = [0; 3];
    let is_http2 = matches!(here.peek(&mut first).await, Ok(3)) && first == *b"PRI";
    if let Ok(mut there) = TcpStream::connect(if is_http2 { grpc } else { http }).await {
        let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
    }
}
