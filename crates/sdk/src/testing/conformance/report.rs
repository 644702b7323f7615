//! What a conformance run has found.

use std::fmt;

/// What came of each check.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    /// Where the agent is.
    pub url: String,
    /// The checks, in the order in which they ran.
    pub checks: Vec<Checked>,
}

/// A check that ran.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it is called, such as `list.pages`.
    pub id: &'static str,
    /// What holds for every correct agent.
    pub statement: &'static str,
    /// How binding that is.
    pub level: Level,
    /// Which interface it was tried on, such as `JSONRPC`; `card` for the card.
    pub interface: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// How binding a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An agent that breaks it does not conform.
    Must,
    /// An agent that breaks it has a reason, or should not.
    Should,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not: what was seen instead.
    Failed(String),
    /// It was not tried: why not.
    Skipped(String),
}

/// Why a check ends early.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Failed(String),
    Skipped(String),
}

/// How a check ends.
pub(super) type Outcome = Result<(), Stop>;

/// It does not hold.
pub(super) fn failed<T>(seen: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(seen.into()))
}

/// It cannot be tried.
pub(super) fn skipped<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skipped(why.into()))
}

/// It holds only if this does.
pub(super) fn ensure(holds: bool, seen: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { failed(seen()) }
}

// === impl Report ===

impl Report {
    /// The checks that failed, of this level or a more binding one.
    pub fn failures(&self, level: Level) -> impl Iterator<Item = &Checked> {
        let failed = |checked: &&Checked| matches!(checked.verdict, Verdict::Failed(_));
        self.checks.iter().filter(move |checked| checked.level <= level).filter(failed)
    }

    /// Whether nothing failed that must hold.
    pub fn is_conformant(&self) -> bool {
        self.failures(Level::Must).next().is_none()
    }

    /// Fails the test unless the agent conforms.
    ///
    /// # Panics
    ///
    /// If a check failed that must hold; the text lists them.
    pub fn assert(&self) {
        let failures: Vec<_> = self.failures(Level::Must).map(|checked| format!("  {checked}")).collect();
        if !failures.is_empty() {
            panic!("{} does not conform:\n{}", self.url, failures.join("\n"));
        }
    }

    pub(super) fn add(&mut self, checked: Checked) {
        self.checks.push(checked);
    }
}

/// A table, and how many there are of each.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&Checked) -> usize| self.checks.iter().map(text).max().unwrap_or_default();
        let (names, interfaces) =
            (width(|checked| checked.id.len()), width(|checked| checked.interface.len()));
        let (mut passed, mut skipped) = (0, 0);
        writeln!(f, "{}", self.url)?;
        for checked in &self.checks {
            let (word, why) = match &checked.verdict {
                Verdict::Passed => ("passed", ""),
                Verdict::Failed(seen) => (checked.failed_word(), seen.as_str()),
                Verdict::Skipped(why) => ("skipped", why.as_str()),
            };
            passed += usize::from(checked.verdict == Verdict::Passed);
            skipped += usize::from(matches!(checked.verdict, Verdict::Skipped(_)));
            let Checked { id, interface, statement, .. } = checked;
            writeln!(f, "{word:<7}  {interface:<interfaces$}  {id:<names$}  {statement}")?;
            if !why.is_empty() {
                writeln!(f, "         {why}")?;
            }
        }
        let failed = self.checks.len() - passed - skipped;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

// === impl Checked ===

impl Checked {
    fn failed_word(&self) -> &'static str {
        match self.level {
            Level::Must => "FAILED",
            Level::Should => "failed",
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, interface, statement, verdict, .. } = self;
        match verdict {
            Verdict::Passed => write!(f, "{interface} {id}: {statement}: passed"),
            Verdict::Failed(seen) => write!(f, "{interface} {id}: {statement}: {seen}"),
            Verdict::Skipped(why) => write!(f, "{interface} {id}: {statement}: skipped: {why}"),
        }
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Passed,
            Err(Stop::Failed(seen)) => Self::Failed(seen),
            Err(Stop::Skipped(why)) => Self::Skipped(why),
        }
    }
}
