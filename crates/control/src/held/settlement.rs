//! What a call comes to, and how that is charged: as far as the call can pay for it, and the rest to its agent alone.

use std::sync::atomic::Ordering;

use chancery_protocol::{Amount, CallOutcome, CostSource, Denied, DeniedKind, Settled, Usage};

use super::{Grants, Held, Spent, is_cut_short, is_waiting};
use crate::Millis;
use crate::ledger::{LEAST_TOKENS, MOST, charge};
use crate::plane::Booked;
use crate::policy::{COST_LIMIT, GATE as POLICY, TOKEN_LIMIT};
use crate::span;

/// What a call comes to.
pub(super) struct Settlement {
    pub(super) settled: Settled,
    /// Where the tokens come from.
    pub(super) token_source: CostSource,
    /// What its task has used in all, as its caller is told.
    pub(super) used: Usage,
}

impl Held {
    /// What the call comes to. From now on that is held, so that it can be charged when it has been committed.
    pub(super) fn settlement(&self, outcome: CallOutcome, reported: Option<Usage>) -> Settlement {
        let Spent { before, overrun_before, total, .. } = *self.spent.lock();
        let total = match (self.source, reported) {
            // What was set aside and not used is not charged, and what was refused has not been used.
            (CostSource::Metered, Some(reported)) => match self.afford(less(reported, before)) {
                Ok(()) => Some(reported),
                Err(denied) => {
                    let hop = self.open.hop;
                    tracing::warn!(%hop, "call {hop} reports more than it was let spend: {denied}");
                    total
                }
            },
            _ => most(total, reported),
        };
        let used = total.map(|total| less(total, before));
        let figure = self.tariff.charge(&self.estimate, used.map(|used| (used, self.source)));
        let held = self.reserved();
        let (due, source) = match outcome {
            CallOutcome::NotDispatched => (Amount::default(), figure.source),
            CallOutcome::Answered | CallOutcome::Task(_) => (figure.amount, figure.source),
            CallOutcome::Unknown(_) => {
                let source = match held.micro_usd > figure.amount.micro_usd {
                    true => CostSource::Held,
                    false => figure.source,
                };
                let tokens = if held.tokens == LEAST_TOKENS { 0 } else { held.tokens };
                (each(figure.amount, Amount { tokens, ..held }, u64::max), source)
            }
        };
        let due = each(due, Amount { micro_usd: MOST, tokens: MOST, tasks: MOST }, u64::min);
        let charged = self.pay(due);
        let overrun = each(due, charged, u64::saturating_sub);
        let at = self.plane.hands.now().into();
        let settled = Settled { at, charged, overrun, source, state: outcome.state() };
        let mut used = total.unwrap_or(before);
        let charged_before = before.cost_micro_usd.saturating_sub(overrun_before.micro_usd);
        used.cost_micro_usd = charged_before.saturating_add(charged.micro_usd);
        Settlement { settled, token_source: figure.token_source, used }
    }

    /// Has so much of what is due held as policy lets one call cost and every budget has room for. Says how much that is.
    fn pay(&self, due: Amount) -> Amount {
        let mut grants = self.grants.lock();
        let held = grants.reservation.as_ref().map_or(Amount::default(), |held| held.amount());
        let allowed = Amount {
            micro_usd: due.micro_usd.min(self.caps.micro_usd.unwrap_or(u64::MAX).max(held.micro_usd)),
            tokens: due.tokens.min(self.caps.tokens.unwrap_or(u64::MAX).max(held.tokens)),
            tasks: due.tasks,
        };
        // The budget has only observed, and not held anything.
        let Some(reservation) = &mut grants.reservation else { return allowed };
        let more = each(allowed, held, u64::saturating_sub);
        if !more.is_zero() && !self.tariff.is_untrusted() {
            reservation.extend_partly(more, self.plane.hands.now());
        }
        each(allowed, reservation.amount(), u64::min)
    }

    /// What is left when this has been charged.
    pub(super) fn remaining_after(&self, settled: &Settled) -> (Option<u64>, Option<u64>) {
        let grants = self.grants.lock();
        let Some(reservation) = &grants.reservation else { return (None, None) };
        let (left, held) = (reservation.remaining(Millis::from(settled.at)), reservation.amount());
        let after = |left: Option<u64>, held: u64, charged: u64| {
            left.map(|left| left.saturating_add(held).saturating_sub(charged))
        };
        (
            after(left.micro_usd, held.micro_usd, settled.charged.micro_usd),
            after(left.tokens, held.tokens, settled.charged.tokens),
        )
    }

