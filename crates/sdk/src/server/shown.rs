//! The cards of an agent as they are now. Those of an agent elsewhere follow its own: what it says about itself there is
//! said here too, a while later.

use std::sync::{Arc, Weak};
use std::time::Duration;

use chancery_protocol::{AgentCard, Error};
use parking_lot::{Mutex, RwLock};
use tokio::time::sleep;

use super::card::{CardSigner, Cards, Place, derive_relayed};
use super::versions::Versions;
use crate::client::ClientError;
use crate::relay::{Relay, untrusted};

/// How long to wait before an agent that has never been reached is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What is shown of an agent.
pub(crate) struct Shown {
    now: RwLock<Arc<Cards>>,
    /// What it says, before it is signed.
    card: Mutex<AgentCard>,
    versions: Versions,
    signer: Option<Arc<dyn CardSigner>>,
}

impl Shown {
    pub(super) fn new(
        card: AgentCard,
        versions: &Versions,
        signer: Option<Arc<dyn CardSigner>>,
    ) -> Result<Arc<Self>, Error> {
        let now = RwLock::new(Arc::new(Cards::new(&card, versions, signer.as_ref())?));
        Ok(Arc::new(Self { now, card: Mutex::new(card), versions: versions.clone(), signer }))
    }

    pub(crate) fn now(&self) -> Arc<Cards> {
        self.now.read().clone()
    }

    /// Shows another card from now on.
    fn show(&self, card: AgentCard) -> Result<(), Error> {
        let mut said = self.card.lock();
        *self.now.write() = Arc::new(Cards::new(&card, &self.versions, self.signer.as_ref())?);
        *said = card;
        Ok(())
    }

    /// Signs the card again, with the keys that there are now.
    pub(super) fn sign_again(&self) -> Result<(), Error> {
        let said = self.card.lock();
        *self.now.write() = Arc::new(Cards::new(&said, &self.versions, self.signer.as_ref())?);
        Ok(())
    }

    /// Follows the card of the agent behind a relay, for as long as anybody can see this.
    pub(super) fn follow(self: &Arc<Self>, relay: Relay, place: Place) {
        tokio::spawn(follow(Arc::downgrade(self), relay, place));
    }
}

async fn follow(shown: Weak<Shown>, mut relay: Relay, place: Place) {
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
            Err(ClientError::Untrusted(why)) => {
                tracing::error!(agent = &*relay.name, why, "the card of an agent elsewhere is not trusted");
                relay.card_error = Some(untrusted(&why));
                if let (None, Some(shown)) = (&known, shown.upgrade()) {
                    let _ = shown.show(derive_relayed(&relay, None, &place));
                }
                continue;
            }
            Err(error) => {
                tracing::debug!(agent = &*relay.name, %error, "the card of an agent elsewhere cannot be had");
                continue;
            }
        };
        if known.as_deref() == Some(&*card) {
            continue;
        }
        let Some(shown) = shown.upgrade() else { return };
        if let Err(error) = shown.show(derive_relayed(&relay, Some(&card), &place)) {
            tracing::warn!(agent = &*relay.name, %error, "the card of an agent elsewhere cannot be shown");
        }
        tracing::info!(agent = &*relay.name, "the card of an agent elsewhere is another now");
        known = Some(card);
    }
}
