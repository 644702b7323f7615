//! Whoever has the token of the gateway, as far as the audit log is concerned: where from, and what the request says about
//! itself.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::extract::FromRequestParts;
use chancery_store::AuditRecord;
use http::request::Parts;

use crate::audit::Origin;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Somebody who has shown the token.
pub(super) struct Operator(Origin);

impl Operator {
    /// Something that they have done.
    pub(super) fn act(&self, action: &str) -> AuditRecord {
        let mut record = AuditRecord::new("act", action);
        self.0.put_to(&mut record);
        record.principal = Some("operator".to_owned());
        record
    }
}

/// Where a request comes from.
pub(super) fn address(head: &Parts) -> Option<IpAddr> {
    head.extensions.get::<Peer>().map(|peer| peer.0.ip())
}

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Origin { source: address(head), ..Origin::of_head(head, None) }))
    }
}
