//! Agents that come with Chancery, by their names.

use std::sync::Arc;

use anyhow::Context as _;
use chancery_sdk::AgentSpec;

use super::{Neighbours, provenance};
use crate::config::AgentSection;
use crate::demo;

pub(super) fn build(section: &AgentSection, neighbours: &Arc<Neighbours>) -> anyhow::Result<AgentSpec> {
    let name = &section.name;
    let found = demo::agents(neighbours).find(|spec| spec.name() == name);
    Ok(found.with_context(|| format!("there is no builtin agent `{name}`"))?.extension(provenance(section)?))
}
