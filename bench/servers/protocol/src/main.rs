//! `a2a-protocol-server`, set up as its README shows: a handler from the builder, the JSON-RPC
//! dispatcher, `serve`. Its store forgets tasks beyond 10,000; `--unbounded` lifts that, so that
//! memory per task can be told.

use std::sync::Arc;
use std::time::Duration;

use a2a_protocol_server::store::TaskStoreConfig;
use a2a_protocol_server::{EventEmitter, JsonRpcDispatcher, RequestHandlerBuilder, agent_executor, serve};
use a2a_protocol_types::{AgentCard, AgentInterface, AgentSkill, Part, TaskState};
use anyhow::Context as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Echo;

agent_executor!(Echo, |context, queue| async {
    let emit = EventEmitter::new(context, queue);
    let text = context.message.text().unwrap_or_default();
    emit.status(TaskState::Working).await?;
    match plan(text) {
        None => emit.artifact("echo", vec![Part::text(text)], None, Some(true)).await?,
        Some((chunks, pause)) => {
            for number in 1..=chunks {
                if !pause.is_zero() && number > 1 {
                    tokio::time::sleep(pause).await;
                }
                let parts = vec![Part::text(format!("chunk {number} "))];
                emit.artifact("stream", parts, Some(number > 1), Some(number == chunks)).await?;
            }
        }
    }
    emit.status(TaskState::Completed).await
});

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let listen = words.iter().skip_while(|word| *word != "--listen").nth(1);
    let listen = listen.context("usage: bench-protocol --listen ADDRESS [--unbounded]")?;

    let mut handler = RequestHandlerBuilder::new(Echo).with_agent_card(card(listen));
    if words.iter().any(|word| word == "--unbounded") {
        let keep_all = TaskStoreConfig::default().with_max_capacity(None).with_task_ttl(None);
        handler = handler.with_task_store_config(keep_all);
    }
    serve(listen, JsonRpcDispatcher::new(Arc::new(handler.build()?))).await?;
    Ok(())
}

fn card(listen: &str) -> AgentCard {
    AgentCard::new("echo", "1.0.0", AgentInterface::jsonrpc(format!("http://{listen}")))
        .with_description("Echoes text, or streams chunks")
        .with_streaming(true)
        .with_skill(AgentSkill::new("echo", "Echo", "Echoes text").with_tags(["echo"]))
}

/// Reads `stream N MS`; both numbers may be left out.
fn plan(text: &str) -> Option<(u32, Duration)> {
    let mut words = text.strip_prefix("stream")?.split_ascii_whitespace();
    let chunks = words.next().map_or(Ok(100), str::parse).ok()?;
    let pause = words.next().map_or(Ok(10), str::parse).ok()?;
    Some((chunks, Duration::from_millis(pause)))
}
