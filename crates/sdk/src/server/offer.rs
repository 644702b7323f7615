//! What can be put at a path: an agent of one's own, one that runs elsewhere, or anything else that answers calls.

use std::fmt;
use std::sync::Arc;

use chancery_protocol::{AgentCard, DynEndpoint, ProtocolBinding, Version};

use super::card::{Place, derive, derive_relayed};
use super::mount::Served;
use super::versions::{Omitted, Versions};
use crate::relay::Relay;
use crate::spec::{AgentSpec, name_problem};

/// Something that answers calls, and the path that it is to be found at: `/agents/{name}` unless said otherwise.
///
/// ```
/// # use chancery_sdk::{AgentSpec, Message, Offer, agent_fn};
/// let echo = agent_fn(|message: Message| async move { message.text().into_owned() });
/// let offer = Offer::from(AgentSpec::new("echo", echo)).at("/tools/echo");
/// assert_eq!((offer.name(), offer.path()), ("echo", "/tools/echo"));
/// ```
#[derive(Debug)]
pub struct Offer {
    pub(super) path: String,
    pub(super) what: Offered,
    pub(super) internal: bool,
    pub(super) omitted: Omitted,
}

/// What is put at a path.
pub(super) enum Offered {
    Agent(Box<AgentSpec>),
    Relay(Box<Relay>),
    Endpoint { name: Arc<str>, card: Box<AgentCard>, endpoint: Arc<dyn DynEndpoint> },
}

// === impl Offer ===

impl Offer {
    /// Anything that answers calls. What the card says of interfaces and authentication is written by the server. Tasks
    /// are the endpoint's own business.
    pub fn endpoint(name: impl Into<Arc<str>>, card: AgentCard, endpoint: Arc<dyn DynEndpoint>) -> Self {
        Offered::Endpoint { name: name.into(), card: Box::new(card), endpoint }.into()
    }

    /// At another path: empty for the root, else with a slash before and none behind.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Does not speak a version that the server otherwise speaks. Callers in it are told so, and the card does not name it.
    #[must_use]
    pub fn without_version(mut self, version: Version) -> Self {
        self.omitted.versions.push(version);
        self
    }

    /// Does not answer on a binding that the server otherwise has, and whose card does not name it.
    #[must_use]
    pub fn without_binding(mut self, binding: ProtocolBinding) -> Self {
        self.omitted.bindings.push(binding);
        self
    }

    /// For those alone whom the server's [`Guard`](super::Guard) takes for insiders. To everybody else it is not there.
    #[must_use]
    pub fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// The name that its tasks are kept under, which is also the tenant that leads to it.
    pub fn name(&self) -> &str {
        self.what.name()
    }

    /// Where it is to be found.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong with it, in words for the one who wrote it.
    pub(super) fn problems(&self, extends: bool, versions: &Versions) -> Vec<String> {
        let mut problems = self.what.problems();
        let path = &self.path;
        if !path.is_empty() && (!path.starts_with('/') || path.ends_with('/')) {
            problems.push(format!("the path `{path}` must begin with a slash and not end with one"));
        }
        if let Some(none) = versions.without(&self.omitted).problem() {
            problems.push(format!("agent `{}`: {none}", self.name()));
        }
        let is_extended = matches!(&self.what, Offered::Agent(spec) if spec.extended_card.is_some());
        if is_extended && !extends {
            problems.push(format!(
                "agent `{}` has an extended card and nobody is authenticated; add `authenticate`, or allow it with `anonymous_extended_card`",
                self.name()
            ));
        }
        problems
    }
}

impl From<AgentSpec> for Offer {
    fn from(agent: AgentSpec) -> Self {
        Offered::Agent(Box::new(agent)).into()
    }
}

impl From<Relay> for Offer {
    fn from(relay: Relay) -> Self {
        Offered::Relay(Box::new(relay)).into()
    }
}

impl From<Offered> for Offer {
    fn from(what: Offered) -> Self {
        Self { path: format!("/agents/{}", what.name()), what, internal: false, omitted: Omitted::default() }
    }
}

// === impl Offered ===

impl Offered {
    pub(super) fn name(&self) -> &Arc<str> {
        match self {
            Self::Agent(spec) => &spec.name,
            Self::Relay(relay) => &relay.name,
            Self::Endpoint { name, .. } => name,
        }
    }

    pub(super) fn pushes(&self) -> bool {
        match self {
            Self::Agent(spec) => spec.push_notifications,
            Self::Relay(relay) => relay.push_notifications,
            Self::Endpoint { .. } => false,
        }
    }

    pub(super) fn card(&self, place: &Place) -> AgentCard {
        match self {
            Self::Agent(spec) => derive(spec, place),
            Self::Relay(relay) => derive_relayed(relay, &relay.card_seen(), place),
            Self::Endpoint { card, .. } => {
                let mut card = AgentCard::clone(card);
                place.put_to(&mut card);
                card
            }
        }
    }

    /// Whether what it will be served by keeps its tasks as this does.
    pub(super) fn is_like(&self, served: &Served) -> bool {
        match (self, served) {
            (Self::Agent(_), Served::Agent(runtime)) => !runtime.is_remote(),
            (Self::Relay(_), Served::Agent(runtime)) => runtime.is_remote(),
            _ => false,
        }
    }

    fn problems(&self) -> Vec<String> {
        match self {
            Self::Agent(spec) => spec.problems(),
            Self::Relay(relay) => name_problem(&relay.name).into_iter().collect(),
            Self::Endpoint { name, .. } => name_problem(name).into_iter().collect(),
        }
    }
}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offered").field(self.name()).finish()
    }
}
