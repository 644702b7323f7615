//! What the kit asks an agent to do: its small instruction format, and where it is found in a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_sdk::{Content, Message, Part, Role};
use prost::Message as _;

/// One thing to do.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Instruction {
    #[prost(oneof = "Step", tags = "1, 2, 3")]
    pub(crate) step: Option<Step>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Step {
    #[prost(message, tag = "1")]
    CallAgent(Box<CallAgent>),
    #[prost(message, tag = "2")]
    ReturnResponse(ReturnResponse),
    #[prost(message, tag = "3")]
    Steps(SeriesOfSteps),
}

/// Hands an instruction on to another agent.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CallAgent {
    #[prost(string, tag = "1")]
    pub(crate) transport: String,
    #[prost(string, tag = "2")]
    pub(crate) agent_card_uri: String,
    #[prost(message, optional, boxed, tag = "3")]
    pub(crate) instruction: Option<Box<Instruction>>,
    #[prost(bool, tag = "4")]
    pub(crate) streaming: bool,
    #[prost(oneof = "Behavior", tags = "5, 6, 7")]
    pub(crate) behavior: Option<Behavior>,
}

/// How the other agent is called.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Behavior {
    #[prost(message, tag = "5")]
    SendMessage(Nothing),
    #[prost(message, tag = "6")]
    PushNotification(PushNotification),
    #[prost(message, tag = "7")]
    Resubscribe(Nothing),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PushNotification {
    #[prost(string, tag = "1")]
    pub(crate) url: String,
}

/// Says something.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReturnResponse {
    #[prost(string, tag = "1")]
    pub(crate) response: String,
    /// Whether the task goes on working for a while.
    #[prost(bool, tag = "2")]
    pub(crate) hold_task: bool,
}

/// Several things, one after the other; what they say is joined.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SeriesOfSteps {
    #[prost(message, repeated, tag = "1")]
    pub(crate) instructions: Vec<Instruction>,
    #[prost(int32, tag = "2")]
    pub(crate) response_generator: i32,
}

/// The media type and the name by which a part is known as an instruction.
const MEDIA_TYPE: &str = "application/x-protobuf";
const FILE_NAME: &str = "instruction.bin";

impl Instruction {
    /// Finds the instruction in a message: bytes that say that they are one, or text that is one in base64.
    pub(crate) fn find(message: &Message) -> Option<Self> {
        message.parts.iter().find_map(|part| match &part.content {
            Content::Raw(bytes) if is_marked(part) => Self::decode(&bytes[..]).ok(),
            Content::Text(text) => Self::decode(&STANDARD.decode(text.trim()).ok()?[..]).ok(),
            _ => None,
        })
    }

    /// A message that carries this instruction.
    pub(crate) fn into_message(self) -> Message {
        let part = Part::raw(self.encode_to_vec()).named(FILE_NAME).with_media_type(MEDIA_TYPE);
        Message::new(Role::User, vec![part])
    }

    /// Whether anything that this agent is to say itself is to be held.
    pub(crate) fn holds(&self) -> bool {
        match &self.step {
            Some(Step::ReturnResponse(answer)) => answer.hold_task,
            Some(Step::Steps(steps)) => steps.instructions.iter().any(Self::holds),
            _ => false,
        }
    }
}

fn is_marked(part: &Part) -> bool {
    part.media_type.as_deref() == Some(MEDIA_TYPE) || part.filename.as_deref() == Some(FILE_NAME)
}
