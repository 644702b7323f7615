//! What the gates would say to a call, as something to read.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{Denied, Operation};

use crate::gate::Verdict;
use crate::terms::Mode;

/// What would become of a call, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The agent that would be called.
    pub agent: Arc<str>,
    /// What would be asked of it.
    pub operation: Operation,
    /// Gate by gate, up to the one that refuses.
    pub gates: Vec<GateReport>,
}

/// What one gate would say.
#[derive(Clone, Debug)]
pub struct GateReport {
    /// The gate.
    pub gate: &'static str,
    /// Whether what it refuses is refused.
    pub mode: Mode,
    /// What it would refuse the call for.
    pub denied: Option<Denied>,
    /// Whether it would let the call wait.
    pub waits: bool,
    /// The rules and limits that it goes by, and what is left of them.
    pub notes: Vec<String>,
}

impl Explanation {
    /// Why the call would be refused; none if it would be let through.
    pub fn denied(&self) -> Option<&Denied> {
        self.gates.last().filter(|report| report.refuses())?.denied.as_ref()
    }
}

impl GateReport {
    pub(crate) fn new(gate: &'static str, mode: Mode, verdict: Verdict, notes: Vec<String>) -> Self {
        let (denied, waits) = match verdict {
            Verdict::Admit => (None, false),
            Verdict::Deny(denied) => (Some(denied), false),
            Verdict::Wait(_) | Verdict::Queue(_) => (None, true),
        };
        Self { gate, mode, denied, waits, notes }
    }

    /// Whether the call ends here.
    pub fn refuses(&self) -> bool {
        self.denied.is_some() && self.mode == Mode::Enforce
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.gates {
            let verdict = match (&report.denied, report.mode, report.waits) {
                (None, _, false) => "passes".to_owned(),
                (None, _, true) => "may wait".to_owned(),
                (Some(denied), Mode::Enforce, _) => format!("refuses: {}", denied.reason),
                (Some(denied), Mode::Observe, _) => format!("would refuse: {}", denied.reason),
            };
            writeln!(f, "{}: {verdict}", report.gate)?;
            report.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))?;
            if let Some(hint) = report.denied.as_ref().and_then(|denied| denied.hint.as_ref()) {
                writeln!(f, "  hint: {hint}")?;
            }
        }
        match self.denied() {
            Some(denied) => write!(f, "verdict: {denied}"),
            None => f.write_str("verdict: admitted"),
        }
    }
}