    /// Whether so much is within what one call may use, and held.
    pub(super) fn afford(&self, used: Usage) -> Result<(), Denied> {
        let figure = self.tariff.charge(&self.estimate, Some((used, self.source)));
        let needed = figure.amount;
        let over = |cap: Option<u64>, needed: u64| cap.filter(|cap| needed > *cap);
        let capped = over(self.caps.micro_usd, needed.micro_usd)
            .map(|cap| (COST_LIMIT, cap, needed.micro_usd))
            .or_else(|| over(self.caps.tokens, needed.tokens).map(|cap| (TOKEN_LIMIT, cap, needed.tokens)));
        if let Some((reason, cap, needed)) = capped {
            let mut denied = Denied::new(POLICY, DeniedKind::Forbidden, reason);
            (denied.limit, denied.observed) = (Some(cap.to_string()), Some(needed.to_string()));
            denied.hint = Some("ask for less at a time, or have the policy raised".to_owned());
            return Err(denied);
        }
        let mut grants = self.grants.lock();
        let Some(reservation) = &mut grants.reservation else { return Ok(()) };
        let more = Amount { tasks: 0, ..each(needed, reservation.amount(), u64::saturating_sub) };
        if more.is_zero() || self.tariff.is_untrusted() {
            return Ok(());
        }
        reservation.extend(more, self.plane.hands.now()).map_err(Denied::from)?;
        drop(grants);
        self.has_grown();
        Ok(())
    }

    /// Charges what the call came to and gives back what it holds; only the first time.
    pub(super) fn book(&self, settled: &Settled) {
        if self.settled.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(held) = self.itself.get().filter(|_| is_waiting(settled)) {
            self.is_parked.store(true, Ordering::Release);
            self.plane.park(self.open.hop, held.clone());
        }
        // The moment that the record has.
        let now = Millis::from(settled.at);
        let Grants { key_claim, slots, watched, reservation } = {
            let mut grants = self.grants.lock();
            Grants {
                key_claim: grants.key_claim.take(),
                slots: std::mem::take(&mut grants.slots),
                watched: grants.watched.take(),
                reservation: grants.reservation.take(),
            }
        };
        drop((key_claim, slots));
        if let Some(watched) = watched {
            watched.ticket().cost(settled.charged.micro_usd);
        }
        if let Some(reservation) = reservation {
            reservation.settle(settled.charged, now);
        }
        if !settled.overrun.is_zero() {
            self.book_overrun(settled.overrun, now);
        }
        self.close();
        span::record(&self.span, &self.open, settled);
        self.plane.hands.booked(&Booked {
            hop: self.open.hop,
            root: self.open.root,
            depth: self.open.context.depth,
            trace: &self.trace,
            caller: &self.open.caller,
            agent: &self.open.agent,
            peer: self.open.peer.as_deref(),
            task: self.open.task(),
            opened: self.opened,
            settled,
        });
        let table = &self.plane.open;
        table.remove(&self.open);
        let following = match is_cut_short(settled) {
            true => table.cascade(&self.open),
            false => table.left_behind(&self.open),
        };
        let following = following.iter().filter_map(|hop| self.plane.held(hop.hop));
        following.for_each(|held| held.stop(None));
    }

    fn book_overrun(&self, overrun: Amount, now: Millis) {
        let (hop, agent) = (self.open.hop, &*self.open.agent);
        let Amount { micro_usd, tokens, .. } = overrun;
        tracing::warn!(
            %hop, agent, micro_usd, tokens,
            "agent `{agent}` reports more than its call could pay for"
        );
        charge(self.plane.overruns_of(&self.open.agent, now).as_slice(), overrun, now);
    }
}

/// The amount that something makes of two, metric by metric.
fn each(one: Amount, other: Amount, of: impl Fn(u64, u64) -> u64) -> Amount {
    Amount {
        micro_usd: of(one.micro_usd, other.micro_usd),
        tokens: of(one.tokens, other.tokens),
        tasks: of(one.tasks, other.tasks),
    }
}

/// What was used at most, of two reports.
pub(super) fn most(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    one.into_iter().chain(other).reduce(Usage::most)
}

pub(super) fn less(total: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: total.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: total.output_tokens.saturating_sub(before.output_tokens),
        cost_micro_usd: total.cost_micro_usd.saturating_sub(before.cost_micro_usd),
    }
}
