//! What an answer costs: set aside before the model is asked, reported as it is shown, and set right by what the endpoint
//! counted.

use chancery_protocol::{Denied, Usage};
use chancery_sdk::Turn;

use crate::config::{ModelSection, PriceSection, Usd};

/// Bytes of text that a token has at least, by which is set aside, and at most, by which is reported before it was counted.
const LEAST_BYTES: u64 = 2;
const MOST_BYTES: u64 = 8;
/// Tokens that a message has besides its text.
const FRAME: u64 = 8;
/// An answer that would have to be shorter is not asked for.
const SHORTEST: u64 = 16;

/// What is asked for tokens, in millionths of a US dollar for 1,000, and for the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prices {
    call: u64,
    input: u64,
    output: u64,
}

/// What the endpoint counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// What one answer costs.
pub(super) struct Spending<'a> {
    turn: &'a Turn,
    prices: Prices,
    /// At least and at most so many tokens are read.
    least: u64,
    most: u64,
    /// How many pieces of the answer were shown; each is a token at least.
    shown: u64,
    counted: Option<Tokens>,
    reported: Usage,
}

impl Prices {
    pub(super) fn new(price: Option<&PriceSection>, model: &ModelSection) -> Self {
        let micro_usd = |usd: Option<Usd>| usd.map_or(0, |usd| usd.0);
        let any = price.and_then(|price| price.per_1k_tokens);
        Self {
            call: micro_usd(price.and_then(|price| price.per_call)),
            input: micro_usd(model.price_per_1k_input_tokens.or(any)),
            output: micro_usd(model.price_per_1k_output_tokens.or(any)),
        }
    }

    /// What so many tokens cost. Charges round up.
    fn of(self, tokens: Tokens) -> Usage {
        let read = u128::from(tokens.input) * u128::from(self.input);
        let written = u128::from(tokens.output) * u128::from(self.output);
        let cost = u64::try_from((read + written).div_ceil(1000)).unwrap_or(u64::MAX);
        Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cost_micro_usd: self.call.saturating_add(cost),
        }
    }
}

impl<'a> Spending<'a> {
    /// For a conversation of so many bytes in so many messages.
    pub(super) fn new(turn: &'a Turn, prices: Prices, bytes: usize, messages: usize) -> Self {
        let (bytes, frames) = (bytes as u64, messages as u64 * FRAME);
        let (least, most) = (bytes / MOST_BYTES, bytes.div_ceil(LEAST_BYTES) + frames);
        Self { turn, prices, least, most, shown: 0, counted: None, reported: Usage::default() }
    }

    /// Sets aside what an answer may cost, and says how long it may be: as long as wished, or as the budget allows.
    pub(super) fn afford(&self, wished: u64) -> Result<u64, Denied> {
        let mut output = wished;
        loop {
            let tokens = Tokens { input: self.most, output };
            match self.turn.may_spend(self.prices.of(tokens)) {
                Ok(()) => return Ok(output),
                Err(denied) if output / 2 < SHORTEST.min(wished) => return Err(denied),
                Err(_) => output /= 2,
            }
        }
    }

    /// Pieces of the answer have been shown. A turn that is cut off is charged for what was shown by then.
    pub(super) fn shown(&mut self, pieces: u64) {
        self.shown += pieces;
        self.report(Tokens { input: self.least, output: self.shown });
    }

    /// Whether anything of the answer was shown.
    pub(super) fn has_shown(&self) -> bool {
        self.shown > 0
    }

    /// The endpoint has counted.
    pub(super) fn counted(&mut self, tokens: Tokens) {
        self.counted = Some(tokens);
    }

    /// The answer has ended.
    pub(super) fn finish(mut self) {
        let guessed = Tokens { input: self.most / 2, output: self.shown };
        self.report(self.counted.unwrap_or(guessed));
    }

    fn report(&mut self, tokens: Tokens) {
        let Usage { input_tokens, output_tokens, cost_micro_usd } = self.prices.of(tokens);
        let more = Usage {
            input_tokens: input_tokens.saturating_sub(self.reported.input_tokens),
            output_tokens: output_tokens.saturating_sub(self.reported.output_tokens),
            cost_micro_usd: cost_micro_usd.saturating_sub(self.reported.cost_micro_usd),
        };
        if more != Usage::default() {
            self.turn.usage(more);
            self.reported.add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_are_read_and_written_have_their_own_prices_and_charges_round_up() {
        let prices = Prices { call: 10, input: 1_000, output: 3_000 };
        assert_eq!(prices.of(Tokens { input: 1, output: 1 }).cost_micro_usd, 14);
        let prices = Prices { call: 0, input: 1, output: 1 };
        assert_eq!(prices.of(Tokens { input: 1, output: 0 }).cost_micro_usd, 1);
    }
}
