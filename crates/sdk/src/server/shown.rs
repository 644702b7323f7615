//! The cards of an agent as they are now. Those of an agent elsewhere follow its own: what it says about itself there is
//! said here too, a while later.

use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_protocol::AgentCard;
use parking_lot::RwLock;
use tokio::time::sleep;

use super::card::{Cards, Place, derive_relayed};
use crate::relay::Relay;

/// How long to wait before an agent that has never been reached is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What is shown of an agent.
#[derive(Debug)]
pub(crate) struct Shown(RwLock<Arc<Cards>>);

impl Shown {
    pub(super) fn new(cards: Cards) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(cards))))
    }

    pub(crate) fn now(&self) -> Arc<Cards> {
        self.0.read().clone()
    }

    /// Follows the card of the agent behind a relay, for as long as anybody can see this.
    pub(super) fn follow(self: &Arc<Self>, relay: Relay, place: Place) {
        tokio::spawn(follow(Arc::downgrade(self), relay, place));
    }
}

async fn follow(shown: Weak<Shown>, relay: Relay, place: Place) {
    let mut known: Option<Arc<AgentCard>> = relay.card.clone();
    let mut pause = FIRST_PAUSE.min(relay.card_checks);
    loop {
        if known.is_some() {
            pause = relay.card_checks;
        }
        sleep(pause).await;
        pause = (pause * 2).min(relay.card_checks);
        if shown.strong_count() == 0 {
            return;
        }
        // The client asks only when what it has is no longer fresh, and whether it has changed.
        let card = match relay.client.card().await {
            Ok(card) => card,
            Err(error) => {
                tracing::debug!(agent = &*relay.name, %error, "the card of an agent elsewhere cannot be had");
                continue;
            }
        };
        if known.as_deref() == Some(&*card) {
            continue;
        }
        let (Some(shown), written) = (
            shown.upgrade(),
            Cards::new(Arc::new(derive_relayed(&relay, Some(&card), &place)), &place.versions),
        ) else {
            return;
        };
        match written {
            Ok(cards) => *shown.0.write() = Arc::new(cards),
            Err(error) => {
                tracing::warn!(agent = &*relay.name, %error, "the card of an agent elsewhere cannot be shown");
            }
        }
        tracing::info!(agent = &*relay.name, "the card of an agent elsewhere is another now");
        known = Some(card);
    }
}
