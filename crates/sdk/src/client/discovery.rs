//! Finding an agent's card and keeping it for as long as one may.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use chancery_protocol::{AgentCard, Version};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::error::ClientError;
use super::freshness::{Asked, Freshness};
use super::origin::Origin;
use super::peer::Peer;
use super::retry;
use super::secrets::Secrets;
use super::settings::Settings;
use super::transport::{Outgoing, Terms, Transport, bare_status, whole};
use crate::dialect::card;

/// Where the card of an agent is found, below the agent's URL; before version 0.3 it was at the second of these.
const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];
/// What is said of an agent that does not answer.
pub(crate) const UNREACHABLE: &str = "unreachable";
/// For this long, calls go where the card last said without asking again, however short the card's own life is.
const CALLS_WITHOUT_ASKING: Duration = Duration::from_secs(60);
/// A card is small, and whoever calls waits for it first.
const CARD_TIMEOUT: Duration = Duration::from_secs(10);

/// The card of one agent.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// Where the card may be, the likeliest place first.
    places: Vec<Uri>,
    origin: Arc<Origin>,
    known: Mutex<Option<Known>>,
    /// One question at a time; whoever waited looks again.
    asking: tokio::sync::Mutex<()>,
    seen: watch::Sender<CardSeen>,
}

/// What has been seen of an agent's card.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CardSeen {
    /// The last one that was good.
    pub(crate) card: Option<Arc<AgentCard>>,
    /// The name of the key that it is signed with, if that was looked at.
    pub(crate) key: Option<String>,
    /// The SHA-256 of its text as it came, in hexadecimal.
    pub(crate) digest: Option<String>,
    /// Why it could not be had when it was last asked for, for anybody to read.
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    peer: Arc<Peer>,
    /// Where it was found.
    place: usize,
    fresh: Arc<Freshness>,
    checked: Instant,
}

/// How badly a card is wanted anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// To call the agent.
    ForCalls,
    /// As RFC 9111 has it.
    Fresh,
    /// From the agent itself, whatever is known.
    Anew,
}

/// A URL as it may be shown: who has put a password into it has not meant it for a log.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => url.to_owned(),
    }
}

impl Discovery {
    /// Takes the agent's URL, or that of its card. The second is the origin that the user named.
    pub(crate) fn new(url: &str) -> Result<(Self, Origin), ClientError> {
        let problem = |why: &str| {
            let url = without_user(url);
            ClientError::Configuration(format!("`{url}` is no agent's URL: {why}"))
        };
        let given: Uri = url.parse().map_err(|_| problem("it cannot be read"))?;
        let named = Origin::of(&given).map_err(problem)?;
        let places = if given.path().ends_with(".json") {
            vec![given]
        } else {
            let base = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            let below = |path| format!("{base}{path}").parse().map_err(|_| problem("it cannot be read"));
            WELL_KNOWN.into_iter().map(below).collect::<Result<_, _>>()?
        };
        let origin = Arc::new(named.clone());
        let (known, asking) = (Mutex::new(None), tokio::sync::Mutex::new(()));
        let discovery = Self { places, origin, known, asking, seen: watch::Sender::default() };
        Ok((discovery, named))
    }

    /// Where and how to call, if nobody has to be asked for it.
    pub(crate) fn known_peer(&self, now: Instant) -> Option<Arc<Peer>> {
        self.usable(Wanted::ForCalls, now)
    }

    /// Where and how to call.
    pub(crate) async fn peer(
        &self,
        transport: &Transport,
        settings: &Settings,
    ) -> Result<Arc<Peer>, ClientError> {
        self.obtain(transport, settings, Wanted::ForCalls).await
    }

    /// The card, asked for again if it is no longer fresh.
    pub(crate) async fn card(
        &self,
        transport: &Transport,
        settings: &Settings,
    ) -> Result<Arc<AgentCard>, ClientError> {
        Ok(self.obtain(transport, settings, Wanted::Fresh).await?.card.clone())
    }

    /// What has been seen of the card, now and from now on.
    pub(crate) fn seen(&self) -> watch::Receiver<CardSeen> {
        self.seen.subscribe()
    }

