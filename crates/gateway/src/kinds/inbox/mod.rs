//! Agents that cannot be reached: their tasks wait in an inbox until they come for them
//! ([ADR 0031](../../../../../docs/adr/0031-inbox.md)).
//!
//! | file | holds |
//! |---|---|
//! | `desk` | the tasks that wait and those that were given out, by lease |
//! | `agent` | the turn of a task: waits for what the agent elsewhere has to say |
//! | `routes` | where the agent reads and writes |
//! | `wire` | what goes over the wire |

mod agent;
mod desk;
mod routes;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use chancery_protocol::AgentExtension;
use chancery_sdk::{AgentSpec, JsonObject};
use chancery_store::Store;
use parking_lot::RwLock;
use serde_json::json;

use super::{Modes, described};
use crate::config::AgentSection;
use agent::InboxAgent;
use desk::Desk;

pub(crate) use routes::InboxRoutes;

/// The extension by which a card says where the agent comes for its tasks.
const INBOX_EXTENSION: &str = "urn:chancery:ext:inbox:v1";

/// The inboxes of a gateway, by the name of the agent.
pub(crate) struct Inboxes {
    store: Arc<Store>,
    desks: RwLock<HashMap<String, Arc<Desk>>>,
}

impl Inboxes {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, desks: RwLock::default() }
    }

    fn find(&self, name: &str) -> Option<Arc<Desk>> {
        self.desks.read().get(name).cloned()
    }
}

/// An agent whose tasks wait here. One that takes the place of another finds the tasks of that one.
pub(super) fn build(section: &AgentSection, inboxes: &Inboxes) -> anyhow::Result<AgentSpec> {
    let (name, limits) = (section.name.as_str(), section.inbox.unwrap_or_default());
    let desk = {
        let mut desks = inboxes.desks.write();
        desks.entry(name.to_owned()).or_insert_with(|| Arc::new(Desk::new(inboxes.store.clone()))).clone()
    };
    desk.limit(limits);
    let base = format!("/agents/{name}/inbox");
    let paths = json!({
        "sse_path": format!("{base}/stream"),
        "events_path": format!("{base}/tasks/{{taskId}}/events"),
        "result_path": format!("{base}/tasks/{{taskId}}/result"),
    });
    Ok(described(section, InboxAgent::new(desk, limits), Modes::default(), json!({"runtime": "inbox"}))?
        .extension(AgentExtension::new(INBOX_EXTENSION).params(JsonObject::from_value(&paths)?))
        .turn_timeout(agent::LONGEST))
}
