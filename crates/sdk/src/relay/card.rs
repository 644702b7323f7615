//! The card that is shown of the agents behind a relay: whose it is, and how far it is believed.

use super::Relay;
use crate::client::{CardSeen, Client};

impl Relay {
    /// The clients of the agents behind it: first of the one whose card was found when it was made.
    pub fn clients(&self) -> Vec<Client> {
        let others = self.peers.clients().into_iter().filter(|client| !client.is(&self.client));
        std::iter::once(self.client.clone()).chain(others).collect()
    }

    /// Of those, the first that has shown a good one when it was last asked, or else the first.
    fn card_source(&self) -> Client {
        let is_well = |client: &Client| {
            let seen = client.card_seen();
            let seen = seen.borrow();
            seen.card.is_some() && seen.error.is_none()
        };
        self.clients().into_iter().find(is_well).unwrap_or_else(|| self.client.clone())
    }

    /// What has been seen of the card that is shown.
    pub(crate) fn card_seen(&self) -> CardSeen {
        self.card_source().card_seen().borrow().clone()
    }

    /// How far what the agent says is believed.
    pub(crate) fn trust_tier(&self, seen: &CardSeen) -> &'static str {
        match (self.settings.tells_lineage, &seen.key) {
            (false, _) => "untrusted",
            (true, Some(_)) => "verified",
            (true, None) => "trusted",
        }
    }
}