    /// Where the agent is, as the user said it, or where its card is.
    pub(crate) fn url(&self) -> String {
        let place = self.places.first().map(ToString::to_string).unwrap_or_default();
        let place = place.split(['?', '#']).next().unwrap_or_default();
        place.strip_suffix(WELL_KNOWN[0]).unwrap_or(place).to_owned()
    }

    /// The status of the answer to a request for a path of the host that the user named.
    pub(crate) async fn probe(&self, transport: &Transport, path: &str) -> Result<StatusCode, ClientError> {
        let uri = format!("{}{path}", self.origin);
        let uri = uri.parse().map_err(|_| ClientError::Configuration(format!("`{path}` is no path")))?;
        let (response, _place) =
            transport.exchange(&self.get(uri, Version::V1_0), &Terms::default(), None).await?;
        Ok(response.status())
    }

    fn get(&self, uri: Uri, version: Version) -> Outgoing {
        Outgoing {
            operation: None,
            version,
            method: Method::GET,
            uri,
            origin: self.origin.clone(),
            accept: HeaderValue::from_static("application/json"),
            content_type: None,
            body: Bytes::new(),
            is_grpc: false,
        }
    }

    /// The card, asked for again whatever is known.
    pub(crate) async fn refresh(
        &self,
        transport: &Transport,
        settings: &Settings,
    ) -> Result<Arc<AgentCard>, ClientError> {
        Ok(self.obtain(transport, settings, Wanted::Anew).await?.card.clone())
    }

