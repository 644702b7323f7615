//! What is wrong with a configuration: where, what, and what to do about it.

use std::fmt;

use super::document::Origin;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Origin,
    /// The keys that lead there, such as `budget.global.overflow`; empty if the file cannot be read at all.
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub(crate) struct BadConfig(pub(crate) Vec<Problem>);

impl Problem {
    pub(crate) fn new(place: Origin, path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place, path: path.into(), what: what.into(), hint: None }
    }

    /// From the top of the file to its end.
    pub(crate) fn in_order(mut problems: Vec<Self>) -> Vec<Self> {
        problems.sort_by(|one, other| one.place.cmp(&other.place));
        problems
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, one) = (self.0.len(), self.0.len() == 1);
        write!(f, "the configuration has {all} problem{}", if one { "" } else { "s" })?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for BadConfig {}

/// The one of several names that a mistyped one was most likely meant to be.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_is_known_and_another_word_is_not() {
        let known = ["max_call_depth", "deny_revisit", "mode"];
        assert_eq!(nearest("max_cal_depth", known.into_iter()), Some("max_call_depth"));
        assert_eq!(nearest("deny_revisits", known.into_iter()), Some("deny_revisit"));
        assert_eq!(nearest("colour", known.into_iter()), None);
    }
}
