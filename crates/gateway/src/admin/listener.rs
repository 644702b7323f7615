//! The connections to the desk: few, and none of them for long.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::operator::Peer;

/// So many at a time.
const CONNECTIONS: usize = 64;
/// How long a head may take to come.
const HEAD: Duration = Duration::from_secs(5);
/// How long to wait before trying again where no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection for `chancery admin`");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let connection = http.serve_connection(
            TokioIo::new(stream),
            TowerToHyperService::new(router.clone().layer(Extension(Peer(peer)))),
        );
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection for `chancery admin` broke off");
            }
            drop(place);
        });
    }
}
