//! An agent that streams: `stream N MS` emits N chunks, MS milliseconds apart.

use std::time::Duration;

use chancery_sdk::{Agent, AgentSkill, AgentSpec, Failure, Outcome, Turn};

/// The most chunks that one message may ask for.
const MAX_CHUNKS: u64 = 100_000;
/// The longest pause between two chunks.
const MAX_PAUSE_MS: u64 = 60_000;

struct Stream;

pub(super) fn spec() -> AgentSpec {
    AgentSpec::new("stream", Stream).description("Emits an artifact in chunks").skill(
        AgentSkill::new(
            "stream",
            "Stream",
            "`stream N MS` emits N chunks, MS milliseconds apart; 0 is a burst",
        )
        .tag("demo")
        .example("stream 5 300"),
    )
}

impl Agent for Stream {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        let (chunks, pause_ms) = match parse(&turn.text()) {
            Ok(asked) => asked,
            Err(reason) => return Ok(Outcome::rejected(reason)),
        };
        let mut artifact = turn.begin_artifact("chunks");
        for number in 1..chunks {
            artifact.append(format!("chunk {number} ")).await?;
            if pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        artifact.finish(format!("chunk {chunks}")).await?;
        Ok(Outcome::completed())
    }
}

/// Reads `stream N MS`; both numbers may be left out.
fn parse(text: &str) -> Result<(u64, u64), String> {
    let mut words = text.split_whitespace().skip_while(|word| *word == "stream");
    let mut number = |default: u64, max: u64| match words.next() {
        None => Ok(default),
        Some(word) => match word.parse() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(format!("`{word}` is not a number up to {max}; say `stream 100 10`")),
        },
    };
    let (chunks, pause_ms) = (number(100, MAX_CHUNKS)?, number(10, MAX_PAUSE_MS)?);
    if chunks == 0 { Err("there must be at least one chunk".to_owned()) } else { Ok((chunks, pause_ms)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_defaults_and_limits() {
        assert_eq!(parse("stream"), Ok((100, 10)));
        assert_eq!(parse("stream 5"), Ok((5, 10)));
        assert_eq!(parse("stream 5 0"), Ok((5, 0)));
        assert!(parse("stream 0").is_err());
        assert!(parse("stream many").is_err());
        assert!(parse("stream 1 99999999").is_err());
    }
}
