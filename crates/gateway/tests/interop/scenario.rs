//! The scenarios, and what can come of one.

use crate::wire::Version;

/// What one party does with the other. `interop/README.md` says what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Card,
    Send,
    Message,
    Stream,
    InputRequired,
    Cancel,
    Get,
    List,
    Subscribe,
    Push,
    Errors,
    Text,
    Chunks,
    FollowUp,
    Failure,
}

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    /// It went wrong, or was never told of; in which way.
    Failed(String),
    /// This version of the protocol, or the peer, has no such thing.
    NotThere,
}

impl Scenario {
    pub(crate) const ALL: [Self; 15] = [
        Self::Card,
        Self::Send,
        Self::Message,
        Self::Stream,
        Self::InputRequired,
        Self::Cancel,
        Self::Get,
        Self::List,
        Self::Subscribe,
        Self::Push,
        Self::Errors,
        Self::Text,
        Self::Chunks,
        Self::FollowUp,
        Self::Failure,
    ];

    /// Whether it is one for frameworks, whose agents say texts and see little of the protocol.
    pub(crate) fn is_for_frameworks(self) -> bool {
        matches!(self, Self::Text | Self::Chunks | Self::FollowUp | Self::Failure)
    }

    /// What programs and `known.toml` call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Send => "send",
            Self::Message => "message",
            Self::Stream => "stream",
            Self::InputRequired => "input-required",
            Self::Cancel => "cancel",
            Self::Get => "get",
            Self::List => "list",
            Self::Subscribe => "subscribe",
            Self::Push => "push",
            Self::Errors => "errors",
            Self::Text => "text",
            Self::Chunks => "chunks",
            Self::FollowUp => "follow-up",
            Self::Failure => "failure",
        }
    }

    pub(crate) fn is_in(self, version: Version) -> bool {
        match self {
            // Listing came with v1.0; bare messages as answers came with v0.2.
            Self::List => version == Version::V1_0,
            Self::Message => version != Version::V0_1,
            _ => true,
        }
    }
}
