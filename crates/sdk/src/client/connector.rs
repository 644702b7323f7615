//! How connections to a peer are made: where the user said, freely; where a card says, within the rules.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use tower_service::Service;

use super::origin::Origin;
use super::settings::Settings;
use crate::egress::{self, ConnectError, Connecting, Stream};

/// Makes the connections of one client. hyper clones it with every request.
#[derive(Clone, Debug)]
pub(crate) struct Connector(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    named: Origin,
    free: egress::Connector,
    guarded: egress::Connector,
}

impl Connector {
    pub(crate) fn new(settings: &Settings, named: Origin) -> Self {
        let egress = settings.egress.clone().connect_timeout(settings.connect_timeout);
        let named = settings.found_at.clone().unwrap_or(named);
        Self(Arc::new(Rules { named, free: egress.freed().connector(), guarded: egress.connector() }))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let rules = &self.0;
        let is_named = Origin::of(&uri).is_ok_and(|origin| rules.named.is_same(&origin));
        let connector = if is_named { &rules.free } else { &rules.guarded };
        connector.clone().call(uri)
    }
}
