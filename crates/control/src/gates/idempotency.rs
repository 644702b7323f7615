//! Whether an equal call was let through before: then it joins that one's task, and is not paid for twice.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use chancery_protocol::Principal;
use parking_lot::Mutex;

use crate::gate::{Gate, Passage, Verdict};

/// The second gate.
#[derive(Debug)]
pub struct IdempotencyGate;

/// The keys of calls that the journal does not know yet. A call that brings one of them waits: then it joins the task that the
/// first has begun, or, if that came to nothing, takes its place. It holds no money meanwhile.
#[derive(Debug, Default)]
pub(crate) struct KeysInFlight(Mutex<HashMap<ScopedKey, Vec<Waker>>>);

/// A key, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ScopedKey {
    realm: Arc<str>,
    caller: Arc<str>,
    agent: Arc<str>,
    key: String,
}

/// No other call with the key goes on. Dropped when the journal knows the call, or nothing comes of it.
#[derive(Debug)]
pub(crate) struct KeyClaim {
    keys: Arc<KeysInFlight>,
    key: ScopedKey,
}

impl Gate for IdempotencyGate {
    fn name(&self) -> &'static str {
        "idempotency"
    }

    fn admit(&self, passage: &mut Passage) -> Verdict {
        let Some(key) = passage.call.context.idempotency_key.clone() else { return Verdict::Admit };
        let (principal, agent) = (passage.call.context.principal.clone(), passage.agent.name.clone());
        let (hands, keys) = (passage.plane.hands.clone(), passage.plane.keys_in_flight.clone());
        let is_rehearsal = passage.rehearsal;
        Verdict::Wait(Box::pin(async move {
            let claim = match is_rehearsal {
                true => None,
                false => Some(keys.claim(ScopedKey::new(&principal, &agent, &key)).await),
            };
            let known = hands.task_of_key(principal, agent, key).await;
            Box::new(move |passage: &mut Passage| {
                passage.note("idempotency", || match &known {
                    Some(task) => format!("the key belongs to task {task}, which this call joins"),
                    None => "the key has not been used".to_owned(),
                });
                passage.given.key_claim = claim.filter(|_| known.is_none());
                passage.given.repeats = known;
                Verdict::Admit
            }) as crate::gate::Continue
        }))
    }
}

// === impl KeysInFlight ===

impl KeysInFlight {
    /// Waits until no other call with the key is on its way.
    fn claim(self: Arc<Self>, key: ScopedKey) -> impl Future<Output = KeyClaim> {
        poll_fn(move |context| {
            let mut in_flight = self.0.lock();
            if let Some(waiting) = in_flight.get_mut(&key) {
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            }
            in_flight.insert(key.clone(), Vec::new());
            Poll::Ready(KeyClaim { keys: self.clone(), key: key.clone() })
        })
    }
}

impl ScopedKey {
    fn new(principal: &Principal, agent: &Arc<str>, key: &str) -> Self {
        let Principal { realm, id } = principal;
        Self { realm: realm.clone(), caller: id.clone(), agent: agent.clone(), key: key.to_owned() }
    }
}

// === impl KeyClaim ===

impl Drop for KeyClaim {
    fn drop(&mut self) {
        let waiting = self.keys.0.lock().remove(&self.key);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    #[test]
    fn a_key_is_free_again_when_its_call_is_known_or_came_to_nothing() {
        let keys = Arc::new(KeysInFlight::default());
        let (alice, agent) = (Principal { realm: "default".into(), id: "alice".into() }, "echo".into());
        let key = |text: &str| ScopedKey::new(&alice, &agent, text);
        let mut context = Context::from_waker(Waker::noop());
        let mut first = Box::pin(keys.clone().claim(key("one")));
        let Poll::Ready(claim) = first.as_mut().poll(&mut context) else { panic!("the key is free") };
        let mut second = Box::pin(keys.clone().claim(key("one")));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(Box::pin(keys.clone().claim(key("two"))).as_mut().poll(&mut context).is_ready());
        drop(claim);
        assert!(second.as_mut().poll(&mut context).is_ready());
        assert!(keys.0.lock().is_empty());
    }
}
