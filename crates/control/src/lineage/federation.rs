//! Other gateways: the keys that this one and they are known by, and how agents are named among them.
//!
//! A gateway is known by its [`AgentId`], a digest of its Ed25519 key, which its tokens carry: nothing but ids has to be listed.
//! An agent with a key of its own that is listed is known by that wherever it is served; any other as `GATEWAY-ID#name`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use chancery_protocol::HopId;
use chancery_protocol::signing::{AgentId, AgentKey};
use sha2::{Digest as _, Sha256};

use super::context::Visited;
use crate::Millis;

/// As many other gateways can be listed: each is named in every token.
pub const MOST_GATEWAYS: usize = 16;

/// Stands between a gateway and its agent. No agent's name has it.
const OF_GATEWAY: char = '#';
/// What other gateways call an agent is no longer than this.
const LONGEST_NAME: usize = 192;

/// The gateways that this one shares lineage with, and what it is known by to them.
pub struct Federation {
    own: ArcSwap<OwnKey>,
    /// Their names here.
    gateways: BTreeMap<AgentId, Arc<str>>,
    /// Agents of this fleet that have keys of their own.
    agents: BTreeMap<Arc<str>, AgentId>,
}

/// The key that this gateway signs with, and the ids that it had before, each until some time.
pub struct OwnKey {
    pub(super) key: AgentKey,
    pub(super) id: AgentId,
    earlier: Vec<(AgentId, Millis)>,
}

/// Who has signed a token.
pub(super) enum Author<'a> {
    /// This gateway itself.
    Own,
    /// Another one that is listed, by its name here.
    Listed(&'a Arc<str>),
    Unknown,
}

// === impl Federation ===

impl Federation {
    /// With the gateways that are listed, by their names here, and the agents of this fleet that have keys of their own.
    pub fn new(
        own: OwnKey,
        gateways: impl IntoIterator<Item = (AgentId, Arc<str>)>,
        agents: impl IntoIterator<Item = (Arc<str>, AgentId)>,
    ) -> Self {
        Self {
            own: ArcSwap::from_pointee(own),
            gateways: gateways.into_iter().take(MOST_GATEWAYS).collect(),
            agents: agents.into_iter().collect(),
        }
    }

    /// Signs with another key from now on.
    pub fn change_key(&self, own: OwnKey) {
        self.own.store(Arc::new(own));
    }

    /// Whether any other gateway is to read the tokens of this one.
    pub(super) fn is_shared(&self) -> bool {
        !self.gateways.is_empty()
    }

    pub(super) fn own(&self) -> Arc<OwnKey> {
        self.own.load_full()
    }

    pub(super) fn listed(&self) -> impl Iterator<Item = &AgentId> {
        self.gateways.keys()
    }

    pub(super) fn author(&self, id: &AgentId, now: Millis) -> Author<'_> {
        match self.gateways.get(id) {
            _ if self.is_own(id, now) => Author::Own,
            Some(name) => Author::Listed(name),
            None => Author::Unknown,
        }
    }

    /// Whether this gateway is, or was until lately, known by this id.
    pub(super) fn is_own(&self, id: &AgentId, now: Millis) -> bool {
        let own = self.own.load();
        own.id == *id || own.earlier.iter().any(|(earlier, until)| earlier == id && *until > now)
    }

    /// The agents on a way as other gateways know them, the last one first: of a pool also the member.
    pub(super) fn names_abroad<'n>(
        &'n self,
        own: &'n OwnKey,
        way: &'n Visited,
    ) -> impl Iterator<Item = String> + 'n {
        way.iter()
            .flat_map(|visit| visit.peer.iter().chain([&visit.agent]))
            .map(move |name| self.name_abroad(own, name))
    }

    pub(super) fn name_abroad(&self, own: &OwnKey, agent: &str) -> String {
        match self.agents.get(agent) {
            Some(id) => id.to_string(),
            None if is_name_abroad(agent) => agent.to_owned(),
            None => format!("{}{OF_GATEWAY}{agent}", own.id),
        }
    }

    /// The name here of an agent that another gateway names, so that a chain that comes back is seen to. None if that is
    /// nothing that gateways call agents.
    pub(super) fn name_at_home(&self, agent: &str, now: Millis) -> Option<Arc<str>> {
        if !is_name_abroad(agent) {
            return None;
        }
        let own = match agent.split_once(OF_GATEWAY) {
            Some((gateway, name)) => {
                let is_own = AgentId::parse(gateway).is_ok_and(|gateway| self.is_own(&gateway, now));
                is_own.then(|| Arc::from(name))
            }
            None => {
                let id = AgentId::parse(agent).ok();
                self.agents.iter().find(|(_, known)| Some(**known) == id).map(|(name, _)| name.clone())
            }
        };
        Some(own.unwrap_or_else(|| agent.into()))
    }
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation")
            .field("own", &self.own.load().id)
            .field("gateways", &self.gateways)
            .finish_non_exhaustive()
    }
}

