//! When a credential ends: an API key is taken back or past its time, a token of a turn is of a call that is over.

use std::sync::Arc;
use std::time::Duration;

use chancery_control::Plane;
use chancery_control::identity::{KeyRing, call_of};
use chancery_protocol::{BoxFuture, Caller};
use tokio::sync::watch;

use super::keys::LiveKeys;
use super::now;

/// How long is slept at a time. The clock of the machine may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(60);
/// How often it is looked whether a call is over.
const LOOK: Duration = Duration::from_millis(250);

/// Tells when credentials end.
#[derive(Clone)]
pub(super) struct Revoked {
    ring: Arc<KeyRing>,
    changed: watch::Receiver<()>,
    plane: Arc<Plane>,
}

impl Revoked {
    /// For the keys of a gateway, and the calls that are open there.
    pub(super) fn of(keys: &LiveKeys, plane: Arc<Plane>) -> Self {
        Self { ring: keys.ring.clone(), changed: keys.changed.subscribe(), plane }
    }

    /// When that ends which a caller was let in with; none if it does not.
    pub(super) fn when(&self, caller: &Caller) -> Option<BoxFuture<'static, ()>> {
        if call_of(&caller.principal).is_some() {
            let (plane, acting) = (self.plane.clone(), caller.principal.clone());
            return Some(Box::pin(async move {
                while plane.root_caller(&acting).is_some() {
                    tokio::time::sleep(LOOK).await;
                }
            }));
        }
        let key = caller.identity.key.clone()?;
        let Self { ring, mut changed, .. } = self.clone();
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
