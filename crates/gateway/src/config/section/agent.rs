//! An agent, of whatever kind.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CardSection, CommandSection, CredentialSection, HealthSection, InboxSection, LimitsSection, ModelSection,
    PinnedKeys, SignatureMode, SpokenBinding, SpokenVersion, Trust,
};
use crate::config::Usd;

/// An agent.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentSection {
    /// Its name, which is also its path: `/agents/NAME`.
    pub(crate) name: String,
    /// What kind of agent it is.
    pub(crate) kind: AgentKind,
    /// Of an agent elsewhere: its URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// Of a pool: agents that do the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) members: Vec<MemberSection>,
    /// How a member of the pool is chosen, instead of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
    /// Of a pool, with `routing.fallback = "local"`: the agent that runs here and answers while no member can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stand_in: Option<String>,
    /// What a call costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<PriceSection>,
    /// How much it takes in one message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<LimitsSection>,
    /// Whether anybody outside the fleet may see and call it. If not, only agents of this fleet can, with the token of the
    /// call that they work on, and to everybody else it is not there.
    #[serde(default = "default_exposed")]
    pub(crate) exposed: bool,
    /// How far what it says is believed.
    #[serde(default)]
    pub(crate) trust: Trust,
    /// Of an agent elsewhere: whether its card must be signed.
    #[serde(default)]
    pub(crate) signature: SignatureMode,
    /// Of an agent elsewhere: the keys that its card may be signed with; of a pool, the cards of all members.
    #[serde(default, skip_serializing_if = "PinnedKeys::is_empty")]
    pub(crate) trusted_keys: PinnedKeys,
    /// Of an agent elsewhere: skills for which messages to the fleet may go to it, whatever its card says. Of one that nobody
    /// trusts, only these count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skills: Vec<String>,
    /// Of an agent elsewhere: what proves to it that the gateway may call it; of a pool, to all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<CredentialSection>,
    /// Of an agent elsewhere: how it is found out whether it is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) health: Option<HealthSection>,
    /// Of an agent elsewhere: how messages are sent whose outcome a caller waits for.
    #[serde(default)]
    pub(crate) exchange: Exchange,
    /// Of an agent elsewhere: how long it may be out of reach before the tasks that it works on fail, in milliseconds.
    #[serde(default = "default_patience_ms")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub(crate) patience_ms: u64,
    /// Another address, for gRPC to this agent alone: callers of v0.3 cannot name an agent, so they find it by its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grpc_listen: Option<SocketAddr>,
    /// Versions of the protocol that are not spoken for it, besides those that are left out for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) without_versions: Vec<SpokenVersion>,
    /// Bindings of the protocol that it does not have, and that its card does not name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) without_bindings: Vec<SpokenBinding>,
    /// What its card says, where nobody else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) card: Option<CardSection>,
    /// Of a program: which, and what it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<CommandSection>,
    /// Of a model: where it is, and what it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelSection>,
    /// Of one that comes for its tasks: how many wait, and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inbox: Option<InboxSection>,
    /// The file that describes it, if that is another one.
    #[serde(skip)]
    pub(crate) described_in: Option<PathBuf>,
    /// Of one that another file describes: whether messages go to it for skills that an agent of the configuration has.
    #[serde(skip)]
    pub(crate) claims_skills: bool,
    /// The fleet that it was found in, if it is a member of another.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) discovered_in: Option<String>,
    /// Why nobody answers for it.
    #[serde(skip)]
    pub(crate) absent: Option<String>,
}

/// What kind of agent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentKind {
    /// One that comes with Chancery: `echo`, `stream`, `ask`, `conformance`, `planner`, by its name.
    Builtin,
    /// One elsewhere that speaks A2A.
    A2a,
    /// A program that is run for each message.
    Command,
    /// A model behind an OpenAI-compatible chat endpoint.
    Model,
    /// One that cannot be reached, and comes for its tasks.
    Inbox,
    /// One of which it is known what it is, but not what answers for it.
    #[serde(skip_deserializing)]
    Absent,
}

/// How messages are sent to an agent elsewhere, for a caller that waits for the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Exchange {
    /// As `SendMessage`: one request, one answer. Until it comes, the task there is not known: a cancel ends the call here only.
    #[default]
    Send,
    /// As `SendStreamingMessage` if the card has streaming: the task can be canceled there, and followed after a restart, from its
    /// first event on.
    Stream,
}

/// A member of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberSection {
    /// Names it within the pool.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) url: String,
    /// What a call costs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<PriceSection>,
}

/// What a call costs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PriceSection {
    /// Each, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_call: Option<Usd>,
    /// For a thousand tokens, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_1k_tokens: Option<Usd>,
}

fn default_exposed() -> bool {
    true
}

pub(crate) const DEFAULT_PATIENCE_MS: u64 = 30_000;

fn default_patience_ms() -> u64 {
    DEFAULT_PATIENCE_MS
}

impl AgentSection {
    /// What a call costs in any case, if anybody has said so. What is counted second by second or token by token costs
    /// nothing besides.
    pub(crate) fn declared_price(&self) -> Option<PriceSection> {
        let model = self.model.as_ref();
        let by_token = model.is_some_and(|model| {
            model.price_per_1k_input_tokens.is_some() || model.price_per_1k_output_tokens.is_some()
        });
        let by_second = self.command.as_ref().is_some_and(|command| command.price_per_second.is_some());
        self.price.or((by_token || by_second).then(PriceSection::default))
    }
}

impl AgentKind {
    /// Whether what it says that it consumed is its own word.
    pub(crate) fn is_elsewhere(self) -> bool {
        matches!(self, Self::A2a | Self::Inbox)
    }

    /// Its name in a configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::A2a => "a2a",
            Self::Command => "command",
            Self::Model => "model",
            Self::Inbox => "inbox",
            Self::Absent => "absent",
        }
    }
}

impl AgentSection {
    /// One of which nothing else is said.
    pub(crate) fn new(name: &str, kind: AgentKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            url: None,
            members: Vec::new(),
            selector: None,
            stand_in: None,
            price: None,
            limits: None,
            exposed: true,
            trust: Trust::default(),
            signature: SignatureMode::default(),
            trusted_keys: PinnedKeys::default(),
            skills: Vec::new(),
            credential: None,
            health: None,
            exchange: Exchange::default(),
            patience_ms: DEFAULT_PATIENCE_MS,
            grpc_listen: None,
            without_versions: Vec::new(),
            without_bindings: Vec::new(),
            card: None,
            command: None,
            model: None,
            inbox: None,
            described_in: None,
            claims_skills: false,
            discovered_in: None,
            absent: None,
        }
    }
}