/// Whether a text names an agent as gateways do among each other.
fn is_name_abroad(text: &str) -> bool {
    let (id, name) = text.split_once(OF_GATEWAY).map_or((text, None), |(id, name)| (id, Some(name)));
    let is_plain = |name: &str| {
        let fits = !name.is_empty() && !name.contains(OF_GATEWAY) && text.len() <= LONGEST_NAME;
        fits && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    AgentId::parse(id).is_ok() && name.is_none_or(is_plain)
}

/// The root here of what is done for a call of another gateway: the same for all of it, and nobody else's. It begins with the
/// time of that call, as the id of a call does.
pub(super) fn root_here(gateway: &AgentId, hop: HopId) -> HopId {
    let digest = Sha256::new().chain_update(gateway.to_string()).chain_update(hop.as_bytes()).finalize();
    let mut bytes = *hop.as_bytes();
    bytes[6..].copy_from_slice(&digest[..10]);
    (bytes[6], bytes[8]) = (0x70 | bytes[6] & 0x0f, 0x80 | bytes[8] & 0x3f);
    HopId::from_bytes(bytes)
}

// === impl OwnKey ===

impl OwnKey {
    /// With the ids that the gateway had before, each until it is forgotten.
    pub fn new(key: AgentKey, earlier: impl IntoIterator<Item = (AgentId, Millis)>) -> Self {
        Self { id: key.id(), key, earlier: earlier.into_iter().collect() }
    }
}

impl fmt::Debug for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn federation(seed: u8, agents: &[(&str, u8)]) -> Federation {
        let agents =
            agents.iter().map(|(name, key)| (Arc::from(*name), AgentKey::from_seed(&[*key; 32]).id()));
        Federation::new(OwnKey::new(AgentKey::from_seed(&[seed; 32]), []), [], agents)
    }

    #[test]
    fn an_agent_is_known_by_its_key_wherever_it_is_served_and_else_by_its_gateway() {
        let (one, other) = (federation(1, &[("scout", 9)]), federation(2, &[("helper", 9)]));
        let there = |name: &str| {
            let abroad = one.name_abroad(&one.own(), name);
            (other.name_at_home(&abroad, Millis(0)).unwrap(), abroad)
        };
        assert_eq!(&*there("scout").0, "helper");
        let (seen, abroad) = there("echo");
        assert_eq!(*seen, *abroad, "an agent there may have the same name");
        assert_eq!(other.name_abroad(&other.own(), &seen), abroad, "who passes it on does not change it");
        assert_eq!(&*one.name_at_home(&abroad, Millis(0)).unwrap(), "echo");
    }

    #[test]
    fn a_gateway_with_a_new_key_knows_its_own_agents_by_the_old_one_for_a_while() {
        let gateway = federation(1, &[]);
        let (before, old) = (gateway.name_abroad(&gateway.own(), "echo"), gateway.own().id);
        gateway.change_key(OwnKey::new(AgentKey::from_seed(&[2; 32]), [(old, Millis(100))]));
        assert_ne!(gateway.name_abroad(&gateway.own(), "echo"), before);
        assert_eq!(&*gateway.name_at_home(&before, Millis(99)).unwrap(), "echo");
        assert_eq!(*gateway.name_at_home(&before, Millis(100)).unwrap(), *before);
    }

    #[test]
    fn what_no_gateway_calls_an_agent_is_no_name() {
        let gateway = federation(1, &[]);
        let id = gateway.own().id;
        for text in [
            "echo",
            "",
            "#",
            "x#y",
            &format!("{id}#"),
            &format!("{id}#a#b"),
            &format!("{id}#a b"),
            &format!("{id}#{:0>200}", 1),
        ] {
            assert_eq!(gateway.name_at_home(text, Millis(0)), None, "{text}");
        }
    }

    #[test]
    fn a_root_from_elsewhere_is_of_its_gateway_alone_and_keeps_its_time() {
        let (one, other) = (federation(1, &[]).own().id, federation(2, &[]).own().id);
        let hop = HopId::generate();
        let root = root_here(&one, hop);
        assert_eq!(root, root_here(&one, hop));
        assert_ne!(root, root_here(&other, hop));
        assert_ne!(root, root_here(&one, HopId::generate()));
        assert_eq!(root.as_bytes()[..6], hop.as_bytes()[..6]);
    }
}
