//! A call over JSON-RPC on its way through the site: only the body says what is asked for, and in which version.

use std::sync::Arc;

use bytes::Bytes;
use chancery_protocol::jsonrpc::RequestId;
use chancery_protocol::{CallContext, Caller, Error, Request, Version};
use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{self, Body};
use super::mount::Mount;
use super::site::View;
use crate::binding::jsonrpc;
use crate::dialect::{Dialect, v0_1};

/// What somebody asks for over JSON-RPC.
struct Asked {
    id: RequestId<'static>,
    dialect: Dialect,
    request: Request,
    context: Box<CallContext>,
}

// === impl View ===

impl View {
    pub(super) async fn jsonrpc<B>(
        &self,
        mount: &Mount,
        head: &Parts,
        skill: Option<Arc<str>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let principal = match self.counted(head) {
            Ok(principal) => principal,
            Err(error) => return jsonrpc::fail(Dialect::V1_0, &RequestId::NULL, &error),
        };
        let (limit, timeout) = (self.body_bytes_for(head), self.limits.body_timeout);
        let body = match body::read(head, body, jsonrpc::MEDIA_TYPES, limit, timeout).await {
            Ok(body) => body,
            Err(unread) => {
                let status = unread.status();
                return jsonrpc::fail_with(status, Dialect::V1_0, &RequestId::NULL, &unread.into());
            }
        };
        let mut asked = match self.read_jsonrpc(mount, head, principal, skill, &body) {
            Ok(asked) => asked,
            Err(answer) => return *answer,
        };
        drop(body);
        if !is_settled(mount, asked.dialect, &asked.request) {
            asked = Box::pin(self.settled(mount, asked)).await;
        }
        let (extensions, operation) = (asked.context.extensions.clone(), asked.request.operation());
        // Taken from where it is: what is taken apart first has room in the future twice.
        let reply = self.call(mount, asked.dialect, asked.request, asked.context, None).await;
        let mut response = match reply {
            Err(error) if self.is_answered_in_envelope(&error) => {
                jsonrpc::fail_with(StatusCode::OK, asked.dialect, &asked.id, &error)
            }
            reply => jsonrpc::respond(asked.dialect, asked.id, operation, reply),
        };
        mount.echo_extensions(&mut response, asked.dialect, &extensions);
        response
    }

    /// Whether a refusal is an answer to a call that was understood, rather than one to a request of HTTP.
    fn is_answered_in_envelope(&self, error: &Error) -> bool {
        !self.jsonrpc_http_status && error.denied().is_some_and(|denied| !denied.is_of_http())
    }

    /// What a body asks for, or the answer if it has one already. Not within the future that waits for bodies and
    /// answers: it would keep room for everything that is looked at here.
    fn read_jsonrpc(
        &self,
        mount: &Mount,
        head: &Parts,
        caller: Caller,
        skill: Option<Arc<str>>,
        body: &[u8],
    ) -> Result<Asked, Box<Response<Body>>> {
        let jsonrpc::Decoded { id, dialect, wants_card, call } = jsonrpc::decode(head, body);
        let operation = call.as_ref().ok().map(Request::operation);
        if let Err(error) = self.asks_for(head, &caller, operation) {
            return Err(Box::new(jsonrpc::fail(dialect.unwrap_or(Dialect::V1_0), &id, &error)));
        }
        let dialect = dialect.map(|dialect| served(mount, dialect, &call));
        let context = self.context(mount, head, caller, skill, dialect.map(Dialect::version));
        let dialect = dialect.unwrap_or(Dialect::V1_0);
        // Which version is spoken comes before whether the request is a good one.
        match context.and_then(|context| Ok((context, call?))) {
            Err(error) => Err(Box::new(jsonrpc::fail(dialect, &id, &error))),
            Ok(_) if wants_card => {
                Err(Box::new(jsonrpc::succeed(dialect, &id, |out| mount.shown.now().write_old(out))))
            }
            Ok((context, request)) => Ok(Asked { id, dialect, request, context }),
        }
    }

    /// Where two versions have the same method and both are served, it is the one in which the task was begun.
    async fn settled(&self, mount: &Mount, mut asked: Asked) -> Asked {
        if v0_1::is_of_this(&*mount.served.endpoint(), &asked.request, &asked.context).await {
            asked.context.version = Version::V0_1;
            asked.dialect = Dialect::V0_1;
        }
        asked
    }
}

/// Where two versions have the same method and only the older one is served, it is that one.
fn served(mount: &Mount, dialect: Dialect, call: &Result<Request, Error>) -> Dialect {
    let is_older = call.as_ref().is_ok_and(|request| dialect.may_be_v0_1(request))
        && mount.versions.serves(Version::V0_1)
        && !mount.versions.serves(Version::V0_3);
    if is_older { Dialect::V0_1 } else { dialect }
}

/// Whether it is plain which version is spoken.
fn is_settled(mount: &Mount, dialect: Dialect, request: &Request) -> bool {
    !dialect.may_be_v0_1(request) || !mount.versions.serves(Version::V0_1)
}
