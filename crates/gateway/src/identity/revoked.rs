//! When an API key ends: taken back, or past its time.

use std::sync::Arc;
use std::time::Duration;

use chancery_control::identity::KeyRing;
use chancery_protocol::{BoxFuture, Caller};
use tokio::sync::watch;

use super::keys::LiveKeys;
use super::now;

/// How long is slept at a time. The clock of the machine may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(60);

/// Tells when keys end.
#[derive(Clone)]
pub(super) struct Revoked {
    ring: Arc<KeyRing>,
    changed: watch::Receiver<()>,
}

impl Revoked {
    /// For the keys of a gateway.
    pub(super) fn of(keys: &LiveKeys) -> Self {
        Self { ring: keys.ring.clone(), changed: keys.changed.subscribe() }
    }

    /// When the key ends that a caller has shown; none if it has shown none.
    pub(super) fn when(&self, caller: &Caller) -> Option<BoxFuture<'static, ()>> {
        let key = caller.identity.key.clone()?;
        let Self { ring, mut changed } = self.clone();
        Some(Box::pin(async move {
            while let Some(end) = ring.good_until(&key, now()) {
                let left = Duration::from_millis(end.0.saturating_sub(now().0)).min(LONGEST);
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    Ok(()) = changed.changed() => {}
                }
            }
        }))
    }
}
