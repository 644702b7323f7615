//! `grpc.health.v1`: whether the site is served, for balancers and orchestrators. Nobody has to say who is asking.

use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{BoxFuture, Error, ErrorCode};
use http::{HeaderMap, Response};
use http_body::Frame;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{Frames, head, unreadable, whole};
use crate::grpc::{frame, status};
use crate::protobuf::{rpc, to_json, wire};
use crate::server::{Body, Share};

pub(crate) const SERVICE: &str = "grpc.health.v1.Health";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Check,
    Watch,
}

const SERVING: u64 = 1;
const NOT_SERVING: u64 = 2;
const SERVICE_UNKNOWN: u64 = 3;

pub(super) const METHODS: [(&str, Method); 2] = [("Check", Method::Check), ("Watch", Method::Watch)];

/// The service that is asked about; empty for all of them together.
pub(crate) fn asked(body: &[u8]) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Asked {
        #[serde(default)]
        service: String,
    }
    let json = to_json(&rpc::HEALTH_CHECK_REQUEST, super::message(body)?).map_err(|why| unreadable(&why))?;
    let Asked { service } = serde_json::from_slice(&json).map_err(Error::internal)?;
    Ok(service)
}

/// How a service is. There is no such thing as a service that is there and does not serve, but for a site that stops.
pub(crate) fn check(is_known: bool, stopping: &CancellationToken) -> Result<Response<Body>, Error> {
    if !is_known {
        return Err(Error::with_message(ErrorCode::TaskNotFound, "This service is not served here")
            .because("SERVICE_UNKNOWN"));
    }
    let state = if stopping.is_cancelled() { NOT_SERVING } else { SERVING };
    Ok(whole(message(state)))
}

/// How a service is now, and whenever that changes.
pub(crate) fn watch(is_known: bool, stopping: &CancellationToken, permit: Option<Share>) -> Response<Body> {
    let first = message(if is_known { SERVING } else { SERVICE_UNKNOWN }).into();
    let stop = Box::pin(stopping.clone().cancelled_owned());
    head(Body::frames(Watched { first: Some(first), stop, trailers: None, over: false, _permit: permit }))
}

fn message(state: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let _: Result<(), Error> = frame::put(&mut out, |out| {
        wire::put_number(out, 1, state);
        Ok(())
    });
    out
}

struct Watched {
    first: Option<Bytes>,
    stop: BoxFuture<'static, ()>,
    trailers: Option<HeaderMap>,
    over: bool,
    _permit: Option<Share>,
}

impl Frames for Watched {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Frame::data(first)));
        }
        if self.over {
            return Poll::Ready(self.trailers.take().map(Frame::trailers));
        }
        if self.stop.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.over = true;
        self.trailers = Some(status::ok());
        Poll::Ready(Some(Frame::data(message(NOT_SERVING).into())))
    }
}
