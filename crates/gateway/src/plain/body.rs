//! The bodies of the profile. The schemas that are published are made from these types, and what is sent is held to them.

use chancery_protocol::{ContextId, Json, Part, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Usd;

/// What somebody wants of an agent, before it is asked. Everything may be left out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NegotiateRequest {
    /// The skills that are wanted, by id, the one that matters most first.
    #[schemars(length(max = 64))]
    pub(super) skills: Vec<String>,
    /// The media types that are going to be sent.
    #[schemars(length(max = 64))]
    pub(super) input_modes: Vec<String>,
    /// The media types that can be read.
    #[schemars(length(max = 64))]
    pub(super) output_modes: Vec<String>,
    /// The extensions that are wanted, by URI.
    #[schemars(length(max = 64))]
    pub(super) extensions: Vec<String>,
    /// Whether the answer is wanted as a stream.
    pub(super) streaming: bool,
    /// What one call may cost at most.
    pub(super) budget_usd: Option<Usd>,
    /// How large one message is going to be, in tokens.
    pub(super) input_tokens: Option<u64>,
    /// How long one call may take.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(super) timeout_ms: Option<u64>,
}

/// What comes of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NegotiateResponse {
    /// Whether the call would be let through as it is wanted, or with less, or not at all.
    pub(super) outcome: Outcome,
    /// The agent that would be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    /// What `/invoke` may quote, unless it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agreement_id: Option<String>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    /// Why it is less than what was wanted.
    pub(super) reasons: Vec<Reason>,
    /// What can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terms: Option<Terms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Agreed,
    Degraded,
    Refused,
}

/// Why something cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Reason {
    /// For programs.
    pub(super) reason: String,
    /// For people.
    pub(super) detail: String,
    /// When to ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
}

/// What can be had.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Terms {
    /// Those of the wanted skills that may be used; if none was named, all that may be.
    pub(super) skills: Vec<String>,
    pub(super) input_modes: Vec<String>,
    pub(super) output_modes: Vec<String>,
    pub(super) extensions: Vec<String>,
    pub(super) streaming: bool,
    /// What one call may cost at most, if that is limited by what was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget_usd: Option<Usd>,
    /// What one call is expected to cost, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected_cost_usd: Option<Usd>,
    /// What one call costs in any case, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) minimum_cost_usd: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_input_tokens: Option<u64>,
    pub(super) max_payload_bytes: u64,
    /// How long one call may take, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_ms: Option<u64>,
}

/// A call, in the envelope of JSON-RPC 2.0.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the envelope is checked against the schema, and its id is taken from the body")]
pub(super) struct InvokeRequest {
    jsonrpc: Two,
    #[schemars(with = "RequestId")]
    id: Value,
    method: Invoke,
    pub(super) params: InvokeParams,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
enum Two {
    #[serde(rename = "2.0")]
    Two,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Invoke {
    #[serde(rename = "invoke")]
    Invoke,
}

/// What tells answers apart.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for its schema")]
enum RequestId {
    Text(#[schemars(length(max = 256))] String),
    Number(i64),
}

/// What is said to the agent: `text`, or `parts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InvokeParams {
    /// A text.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(super) text: Option<String>,
    /// Anything else, piece by piece.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Piece>>", length(min = 1, max = 64))]
    pub(super) parts: Option<Vec<Part>>,
    /// The skill that it is for, by id.
    #[serde(default)]
    pub(super) skill: Option<String>,
    /// The conversation that it belongs to.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) context_id: Option<ContextId>,
    /// The task that it continues, if one waits for input.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) task_id: Option<TaskId>,
    /// What `/negotiate` has agreed to.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub(super) agreement_id: Option<String>,
    /// How long it may take.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(super) timeout_ms: Option<u64>,
}

/// One piece of content: exactly one of `text`, `data`, `raw` and `url`.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "it stands for its schema; the protocol reads parts")]
struct Piece {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// Bytes, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<serde_json::Map<String, Value>>,
}

/// What came of a call, in the envelope of JSON-RPC 2.0.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer<T> {
    jsonrpc: Two,
    #[schemars(with = "RequestId")]
    id: Value,
    result: T,
}

impl<T> Answer<T> {
    pub(super) fn new(id: Value, result: T) -> Self {
        Self { jsonrpc: Two::Two, id, result }
    }
}

/// What came of a call.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InvokeResult {
    /// The task, if there is one. It can be looked at as A2A has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(super) task_id: Option<TaskId>,
    /// The conversation, for what is said next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(super) context_id: Option<ContextId>,
    /// How it stands, as A2A has it: `TASK_STATE_COMPLETED`, `TASK_STATE_FAILED`, `TASK_STATE_INPUT_REQUIRED`.
    pub(super) state: &'static str,
    /// What was answered, as far as it is text; if nothing was, what the task says about itself.
    pub(super) text: String,
    /// All that was answered.
    #[schemars(with = "Vec<Piece>")]
    pub(super) parts: Vec<Part>,
    /// What was consumed and what it cost, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub(super) usage: Option<Json>,
}

/// One event of a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum InvokeEvent {
    /// The task as it stands.
    Task(InvokeResult),
    /// How it stands now.
    Status {
        state: &'static str,
        /// What is said about it.
        #[serde(skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<serde_json::Map<String, Value>>")]
        usage: Option<Json>,
    },
    /// A piece of the answer.
    Output {
        /// What it belongs to.
        artifact_id: String,
        /// Whether it continues what came before of the same id.
        append: bool,
        /// Whether there is no more of it.
        last: bool,
        #[schemars(with = "Vec<Piece>")]
        parts: Vec<Part>,
    },
    /// The whole answer, without a task.
    Message(InvokeResult),
}

/// How an agent is, or the gateway.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Health {
    /// `ok`, `unknown` or `unavailable`.
    pub(super) status: &'static str,
    /// What is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reasons: Vec<String>,
}

/// Why there is no answer. Of `/invoke` in the envelope of JSON-RPC 2.0.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Failed {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<Two>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RequestId>")]
    id: Option<Value>,
    error: Problem,
}

impl Failed {
    /// As JSON-RPC has it, if there is an id to answer to.
    pub(super) fn new(id: Option<Value>, error: Problem) -> Self {
        Self { jsonrpc: id.is_some().then_some(Two::Two), id, error }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Problem {
    /// -32000, -32001, -32002, -32003, -32602; or what A2A has for it.
    pub(super) code: i32,
    /// The name of the code, such as `BUDGET_EXCEEDED`.
    pub(super) message: String,
    pub(super) data: ProblemData,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProblemData {
    /// What exactly is wrong, for programs.
    pub(super) reason: String,
    /// The same for people.
    pub(super) detail: String,
    /// The fields of the body that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<Field>,
    /// The gate that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remaining: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
    /// The task that goes on all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<String>,
}

/// A field of a body that is wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    /// The keys that lead to it.
    pub(super) path: String,
    /// What is wrong with it.
    pub(super) what: String,
}
