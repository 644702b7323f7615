//! What is said about an agent, and how it is to be run. The card is derived from this and from where the
//! agent is really mounted, so it cannot promise what is not there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{AgentCard, AgentExtension, AgentProvider, AgentSkill, Principal};

use crate::agent::{Agent, AnyAgent};

/// An agent together with its description.
///
/// ```
/// use chancery_sdk::{AgentSkill, AgentSpec, Message, agent_fn};
///
/// let echo = AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }))
///     .description("Says what it is told")
///     .skill(AgentSkill::new("echo", "Echo", "Repeats a text").tag("demo"));
/// ```
#[derive(Clone)]
pub struct AgentSpec {
    pub(crate) name: Arc<str>,
    pub(crate) agent: Arc<dyn AnyAgent>,
    pub(crate) works_elsewhere: bool,
    pub(crate) refreshes: bool,
    pub(crate) description: String,
    pub(crate) version: String,
    pub(crate) provider: Option<AgentProvider>,
    pub(crate) documentation_url: Option<String>,
    pub(crate) skills: Vec<AgentSkill>,
    pub(crate) input_modes: Vec<String>,
    pub(crate) output_modes: Vec<String>,
    pub(crate) extensions: Vec<AgentExtension>,
    pub(crate) streaming: bool,
    pub(crate) push_notifications: bool,
    pub(crate) extended_card: Option<ExtendedCard>,
    pub(crate) turn_timeout: Duration,
    pub(crate) blocking_timeout: Duration,
}

/// Makes the extended card for a caller out of the public one.
pub(crate) type ExtendedCard = Arc<dyn Fn(&Principal, AgentCard) -> AgentCard + Send + Sync>;

impl AgentSpec {
    /// Describes an agent. The name is its address: lower-case letters, digits and dashes.
    pub fn new(name: impl Into<String>, agent: impl Agent) -> Self {
        let name: String = name.into();
        Self {
            description: format!("The {name} agent"),
            name: name.into(),
            works_elsewhere: agent.works_elsewhere(),
            refreshes: agent.refreshes(),
            agent: Arc::new(agent),
            version: "1.0.0".to_owned(),
            provider: None,
            documentation_url: None,
            skills: Vec::new(),
            input_modes: vec!["*/*".to_owned()],
            output_modes: vec!["text/plain".to_owned()],
            extensions: Vec::new(),
            streaming: true,
            push_notifications: true,
            extended_card: None,
            turn_timeout: Duration::from_secs(60 * 60),
            blocking_timeout: Duration::from_secs(10 * 60),
        }
    }

    /// What the agent is good for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The version of the agent itself.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Who runs the agent, and where to read about them.
    #[must_use]
    pub fn provider(mut self, organization: impl Into<String>, url: impl Into<String>) -> Self {
        self.provider = Some(AgentProvider { organization: organization.into(), url: url.into() });
        self
    }

    /// Where to read about the agent.
    #[must_use]
    pub fn documentation_url(mut self, url: impl Into<String>) -> Self {
        self.documentation_url = Some(url.into());
        self
    }

    /// Something the agent can do.
    #[must_use]
    pub fn skill(mut self, skill: AgentSkill) -> Self {
        self.skills.push(skill);
        self
    }

    /// The media types it takes. A message with a part of another type is refused.
    #[must_use]
    pub fn input_modes<'m>(mut self, modes: impl IntoIterator<Item = &'m str>) -> Self {
        self.input_modes = modes.into_iter().map(str::to_owned).collect();
        self
    }

    /// The media types it gives.
    #[must_use]
    pub fn output_modes<'m>(mut self, modes: impl IntoIterator<Item = &'m str>) -> Self {
        self.output_modes = modes.into_iter().map(str::to_owned).collect();
        self
    }

    /// An extension it understands. If required, calls that do not activate it are refused.
    #[must_use]
    pub fn extension(mut self, extension: AgentExtension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Whether the agent's events are posted to those who ask for it. They are unless said otherwise, wherever the
    /// server can.
    #[must_use]
    pub fn push_notifications(mut self, push_notifications: bool) -> Self {
        self.push_notifications = push_notifications;
        self
    }

    /// Whether streams are served; they are unless switched off.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Offers an extended card, made out of the public one for each caller.
    #[must_use]
    pub fn extended_card(
        mut self,
        make: impl Fn(&Principal, AgentCard) -> AgentCard + Send + Sync + 'static,
    ) -> Self {
        self.extended_card = Some(Arc::new(make));
        self
    }

    /// How long one turn may take before its task fails; an hour unless said otherwise.
    #[must_use]
    pub fn turn_timeout(mut self, timeout: Duration) -> Self {
        self.turn_timeout = timeout;
        self
    }

    /// How long a blocking send may wait before it answers with the task as it stands; ten minutes unless
    /// said otherwise. The turn goes on.
    #[must_use]
    pub fn blocking_timeout(mut self, timeout: Duration) -> Self {
        self.blocking_timeout = timeout;
        self
    }

    /// The ids of what the agent can do.
    pub fn skill_ids(&self) -> impl Iterator<Item = &str> {
        self.skills.iter().map(|skill| skill.id.as_str())
    }

    /// The name that is its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whatever would make it unusable, in words for the one who wrote it.
    #[cfg(feature = "server")]
    pub(crate) fn problems(&self) -> Vec<String> {
        let name = &self.name;
        let mut problems = Vec::from_iter(name_problem(name));
        if self.description.is_empty() {
            problems.push(format!("agent `{name}`: the description is empty"));
        }
        if self.version.is_empty() {
            problems.push(format!("agent `{name}`: the version is empty"));
        }
        if self.input_modes.is_empty() || self.output_modes.is_empty() {
            problems
                .push(format!("agent `{name}`: there must be at least one input mode and one output mode"));
        }
        if self.turn_timeout.is_zero() || self.blocking_timeout.is_zero() {
            problems.push(format!("agent `{name}`: a timeout of zero ends every turn at once"));
        }
        problems.extend(twice(self.skills.iter().map(|skill| skill.id.as_str()), name, "skill"));
        problems.extend(twice(
            self.extensions.iter().map(|extension| extension.uri.as_str()),
            name,
            "extension",
        ));
        problems
    }
}

/// What is wrong with the name of an agent, if anything is.
#[cfg(feature = "server")]
pub(crate) fn name_problem(name: &str) -> Option<String> {
    (!is_agent_name(name)).then(|| {
        format!(
            "agent `{name}`: a name has 1 to 63 lower-case letters, digits and dashes and does not begin with a dash"
        )
    })
}

#[cfg(feature = "server")]
fn twice<'a>(ids: impl Iterator<Item = &'a str>, name: &str, what: &str) -> Vec<String> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    let empty =
        ids.first().is_some_and(|id| id.is_empty()).then(|| format!("agent `{name}`: a {what} without id"));
    let doubled = ids.windows(2).filter(|pair| pair[0] == pair[1]);
    empty
        .into_iter()
        .chain(doubled.map(|pair| format!("agent `{name}`: {what} `{}` twice", pair[0])))
        .collect()
}

/// Whether a text can be the name of an agent, which is also a path segment and a tenant.
pub fn is_agent_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

impl fmt::Debug for AgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSpec")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
