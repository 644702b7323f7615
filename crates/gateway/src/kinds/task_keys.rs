//! Credentials for one turn: with it a program that the gateway runs calls other agents, and cannot lose on whose behalf.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use anyhow::anyhow;
use chancery_control::identity::within_call;
use chancery_protocol::{Caller, Identity, Proof};
use chancery_sdk::Turn;
use parking_lot::Mutex;

/// What such a credential begins with, so that it is not taken for another.
const PREFIX: &str = "chancery-turn-";

/// The credentials that are good now, and where they are good.
#[derive(Default)]
pub(crate) struct TaskKeys {
    url: OnceLock<String>,
    keys: Mutex<HashMap<String, Caller>>,
}

/// A credential for one turn. Dropped, it is good for nothing.
pub(crate) struct TaskKey {
    keys: Arc<TaskKeys>,
    text: String,
}

impl TaskKeys {
    /// Says where the gateway can be reached from this machine, once that is known; if it has no address, nobody can be told.
    pub(crate) fn serves(&self, url: Option<String>) {
        let Some(url) = url else { return };
        let _ = self.url.set(url);
    }

    /// Where the gateway can be reached from this machine.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.get().map(String::as_str)
    }

    /// Makes a credential for a turn of an agent. Whoever has it acts for the call that the turn answers, and has nothing of
    /// whoever made that.
    pub(crate) fn issue(self: &Arc<Self>, agent: &Arc<str>, turn: &Turn) -> anyhow::Result<TaskKey> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| anyhow!("there is no randomness: {error}"))?;
        let text = bytes.iter().fold(PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}"));
        let (Some(call), Some(lineage)) = (turn.call_id(), turn.lineage()) else {
            return Err(anyhow!("the turn answers no call that was let through"));
        };
        let identity = Identity {
            proof: Proof::Application,
            agent: Some(agent.clone()),
            lineage: Some(lineage.into()),
            ..Identity::default()
        };
        let caller = Caller {
            principal: within_call(&turn.principal().realm, call, agent),
            identity: Arc::new(identity),
        };
        self.keys.lock().insert(text.clone(), caller);
        Ok(TaskKey { keys: self.clone(), text })
    }

    /// Whose credential an `Authorization` header holds, if it is one of these and still good.
    pub(crate) fn caller(&self, authorization: &str) -> Option<Caller> {
        let (scheme, token) = authorization.split_once(' ')?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || !token.starts_with(PREFIX) {
            return None;
        }
        self.keys.lock().get(token).cloned()
    }
}

impl TaskKey {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for TaskKey {
    fn drop(&mut self) {
        self.keys.keys.lock().remove(&self.text);
    }
}
