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
use std::sync::{Arc, Weak};

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

/// The inboxes of a gateway, by the name of the agent. Each is there for as long as an agent has it, or a turn of one.
pub(crate) struct Inboxes {
    store: Arc<Store>,
    keepers: RwLock<HashMap<String, Weak<Keeper>>>,
}

/// Has a desk, which closes when nobody has this any more.
struct Keeper(Arc<Desk>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Inboxes {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, keepers: RwLock::default() }
    }

    fn find(&self, name: &str) -> Option<Arc<Desk>> {
        Some(self.keepers.read().get(name)?.upgrade()?.0.clone())
    }

    /// The keeper of an agent's desk, if there is one already, or a new one.
    fn keeper(&self, name: &str) -> Arc<Keeper> {
        let mut keepers = self.keepers.write();
        keepers.retain(|_, keeper| keeper.strong_count() > 0);
        if let Some(known) = keepers.get(name).and_then(Weak::upgrade) {
            return known;
        }
        let keeper = Arc::new(Keeper(Arc::new(Desk::new(self.store.clone()))));
        keepers.insert(name.to_owned(), Arc::downgrade(&keeper));
        keeper
    }
}

/// An agent whose tasks wait here. One that takes the place of another finds the tasks of that one.
pub(super) fn build(section: &AgentSection, inboxes: &Inboxes) -> anyhow::Result<AgentSpec> {
    let (name, limits) = (section.name.as_str(), section.inbox.unwrap_or_default());
    let keeper = inboxes.keeper(name);
    keeper.0.limit(limits);
    let base = format!("/agents/{name}/inbox");
    let paths = json!({
        "sse_path": format!("{base}/stream"),
        "events_path": format!("{base}/tasks/{{taskId}}/events"),
        "result_path": format!("{base}/tasks/{{taskId}}/result"),
    });
    Ok(described(section, InboxAgent::new(keeper, limits), Modes::default(), json!({"runtime": "inbox"}))?
        .extension(AgentExtension::new(INBOX_EXTENSION).params(JsonObject::from_value(&paths)?))
        .turn_timeout(agent::LONGEST))
}