    async fn obtain(
        &self,
        transport: &Transport,
        settings: &Settings,
        wanted: Wanted,
    ) -> Result<Arc<Peer>, ClientError> {
        if let Some(peer) = self.usable(wanted, Instant::now()) {
            return Ok(peer);
        }
        let _turn = self.asking.lock().await;
        if let Some(peer) = self.usable(wanted, Instant::now()) {
            return Ok(peer);
        }
        let known = self.known.lock().clone();
        match self.ask(transport, settings, known.as_ref(), wanted).await {
            Ok(found) => {
                let peer = found.peer.clone();
                self.note(|_| CardSeen {
                    card: Some(peer.card.clone()),
                    key: peer.signed_by.clone(),
                    digest: Some(peer.digest.clone()),
                    error: None,
                });
                *self.known.lock() = Some(found);
                Ok(peer)
            }
            Err(error) => {
                self.note(|seen| CardSeen { error: Some(unseen(&error)), ..seen.clone() });
                if matches!(error, ClientError::Untrusted(_)) {
                    // Whoever shows another card now than one that was believed is not believed by the old one either.
                    *self.known.lock() = None;
                }
                match known {
                    Some(known) if settings.stale_card_on_error && known.may_be_stale(&error, wanted) => {
                        tracing::warn!(%error, "using a card that could not be confirmed");
                        Ok(known.peer)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// Tells those who watch what has been seen, if it is anything new.
    fn note(&self, now: impl FnOnce(&CardSeen) -> CardSeen) {
        self.seen.send_if_modified(|seen| {
            let now = now(seen);
            let is_new = now != *seen;
            *seen = now;
            is_new
        });
    }

    fn usable(&self, wanted: Wanted, now: Instant) -> Option<Arc<Peer>> {
        let known = self.known.lock();
        let known = known.as_ref()?;
        let recent = now.saturating_duration_since(known.checked) < CALLS_WITHOUT_ASKING;
        let usable = match wanted {
            Wanted::ForCalls => recent || known.fresh.is_fresh(now),
            Wanted::Fresh => known.fresh.is_fresh(now),
            Wanted::Anew => false,
        };
        usable.then(|| known.peer.clone())
    }

    async fn ask(
        &self,
        transport: &Transport,
        settings: &Settings,
        known: Option<&Known>,
        wanted: Wanted,
    ) -> Result<Known, ClientError> {
        let known = known.filter(|known| known.fresh.may_store);
        let mut failed = 0;
        loop {
            let limit = settings.request_timeout.min(CARD_TIMEOUT);
            let attempt = timeout(limit, self.ask_once(transport, settings, known, wanted)).await;
            let error = match attempt {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => error,
                Err(_) => return Err(ClientError::TimedOut { what: "the agent's card", after: limit }),
            };
            failed += 1;
            match retry::pause(&error, true, failed, settings.retries) {
                Some(pause) if transport.budget.spend() => sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Asks where the card was last, then everywhere else. What the first place says of it counts.
    async fn ask_once(
        &self,
        transport: &Transport,
        settings: &Settings,
        known: Option<&Known>,
        wanted: Wanted,
    ) -> Result<Known, ClientError> {
        let first = known.map_or(0, |known| known.place);
        let others = (0..self.places.len()).filter(|place| *place != first);
        let mut missing = None;
        for place in std::iter::once(first).chain(others) {
            let known = known.filter(|known| known.place == place);
            match self.ask_at(place, transport, settings, known, wanted).await {
                Err(error @ ClientError::Status { status: StatusCode::NOT_FOUND, .. }) => {
                    missing.get_or_insert(error);
                }
                answer => return answer,
            }
        }
        Err(missing.unwrap_or_else(|| ClientError::bad("there is no card")))
    }

    async fn ask_at(
        &self,
        place: usize,
        transport: &Transport,
        settings: &Settings,
        known: Option<&Known>,
        wanted: Wanted,
    ) -> Result<Known, ClientError> {
        let mut terms = Terms::default();
        terms.conditions.extend(known.map(|known| known.fresh.conditions()).unwrap_or_default());
        if wanted == Wanted::Anew {
            // Caches on the way have to ask too.
            terms.conditions.push((header::CACHE_CONTROL, HeaderValue::from_static("no-cache")));
        }
        // Servers of several versions show each its own card.
        let version = settings.version.unwrap_or(Version::V1_0);
        let outgoing = self.get(self.places[place].clone(), version);
        let at = Instant::now();
        let (response, _place) = transport.exchange(&outgoing, &terms, None).await?;
        let asked = Asked { at, answered: Instant::now(), wall_clock: SystemTime::now() };
        let (head, body) = response.into_parts();
        let body = whole(body, &self.origin, settings.card_bytes).await?;
        match (head.status, known) {
            (StatusCode::OK, _) => {
                let signed_by = match &settings.card_check {
                    Some(check) => check(&body).map_err(ClientError::Untrusted)?,
                    None => None,
                };
                let card = card::read(&body).map_err(|error| unreadable(&error))?;
                let fresh = Arc::new(Freshness::of(&head.headers, asked));
                let peer = Peer::new(card, settings, &self.origin)?;
                let digest = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
                let peer = Arc::new(Peer { signed_by, digest, ..peer });
                Ok(Known { peer, place, fresh, checked: asked.answered })
            }
            (StatusCode::NOT_MODIFIED, Some(known)) => {
                let fresh = Arc::new(known.fresh.confirmed(&head.headers, asked));
                Ok(Known { peer: known.peer.clone(), place, fresh, checked: asked.answered })
            }
            _ => Err(Secrets::of(settings, None).scrubbed(bare_status(&head, &body))),
        }
    }
}

impl Known {
    /// A card that cannot be confirmed because nobody answers may do for a while, if it does not say otherwise. So it does to call
    /// an agent that shows something else where its card was.
    fn may_be_stale(&self, error: &ClientError, wanted: Wanted) -> bool {
        use ClientError::{BadAnswer, Status, TooLarge};
        let is_unread = matches!(error, BadAnswer(_) | TooLarge { .. } | Status { .. });
        let excused = error.is_retryable() || is_unread && wanted == Wanted::ForCalls;
        wanted != Wanted::Anew && excused && self.fresh.may_store && !self.fresh.must_revalidate
    }
}

/// Why a card cannot be had, for anybody to read: what the agent is to be blamed for, and nothing of where it is.
fn unseen(error: &ClientError) -> String {
    match error {
        ClientError::Untrusted(why) => format!("untrusted: {why}"),
        ClientError::Status { status, .. } => format!("it was answered with HTTP status {}", status.as_u16()),
        ClientError::BadAnswer(_) | ClientError::Peer(_) => "the answer is no card of A2A".to_owned(),
        ClientError::TooLarge { limit, .. } => format!("the card is larger than {limit} bytes"),
        ClientError::NoInterface { .. } => "the card names no interface that can be used".to_owned(),
        ClientError::Refused { .. } => "it may not be connected to".to_owned(),
        _ => UNREACHABLE.to_owned(),
    }
}

fn unreadable(error: &chancery_protocol::Error) -> ClientError {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    ClientError::BadAnswer(format!("it is no card of A2A: {why}"))
}
