//! Selectors by name, for configurations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::{
    CapabilityMatch, Chained, CheapestUnderLatency, LowestLatency, PeerSelector, PowerOfTwoChoices,
    RoundRobin,
};

/// What the selectors of this crate can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectorSettings {
    /// For `cheapest_under_latency`: how long a peer may take to say something.
    pub latency_budget: Duration,
    /// For `round_robin` and `power_of_two_choices`: where to begin.
    pub seed: u64,
}

/// The selectors that can be named.
///
/// ```
/// use chancery_control::routing::{SelectorSettings, Selectors};
///
/// let selectors = Selectors::default();
/// let chain = selectors.chain(&["cheapest_under_latency", "lowest_latency"], &SelectorSettings::default());
/// assert_eq!(chain.unwrap().name(), "cheapest_under_latency, else lowest_latency");
///
/// let unknown = selectors.make("lowest_latancy", &SelectorSettings::default()).unwrap_err();
/// assert_eq!(unknown.nearest.as_deref(), Some("lowest_latency"));
/// ```
#[derive(Clone)]
pub struct Selectors {
    known: BTreeMap<String, Maker>,
}

/// A selector of a name that nobody has registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct UnknownSelector {
    /// The name.
    pub name: String,
    /// The one that was probably meant.
    pub nearest: Option<String>,
    /// Those that there are.
    pub known: Vec<String>,
}

type Maker = Arc<dyn Fn(&SelectorSettings) -> Arc<dyn PeerSelector> + Send + Sync>;

/// How much alike two names must be for one to be meant for the other.
const ALIKE: f64 = 0.8;

// === impl SelectorSettings ===

impl Default for SelectorSettings {
    fn default() -> Self {
        Self { latency_budget: Duration::from_secs(2), seed: 0 }
    }
}

// === impl Selectors ===

/// Those of this crate.
impl Default for Selectors {
    fn default() -> Self {
        let mut selectors = Self { known: BTreeMap::new() };
        selectors.register("cheapest_under_latency", |settings| {
            Arc::new(CheapestUnderLatency { budget: settings.latency_budget })
        });
        selectors.register("lowest_latency", |_| Arc::new(LowestLatency));
        selectors.register("round_robin", |settings| Arc::new(RoundRobin { seed: settings.seed }));
        selectors.register("capability_match", |_| Arc::new(CapabilityMatch));
        selectors
            .register("power_of_two_choices", |settings| Arc::new(PowerOfTwoChoices { seed: settings.seed }));
        selectors
    }
}

impl Selectors {
    /// Adds one. What had the name before is replaced.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        make: impl Fn(&SelectorSettings) -> Arc<dyn PeerSelector> + Send + Sync + 'static,
    ) {
        self.known.insert(name.into(), Arc::new(make));
    }

    /// The names that there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// The selector of this name.
    pub fn make(
        &self,
        name: &str,
        settings: &SelectorSettings,
    ) -> Result<Arc<dyn PeerSelector>, UnknownSelector> {
        match self.known.get(name) {
            Some(make) => Ok(make(settings)),
            None => Err(self.unknown(name)),
        }
    }

    /// The first of these, the next if that finds nobody, and so on. There must be one at least.
    pub fn chain(
        &self,
        names: &[&str],
        settings: &SelectorSettings,
    ) -> Result<Arc<dyn PeerSelector>, UnknownSelector> {
        let Some((last, before)) = names.split_last() else { return Err(self.unknown("")) };
        let mut chain = self.make(last, settings)?;
        for name in before.iter().rev() {
            chain = Arc::new(Chained::new(self.make(name, settings)?, chain));
        }
        Ok(chain)
    }

    fn unknown(&self, name: &str) -> UnknownSelector {
        let alike = self.names().map(|known| (strsim::jaro_winkler(name, known), known));
        let best =
            alike.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(likeness, _)| *likeness >= ALIKE);
        UnknownSelector {
            name: name.to_owned(),
            nearest: best.map(|(_, known)| known.to_owned()),
            known: self.names().map(str::to_owned).collect(),
        }
    }
}

impl fmt::Debug for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

// === impl UnknownSelector ===

impl fmt::Display for UnknownSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no selector `{}`", self.name)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        write!(f, " Known are: {}", self.known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_selector_of_that_name() {
        let selectors = Selectors::default();
        for name in selectors.names() {
            assert_eq!(selectors.make(name, &SelectorSettings::default()).unwrap().name(), name);
        }
        assert_eq!(selectors.names().count(), 5);
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_what_there_is() {
        let selectors = Selectors::default();
        let unknown = selectors.chain(&["round_robin", "roundrobin"], &SelectorSettings::default());
        assert_eq!(
            unknown.unwrap_err().to_string(),
            "there is no selector `roundrobin`; did you mean `round_robin`? Known are: capability_match, \
             cheapest_under_latency, lowest_latency, power_of_two_choices, round_robin"
        );
        let strange = selectors.make("zzz", &SelectorSettings::default()).unwrap_err();
        assert_eq!(strange.nearest, None);
        assert!(selectors.chain(&[], &SelectorSettings::default()).is_err());
    }

    #[test]
    fn an_application_can_add_its_own() {
        let mut selectors = Selectors::default();
        selectors.register("mine", |_| Arc::new(LowestLatency));
        assert!(selectors.make("mine", &SelectorSettings::default()).is_ok());
    }
}
