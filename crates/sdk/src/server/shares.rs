//! What each owner has of a server at a time: open streams, and bytes of large answers that nobody has read yet. No owner can
//! use up what the others need.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{
    Error, ErrorCode, Event, EventStream, Principal, Reply, SendMessageResponse, TaskView, network_of,
};
use foldhash::fast::RandomState;
use futures_core::Stream;
use parking_lot::Mutex;

use super::limits::ServerLimits;

/// Whose share it is. Anonymous callers are one owner everywhere else; here each network of theirs is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sharer {
    principal: Principal,
    source: Option<IpAddr>,
}

/// What all owners have at a time.
#[derive(Debug)]
pub(crate) struct Shares {
    limits: ServerLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: Amounts,
    by_sharer: HashMap<Sharer, Amounts, RandomState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    streams: usize,
    unread: usize,
}

/// A part of a share, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    sharer: Sharer,
    part: Amounts,
}

/// Answers of fewer bytes are not counted: there can only be as many of them as there are requests.
const LARGE: usize = 16 << 10;

/// When somebody who has too much of something may try again.
const LATER: Duration = Duration::from_secs(1);

// === impl Sharer ===

impl Sharer {
    pub(super) fn new(principal: &Principal, source: Option<IpAddr>) -> Self {
        let source = source.filter(|_| principal.is_anonymous()).map(network_of);
        Self { principal: principal.clone(), source }
    }
}

// === impl Shares ===

impl Shares {
    pub(super) fn new(limits: &ServerLimits) -> Arc<Self> {
        Arc::new(Self { limits: *limits, taken: Mutex::default() })
    }

    pub(super) fn open_streams(&self) -> usize {
        self.taken.lock().all.streams
    }

    /// The place of a stream.
    pub(super) fn stream(self: &Arc<Self>, sharer: Sharer) -> Result<Share, Error> {
        let limits = self.limits;
        self.take(sharer, Amounts { streams: 1, unread: 0 }, |all, own| {
            if all.streams > limits.streams {
                return Err(Error::with_message(
                    ErrorCode::Unavailable,
                    "Too many streams are open; try again later",
                ));
            }
            if own.streams > limits.streams_per_owner {
                let most = limits.streams_per_owner;
                let text = format!(
                    "You have {most} streams open, which is as many as one caller may; end one first"
                );
                return Err(Error::with_message(ErrorCode::ResourceExhausted, text));
            }
            Ok(())
        })
    }

    /// Room for an answer, if it is a large one. Whoever has none to be read yet gets it however large it is.
    pub(super) fn unread(self: &Arc<Self>, sharer: &Sharer, bytes: usize) -> Result<Option<Share>, Error> {
        if bytes < LARGE {
            return Ok(None);
        }
        let limits = self.limits;
        let share = self.take(sharer.clone(), Amounts { streams: 0, unread: bytes }, |all, own| {
            if own.unread > limits.unread_bytes_per_owner.max(bytes) {
                let most = limits.unread_bytes_per_owner >> 10;
                let text = format!(
                    "Answers of more than {most} KiB wait to be read by you; read them, then ask again, or ask for less at a time"
                );
                return Err(Error::with_message(ErrorCode::ResourceExhausted, text));
            }
            if all.unread > limits.unread_bytes.max(bytes) {
                let text = "Too many large answers wait to be read; try again later";
                return Err(Error::with_message(ErrorCode::Unavailable, text));
            }
            Ok(())
        });
        share.map(Some)
    }

    fn take(
        self: &Arc<Self>,
        sharer: Sharer,
        part: Amounts,
        check: impl FnOnce(Amounts, Amounts) -> Result<(), Error>,
    ) -> Result<Share, Error> {
        let mut taken = self.taken.lock();
        let own = taken.by_sharer.get(&sharer).copied().unwrap_or_default().with(part);
        let all = taken.all.with(part);
        check(all, own).map_err(|error| error.retry_after(LATER))?;
        taken.all = all;
        taken.by_sharer.insert(sharer.clone(), own);
        drop(taken);
        Ok(Share { shares: self.clone(), sharer, part })
    }
}

// === impl Amounts ===

impl Amounts {
    fn with(self, part: Self) -> Self {
        Self {
            streams: self.streams.saturating_add(part.streams),
            unread: self.unread.saturating_add(part.unread),
        }
    }

    fn without(self, part: Self) -> Self {
        Self {
            streams: self.streams.saturating_sub(part.streams),
            unread: self.unread.saturating_sub(part.unread),
        }
    }

    fn is_nothing(self) -> bool {
        self.streams == 0 && self.unread == 0
    }
}

// === impl Share ===

