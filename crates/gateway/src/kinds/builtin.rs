//! Agents that come with Chancery, by their names.

use anyhow::Context as _;
use chancery_sdk::AgentSpec;

use crate::config::AgentSection;
use crate::demo;

pub(super) fn build(section: &AgentSection) -> anyhow::Result<AgentSpec> {
    let name = &section.name;
    demo::agents()
        .find(|spec| spec.name() == name)
        .with_context(|| format!("there is no builtin agent `{name}`"))
}
