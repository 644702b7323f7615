//! The agents of a configuration, made ready to be put at their paths: many at a time, since those elsewhere are asked for
//! their cards.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_control::Governed;
use chancery_control::routing::Reach;
use chancery_protocol::BoxFuture;
use chancery_sdk::Offer;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::health::{Asked, Trouble};
use crate::config::AgentSection;
use crate::kinds::{self, Built, Surroundings};
use crate::limits::InputLimits;

/// How many are made at a time.
const AT_A_TIME: usize = 128;

/// Agents that are ready, in the order of their sections.
#[derive(Default)]
pub(crate) struct Agents {
    pub(crate) offers: Vec<Offer>,
    /// The same as the gates know them.
    pub(crate) governed: Vec<Arc<Governed>>,
    /// How those elsewhere are asked how they are, by name.
    pub(crate) asked: HashMap<String, Arc<Asked>>,
    /// Those that cannot answer, by name, and why.
    pub(crate) absent: HashMap<Arc<str>, Trouble>,
}

/// Makes what sections say.
pub(crate) async fn build(sections: Vec<AgentSection>, surroundings: Surroundings) -> anyhow::Result<Agents> {
    let surroundings = Arc::new(surroundings);
    let being_built: Vec<_> =
        sections.into_iter().map(|section| one(section, surroundings.clone())).collect();
    let built = futures_util::stream::iter(being_built).buffered(AT_A_TIME);
    let built: Vec<_> = built.try_collect().await?;
    let mut agents = Agents::default();
    for (section, built) in built {
        let name: Arc<str> = section.name.as_str().into();
        let governed = Arc::new(govern(&section, &built, &surroundings));
        agents.governed.push(governed.clone());
        let limits = InputLimits::of(&section).extension();
        let offer = match built {
            Built::Agent(spec) => Offer::from(spec.extension(limits)),
            Built::Absent(spec, why) => {
                agents.absent.insert(name, why);
                Offer::from(spec.extension(limits))
            }
            Built::Relay(relay) => {
                let asked = Asked::new(&section, relay.clients(), governed);
                agents.asked.insert(section.name.clone(), Arc::new(asked));
                Offer::from(relay.extension(limits))
            }
        };
        let offer = section
            .without_versions
            .iter()
            .fold(offer, |offer, version| offer.without_version(version.of_protocol()));
        let offer = section
            .without_bindings
            .iter()
            .fold(offer, |offer, binding| offer.without_binding(binding.of_protocol()));
        agents.offers.push(if section.exposed { offer } else { offer.internal() });
    }
    Ok(agents)
}

/// An agent as the gates know it.
fn govern(section: &AgentSection, built: &Built, surroundings: &Surroundings) -> Governed {
    let (name, is_local): (Arc<str>, _) = (section.name.as_str().into(), !section.kind.is_elsewhere());
    let pool = surroundings.pools.get(&section.name).cloned();
    let is_alone = !is_local && pool.is_none();
    let reach = is_alone.then(|| Reach::new(name.clone(), surroundings.breaker));
    let skills = built.skills(section).into_iter().collect();
    Governed { name, skills, pool, reach, is_local }
}

/// Owns what it is made of, so that many can be made on one task that anything can wait for.
fn one(
    section: AgentSection,
    surroundings: Arc<Surroundings>,
) -> BoxFuture<'static, anyhow::Result<(AgentSection, Built)>> {
    Box::pin(async move {
        let built = kinds::build(&section, &surroundings).await?;
        Ok((section, built))
    })
}