impl Share {
    /// The bytes of an answer, whose room is free again when the last of them is gone.
    pub(crate) fn hold(held: Option<Self>, bytes: impl Into<Bytes>) -> Bytes {
        struct Held {
            bytes: Bytes,
            _share: Share,
        }
        impl AsRef<[u8]> for Held {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        match held {
            Some(share) => Bytes::from_owner(Held { bytes: bytes.into(), _share: share }),
            None => bytes.into(),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        taken.all = taken.all.without(self.part);
        if let Entry::Occupied(mut own) = taken.by_sharer.entry(self.sharer.clone()) {
            *own.get_mut() = own.get().without(self.part);
            if own.get().is_nothing() {
                own.remove();
            }
        }
    }
}

/// About how many bytes an answer has.
pub(super) fn weight(reply: &Reply) -> usize {
    let of_task = |view: &TaskView| view.task.weight();
    match reply {
        Reply::Sent(SendMessageResponse::Task(view)) | Reply::Task(view) => of_task(view),
        Reply::Sent(SendMessageResponse::Message(message)) => {
            message.parts.iter().map(chancery_protocol::Part::weight).sum()
        }
        Reply::Tasks(page) => page.tasks.iter().map(of_task).sum(),
        _ => 0,
    }
}

/// The events of a stream, the large ones counted until the next is asked for. Who has no room for one is told so, and can take
/// the stream up again after the last event that came.
pub(super) struct CountedEvents {
    events: EventStream,
    first: Option<Result<Event, Error>>,
    shares: Arc<Shares>,
    sharer: Sharer,
    /// Of the event that comes first, or of the one that came last.
    held: Option<Share>,
    over: bool,
}

impl CountedEvents {
    /// Counts the first event where it is there already: it may be the whole task, and nobody knows when it will be read.
    pub(super) async fn begin(
        mut events: EventStream,
        shares: Arc<Shares>,
        sharer: Sharer,
    ) -> Result<EventStream, Error> {
        let first = std::future::poll_fn(|context| Poll::Ready(events.as_mut().poll_next(context))).await;
        let over = matches!(first, Poll::Ready(None));
        let first = match first {
            Poll::Ready(first) => first,
            Poll::Pending => None,
        };
        let held = match &first {
            Some(Ok(event)) => shares.unread(&sharer, event.json.len())?,
            _ => None,
        };
        Ok(Box::pin(Self { events, first, shares, sharer, held, over }))
    }
}

impl Stream for CountedEvents {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(first));
        }
        this.held = None;
        if this.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = this.events.as_mut().poll_next(context) else { return Poll::Pending };
        if let Some(Ok(event)) = &next {
            match this.shares.unread(&this.sharer, event.json.len()) {
                Ok(held) => this.held = held,
                Err(error) => {
                    this.over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.events.size_hint();
        let first = usize::from(self.first.is_some());
        (least + first, most.map(|most| most + first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Arc<Shares> {
        let limits = ServerLimits {
            streams: 3,
            streams_per_owner: 2,
            unread_bytes: 4 * LARGE,
            unread_bytes_per_owner: 2 * LARGE,
            ..ServerLimits::default()
        };
        Shares::new(&limits)
    }

    fn sharer(name: &str, source: [u8; 4]) -> Sharer {
        Sharer::new(&Principal::new("default", name), Some(source.into()))
    }

    #[test]
    fn nobody_has_more_than_their_own_share_and_what_is_dropped_is_free_again() {
        let (shares, alice, bob) = (shares(), sharer("alice", [1; 4]), sharer("bob", [1; 4]));
        let held = [shares.stream(alice.clone()).unwrap(), shares.stream(alice.clone()).unwrap()];
        assert_eq!(shares.stream(alice.clone()).unwrap_err().code(), ErrorCode::ResourceExhausted);
        let bobs = shares.stream(bob.clone()).unwrap();
        assert_eq!(shares.stream(bob).unwrap_err().code(), ErrorCode::Unavailable, "there are only three");
        assert_eq!(shares.open_streams(), 3);
        drop((held, bobs));
        assert_eq!(shares.open_streams(), 0);
        assert!(shares.taken.lock().by_sharer.is_empty());
        shares.stream(alice).unwrap();
    }

    #[test]
    fn large_answers_are_counted_until_their_last_byte_is_gone() {
        let (shares, alice) = (shares(), sharer("alice", [1; 4]));
        assert!(shares.unread(&alice, LARGE - 1).unwrap().is_none());
        let huge = shares.unread(&alice, 100 * LARGE).expect("the first may be of any size");
        assert_eq!(shares.unread(&alice, LARGE).unwrap_err().code(), ErrorCode::ResourceExhausted);
        let mut bytes = Share::hold(huge, vec![0; 10]);
        let tail = bytes.split_off(5);
        drop(bytes);
        assert!(shares.unread(&alice, LARGE).is_err());
        drop(tail);
        shares.unread(&alice, LARGE).unwrap();
    }

    #[test]
    fn anonymous_callers_of_each_network_have_a_share_of_their_own() {
        let shares = shares();
        let [here, there] = [[1; 4], [2; 4]].map(|source| sharer("anonymous", source));
        let _held = [shares.stream(here.clone()).unwrap(), shares.stream(here.clone()).unwrap()];
        assert!(shares.stream(here).is_err());
        shares.stream(there).unwrap();
        assert_eq!(sharer("alice", [1; 4]), sharer("alice", [2; 4]), "who has a name has one share");
    }
}
