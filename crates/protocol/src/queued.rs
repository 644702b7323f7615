//! A message that is not let through yet: its task is there at once, and is worked on when there is room.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::{BoxFuture, Call, CallContext};
use crate::caller::{Identity, Principal};
use crate::error::Error;
use crate::json::JsonObject;
use crate::message::Message;
use crate::request::{SendMessageConfiguration, SendMessageRequest};

/// A message that waits to be let through. Dropped, it waits no longer.
pub struct Queued {
    /// The message, and what is known of its call.
    pub call: Call<Box<SendMessageRequest>>,
    /// Ready when that is decided: what the call goes on with, or why it does not.
    pub admitted: Admitted,
}

/// Whether a call is let through: what it goes on with, or why it is not.
pub type Admitted = BoxFuture<'static, Result<Box<CallContext>, Error>>;

/// What has to be kept of a call that waits, so that another process can have it let through. The message itself, whose it
/// is and who is to answer it stand in the task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Waiting {
    identity: Identity,
    lineage: Option<String>,
    skill: Option<Arc<str>>,
    ceiling_micro_usd: Option<u64>,
    extensions: Vec<String>,
    traceparent: Option<String>,
    configuration: Option<SendMessageConfiguration>,
    metadata: Option<JsonObject>,
}

impl Waiting {
    /// What is to be kept of a call.
    pub fn of(call: &Call<Box<SendMessageRequest>>) -> Self {
        let Call { request, context } = call;
        Self {
            identity: Identity::clone(&context.identity),
            lineage: context.lineage.clone(),
            skill: context.skill.clone(),
            ceiling_micro_usd: context.ceiling_micro_usd,
            extensions: context.extensions.clone(),
            traceparent: context.traceparent.clone(),
            configuration: request.configuration.clone(),
            metadata: request.metadata.clone(),
        }
    }

    /// The call, made again.
    pub fn call(
        self,
        principal: Principal,
        agent: Arc<str>,
        message: Message,
    ) -> Call<Box<SendMessageRequest>> {
        let mut context = CallContext::new(principal, agent);
        context.identity = Arc::new(self.identity);
        context.lineage = self.lineage;
        context.skill = self.skill;
        context.ceiling_micro_usd = self.ceiling_micro_usd;
        context.extensions = self.extensions;
        context.traceparent = self.traceparent;
        let (configuration, metadata) = (self.configuration, self.metadata);
        let request = SendMessageRequest { tenant: String::new(), message, configuration, metadata };
        Call { request: Box::new(request), context }
    }
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("call", &self.call).finish_non_exhaustive()
    }
}
