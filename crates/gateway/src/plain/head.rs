//! What the headers of the profile say.

use chancery_protocol::{Caller, Proof};
use http::HeaderMap;
use http::request::Parts;

use super::failure::Failure;

/// Tells requests apart: what is sent again under the same name is answered from what came of the first.
pub(super) const REQUEST_ID: &str = "x-request-id";
/// Which agent somebody says to be.
const AGENT_ID: &str = "x-agent-id";

/// As long as an idempotency key may be, and a name for a message.
const LONGEST_ID: usize = 128;

/// The id of a request, as it is echoed.
pub(super) fn request_id(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(REQUEST_ID).iter();
    let id = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let is_plain = !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then_some(id)
}

/// The id of a request that must have one.
pub(super) fn required_id(head: &Parts) -> Result<&str, Failure> {
    request_id(&head.headers).ok_or_else(|| match head.headers.contains_key(REQUEST_ID) {
        true => {
            let detail =
                format!("X-Request-ID must be there once, with 1 to {LONGEST_ID} visible characters");
            Failure::invalid("BAD_REQUEST_ID", detail)
        }
        false => {
            Failure::invalid("MISSING_REQUEST_ID", "X-Request-ID must be there; make one up for each request")
        }
    })
}

/// Nobody is who they say because they say so: whoever has proven to be somebody must not name another.
pub(super) fn check_agent(head: &Parts, caller: &Caller) -> Result<(), Failure> {
    let Some(claimed) = head.headers.get(AGENT_ID) else { return Ok(()) };
    let claimed = claimed.to_str().unwrap_or_default();
    let identity = &caller.identity;
    let proven = [identity.agent.as_deref(), identity.agent_id.as_deref(), Some(&*caller.principal.id)];
    if proven.contains(&Some(claimed)) {
        return Ok(());
    }
    if identity.proof == Proof::Anonymous {
        tracing::debug!(claimed, "somebody says to be an agent, and has proven nothing");
        return Ok(());
    }
    let detail = "X-Agent-ID names somebody else than the credentials do; leave it out, or send your own";
    Err(Failure::invalid("AGENT_ID_MISMATCH", detail))
}
