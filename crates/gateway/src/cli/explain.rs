//! `chancery explain`: what the gates would say to a call, one by one, without making it.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use chancery_control::Explanation;
use chancery_protocol::{
    Call, CallContext, Identity, Message, OPERATIONS, Principal, Proof, Request, SendMessageRequest,
    parse_usd,
};
use clap::Args;
use serde_json::{Value, json};

use super::agent::Format;
use super::config::Source;
use super::output::json_line;
use crate::rehearsal::Rehearsal;

/// Say what each gate would make of a call, and why
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    source: Source,

    /// Who calls
    #[arg(long, value_name = "NAME")]
    caller: String,

    /// The realm of the caller
    #[arg(long, default_value = "default", value_name = "NAME")]
    realm: String,

    /// A group that the caller belongs to; may be repeated
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,

    /// The caller is the agent of the fleet that has this name, and shows no lineage token
    #[arg(long, conflicts_with = "depth")]
    as_agent: bool,

    /// Which agent is called
    #[arg(long, value_name = "NAME")]
    agent: String,

    /// What is asked of it, by the operation's name in the protocol
    #[arg(long, default_value = "SendMessage", value_name = "OPERATION")]
    op: String,

    /// For which of its skills
    #[arg(long, value_name = "ID")]
    skill: Option<String>,

    /// How many calls have led to this one
    #[arg(long, default_value_t = 0, value_name = "N")]
    depth: u16,

    /// What the caller wants it to cost at most, in US dollars
    #[arg(long, value_name = "AMOUNT")]
    usd: Option<String>,

    /// How to print it
    #[arg(short, long, default_value = "text")]
    output: Format,
}

impl Explain {
    pub(super) fn format(&self) -> Format {
        self.output
    }

    pub(super) async fn run(self, out: &mut impl Write) -> anyhow::Result<()> {
        let loaded = self.source.load(Vec::new())?;
        let rehearsal = Rehearsal::new(&loaded.config).await?;
        let explanation = rehearsal.explain(&self.agent, self.call()?, self.depth)?;
        match self.output {
            Format::Json => json_line(out, &to_json(&explanation))?,
            Format::Text => writeln!(out, "{explanation}")?,
        }
        Ok(())
    }

    fn call(&self) -> anyhow::Result<Call> {
        let row = OPERATIONS.iter().find(|row| row.method == self.op);
        let Some(row) = row else { bail!("there is no operation `{}`", self.op) };
        let message = Box::new(SendMessageRequest {
            tenant: String::new(),
            message: Message::user("explain"),
            configuration: None,
            metadata: None,
        });
        let request = match self.op.as_str() {
            "SendMessage" => Request::SendMessage(message),
            "SendStreamingMessage" => Request::SendStreamingMessage(message),
            _ => Request::decode(row.operation, br#"{"id":"x","taskId":"x","url":"https://x"}"#)
                .with_context(|| format!("cannot make a call of `{}`", self.op))?,
        };
        let principal = Principal::new(self.realm.as_str(), self.caller.as_str());
        let mut context = CallContext::new(principal, self.agent.as_str().into());
        context.identity = Arc::new(Identity {
            proof: Proof::ApiKey,
            groups: self.group.iter().map(|group| group.as_str().into()).collect(),
            agent: self.as_agent.then(|| self.caller.as_str().into()),
            ..Identity::default()
        });
        context.skill = self.skill.as_deref().map(Into::into);
        context.ceiling_micro_usd = match &self.usd {
            Some(text) => {
                Some(parse_usd(text).with_context(|| format!("`{text}` is no amount of US dollars"))?)
            }
            None => None,
        };
        Ok(Call { request, context })
    }
}

fn to_json(explanation: &Explanation) -> Value {
    let gates: Vec<_> = explanation
        .gates
        .iter()
        .map(|report| {
            let denied = report.denied.as_ref().map(|denied| {
                json!({"reason": denied.reason, "limit": denied.limit, "observed": denied.observed,
                    "remaining": denied.remaining, "hint": denied.hint,
                    "retryAfterMs": denied.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))})
            });
            json!({"gate": report.gate, "mode": format!("{:?}", report.mode).to_lowercase(), "denied": denied,
                "waits": report.waits, "notes": report.notes})
        })
        .collect();
    json!({"agent": explanation.agent, "operation": explanation.operation.method(),
        "admitted": explanation.denied().is_none(), "gates": gates})
}
