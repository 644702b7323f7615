//! The callers of one round, and what each of them has seen when the server goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::wire::{Binding, Call, Frame};

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Streams.
    Stream,
    /// Streams with an idempotency key.
    KeyedStream,
    /// Sends with an idempotency key and waits for the answer.
    KeyedSend,
    /// Sends to an agent that asks back.
    Ask,
    /// Sends to an agent that asks back, and answers it with an idempotency key.
    AskAndAnswer,
}

/// Somebody with one message to send, in a context of its own: what comes of it can be told apart.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    pub(crate) binding: Binding,
    pub(crate) context: String,
    /// How many chunks it asks for.
    pub(crate) chunks: usize,
    text: String,
}

/// A caller, and all that it was told.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) caller: Caller,
    pub(crate) frames: Vec<Frame>,
    /// Whether the stream came to its end.
    pub(crate) ended: bool,
    /// The task in the answer to its message.
    pub(crate) told: Option<Value>,
    /// The task in the answer to its second message.
    pub(crate) told_again: Option<Value>,
}

/// What an agent that asks back is told.
const ANSWER: &str = "Ada";

/// Lets so many callers loose. Each ends when it has all it wants, or nothing comes any more.
pub(crate) fn begin(
    address: SocketAddr,
    round: usize,
    count: usize,
    progress: &Arc<AtomicUsize>,
) -> JoinSet<Witness> {
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (caller, progress) = (Caller::new(round, number), progress.clone());
        callers.spawn(async move { caller.run(address, &progress).await });
    }
    callers
}

// === impl Role ===

impl Role {
    /// Most of them stream.
    fn by(number: usize) -> Self {
        match number % 16 {
            1 | 2 => Self::KeyedStream,
            3 | 4 => Self::KeyedSend,
            5 => Self::Ask,
            6 => Self::AskAndAnswer,
            _ => Self::Stream,
        }
    }

    pub(crate) fn agent(self) -> &'static str {
        match self {
            Self::Ask | Self::AskAndAnswer => "ask",
            _ => "stream",
        }
    }

    pub(crate) fn has_key(self) -> bool {
        matches!(self, Self::KeyedStream | Self::KeyedSend)
    }
}

// === impl Caller ===

impl Caller {
    fn new(round: usize, number: usize) -> Self {
        let role = Role::by(number);
        // A burst, one that ends soon, one that may, one that does not. Those with a key are run again if they
        // had not been taken, so they are short.
        let (chunks, pause) = match number / 16 % 4 {
            0 => (4, 0),
            1 => (12, 7),
            _ if role.has_key() => (30, 5),
            2 => (200, 10),
            _ => (5_000, 25),
        };
        let text =
            if role.agent() == "ask" { "Hello".to_owned() } else { format!("stream {chunks} {pause}") };
        // Roles come in sixteens, so the binding must not.
        let binding = Binding::by(number / 16 + number);
        Self { role, binding, context: format!("round-{round}-caller-{number}"), chunks, text }
    }

    fn message(&self) -> Value {
        json!({"message": {"messageId": self.context, "contextId": self.context, "role": "ROLE_USER",
            "parts": [{"text": self.text}]}})
    }

    /// The first message, always the same.
    pub(crate) fn call(&self) -> Call {
        let (agent, key) = (self.role.agent(), self.role.has_key().then_some(self.context.as_str()));
        match self.role {
            Role::Stream | Role::KeyedStream => Call::stream(self.binding, agent, &self.message()),
            _ => Call::send(self.binding, agent, &self.message()),
        }
        .with_key(key)
    }

    /// The answer to what the agent asked back, always the same.
    pub(crate) fn answer(&self, task: &str) -> Call {
        let message = json!({"message": {"messageId": format!("{}-answer", self.context), "taskId": task,
            "role": "ROLE_USER", "parts": [{"text": ANSWER}]}});
        Call::send(self.binding, self.role.agent(), &message).with_key(Some(&self.context))
    }

    async fn run(self, address: SocketAddr, progress: &AtomicUsize) -> Witness {
        let call = self.call();
        let mut witness =
            Witness { caller: self, frames: Vec::new(), ended: false, told: None, told_again: None };
        match witness.caller.role {
            Role::Stream | Role::KeyedStream => {
                witness.ended = call.frames(address, &mut witness.frames, progress).await.is_ok();
            }
            Role::KeyedSend | Role::Ask => {
                witness.told = call.result(address).await.ok().map(|mut reply| reply["task"].take());
                progress.fetch_add(1, Ordering::Relaxed);
            }
            Role::AskAndAnswer => {
                witness.told = call.result(address).await.ok().map(|mut reply| reply["task"].take());
                if let Some(task) = &witness.told {
                    let answer = witness.caller.answer(task["id"].as_str().unwrap());
                    witness.told_again =
                        answer.result(address).await.ok().map(|mut reply| reply["task"].take());
                }
                progress.fetch_add(2, Ordering::Relaxed);
            }
        }
        witness
    }
}

// === impl Witness ===

impl Witness {
    /// The task that it knows of.
    pub(crate) fn task(&self) -> Option<String> {
        let streamed = || self.frames.first().map(|frame| frame.event(self.caller.binding)["task"].take());
        let task = self.told.clone().or_else(streamed)?;
        Some(task["id"].as_str().expect("a task has an id").to_owned())
    }
}
