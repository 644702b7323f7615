//! Agents that are models: the conversation goes to an OpenAI-compatible chat endpoint, and the answer is streamed as an
//! artifact.
//!
//! | file | holds |
//! |---|---|
//! | `chat` | the endpoint: asking, trying again, reading the answer piece by piece |
//! | `conversation` | what the model is told of what was said before |
//! | `spending` | what it costs: asked for before, reported from what the endpoint says |

mod chat;
mod conversation;
mod spending;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chancery_sdk::{Agent, AgentSpec, Failure, Outcome, Turn};
use chancery_store::Store;
use serde_json::json;
use tokio::time::timeout;

use super::credential::MOST_BYTES;
use super::pacing::{MOST_AT_ONCE, OutputPacing};
use super::{Modes, described};
use crate::config::{AgentSection, ModelSection, OutboundSection};
use crate::identity::files::read_named_text;
use chat::{Answer, Chat, Ended, Piece};
use conversation::Conversation;
use spending::{Prices, Spending};

/// How much longer than its answer a turn may take.
const SLACK: Duration = Duration::from_secs(30);

/// A model that answers.
struct ModelAgent {
    chat: Chat,
    conversation: Conversation,
    prices: Prices,
    max_output_tokens: u64,
    max_duration: Duration,
}

pub(super) fn build(
    section: &AgentSection,
    store: &Arc<Store>,
    outbound: &OutboundSection,
) -> anyhow::Result<AgentSpec> {
    let name = section.name.as_str();
    let model = section.model.as_ref().with_context(|| format!("agent `{name}` has no section `model`"))?;
    let key = key(model).with_context(|| format!("agent `{name}` has no key"))?;
    let agent = ModelAgent {
        chat: Chat::new(model, key.as_deref(), outbound)
            .with_context(|| format!("agent `{name}` cannot be asked"))?,
        conversation: Conversation::new(name, model, store.clone()),
        prices: Prices::new(section.price.as_ref(), model),
        max_output_tokens: model.max_output_tokens,
        max_duration: Duration::from_millis(model.max_duration_ms),
    };
    let timeout = agent.max_duration + SLACK;
    let runtime = json!({"runtime": "model", "model": model.model});
    let modes = Modes { input: &["text/plain"], output: &["text/plain"] };
    Ok(described(section, agent, modes, runtime)?.turn_timeout(timeout))
}

/// The key of the endpoint, which never stands in the configuration itself.
fn key(model: &ModelSection) -> anyhow::Result<Option<String>> {
    if let Some(name) = &model.key_env {
        let key = std::env::var(name).with_context(|| format!("the variable `{name}` is not set"))?;
        return Ok(Some(key));
    }
    let Some(path) = &model.key_file else { return Ok(None) };
    let key = read_named_text(path, MOST_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(key.trim().to_owned()))
}

impl Agent for ModelAgent {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let limit = self.max_duration;
        let late = || {
            Failure::public(format!(
                "The model took longer than the {} ms that it may take",
                limit.as_millis()
            ))
            .unanswered()
        };
        timeout(limit, self.answer(&turn)).await.unwrap_or_else(|_| Err(late()))
    }
}

impl ModelAgent {
    async fn answer(&self, turn: &Turn) -> Result<Outcome, Failure> {
        let messages = self.conversation.up_to(turn).await?;
        let bytes = messages.iter().map(|message| message.content.len()).sum();
        let mut spending = Spending::new(turn, self.prices, bytes, messages.len());
        let most = spending.afford(self.max_output_tokens).map_err(|denied| {
            let reason = denied.to_string();
            Failure::public(format!("The budget does not allow the model to be asked: {reason}"))
        })?;
        turn.dispatch().await?;
        let answer = self.chat.ask(&messages, most).await?;
        let shown = show(turn, answer, &mut spending).await;
        // What was shown before an answer broke off is charged, and nothing else; of one that showed nothing, nobody knows
        // what it has cost.
        let has_shown = spending.has_shown();
        let ended = shown.map_err(|failure| if has_shown { failure } else { failure.unanswered() })?;
        let has_said = spending.has_shown();
        spending.finish();
        Ok(ended.outcome(has_said, most))
    }
}

/// Shows an answer as it comes. What came before it broke off is shown, too; what was shown is charged.
async fn show(turn: &Turn, mut answer: Answer, spending: &mut Spending<'_>) -> Result<Ended, Failure> {
    let (mut artifact, mut pacing) = (turn.begin_artifact("answer"), OutputPacing::default());
    let (mut held, mut pieces) = (String::new(), 0);
    let ended = loop {
        match pacing.more(answer.next()).await {
            Some(Ok(Piece::Text(text))) => {
                pacing.hold();
                held.push_str(&text);
                pieces += 1;
                if held.len() < MOST_AT_ONCE {
                    continue;
                }
            }
            Some(Ok(Piece::Usage(tokens))) => {
                spending.counted(tokens);
                continue;
            }
            Some(Ok(Piece::End(ended))) => break Ok(ended),
            Some(Err(failure)) => break Err(failure),
            None => {}
        }
        artifact.append(std::mem::take(&mut held)).await?;
        spending.shown(std::mem::take(&mut pieces));
        pacing.shown();
    };
    if !held.is_empty() {
        match ended {
            Ok(_) => artifact.finish(held).await?,
            Err(_) => artifact.append(held).await?,
        }
        spending.shown(pieces);
    }
    ended
}
