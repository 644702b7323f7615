//! The cards of an agent as they are now. Those of an agent elsewhere follow its own: what it says about itself there is
//! said here too, a while later, and if it cannot be asked any more, the card says so.

use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_protocol::AgentCard;
use http::Response;
use http::request::Parts;
use parking_lot::RwLock;
use tokio::time::sleep;

use super::body::Body;
use super::card::{CardSigner, Cards, Place, derive_relayed};
use super::versions::Versions;
use crate::binding::rest;
use crate::relay::Relay;

/// How long to wait before an agent that has never been reached is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What is shown of an agent.
pub(crate) struct Shown {
    now: RwLock<Arc<Cards>>,
    versions: Versions,
    signer: Option<Arc<dyn CardSigner>>,
}

impl Shown {
    pub(super) fn new(
        card: AgentCard,
        versions: &Versions,
        signer: Option<Arc<dyn CardSigner>>,
    ) -> Arc<Self> {
        let now = RwLock::new(Arc::new(Cards::new(card, versions, signer.as_ref())));
        Arc::new(Self { now, versions: versions.clone(), signer })
    }

    pub(crate) fn now(&self) -> Arc<Cards> {
        self.now.read().clone()
    }

    /// Answers who asks for the card.
    pub(super) fn respond(&self, agent: &str, head: &Parts) -> Response<Body> {
        self.now().respond(head).unwrap_or_else(|error| {
            tracing::error!(agent, ?error, "a card cannot be written");
            rest::fail(rest::wants_a2a_json(head), &error)
        })
    }

    /// Shows another card from now on.
    fn show(&self, card: AgentCard) {
        *self.now.write() = Arc::new(Cards::new(card, &self.versions, self.signer.as_ref()));
    }

    /// Has the card signed again, with the keys that there are then.
    pub(super) fn sign_again(&self) {
        let mut now = self.now.write();
        let card = AgentCard::clone(&now.card);
        *now = Arc::new(Cards::new(card, &self.versions, self.signer.as_ref()));
    }

    /// Follows the card of the agent behind a relay, for as long as anybody can see this.
    pub(super) fn follow(self: &Arc<Self>, relay: Relay, place: Place) {
        tokio::spawn(follow(Arc::downgrade(self), relay, place));
    }
}

async fn follow(shown: Weak<Shown>, relay: Relay, place: Place) {
    let mut known = relay.card_seen();
    let mut changes = relay.client.card_seen();
    let mut pause = FIRST_PAUSE.min(relay.card_checks);
    loop {
        if known.card.is_some() {
            pause = relay.card_checks;
        }
        // Whoever else asks the agent for its card may be told of another one before it is time.
        tokio::select! {
            () = sleep(pause) => pause = (pause * 2).min(relay.card_checks),
            _ = changes.changed() => {}
        }
        if shown.strong_count() == 0 {
            return;
        }
        ask(&relay).await;
        let now = relay.card_seen();
        if now == known {
            continue;
        }
        let Some(shown) = shown.upgrade() else { return };
        let agent = &*relay.name;
        if let Some(why) = &now.error {
            tracing::warn!(agent, why, "the card of an agent elsewhere cannot be had");
        } else {
            tracing::info!(agent, "the card of an agent elsewhere is another now");
        }
        shown.show(derive_relayed(&relay, &now, &place));
        known = now;
    }
}

/// Asks the agents behind a relay for a card, until one shows it. Each is asked only if what it showed last is no longer
/// fresh, and whether that has changed.
async fn ask(relay: &Relay) {
    for client in relay.clients() {
        match client.card().await {
            Ok(_) => return,
            Err(error) => {
                let (agent, url) = (&*relay.name, client.url());
                tracing::debug!(agent, url, %error, "the card of an agent elsewhere cannot be had");
            }
        }
    }
}
